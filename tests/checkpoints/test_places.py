"""What must hold of a place, be it a path, an object store or a file system that moves onto nothing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints import lease
from rebalance_monitor.checkpoints.errors import StoreError
from rebalance_monitor.checkpoints.files import (
    FolderError,
    FolderInUseError,
    locked,
    remove_folder,
    replace_file,
    sync_folder,
)
from rebalance_monitor.checkpoints.ledger import Ledger, LedgerError, Snapshot
from rebalance_monitor.checkpoints.lines import lines_at, read_lines
from rebalance_monitor.checkpoints.manifest import (
    Identity,
    Manifest,
    next_generation,
    read_manifest,
    write_manifest,
)
from rebalance_monitor.checkpoints.places import is_remote, is_uri, place_at
from rebalance_monitor.checkpoints.remote import PAUSES_S
from rebalance_monitor.streaming.storage import storage_at
from tests.checkpoints.stores import Faulty, below, faulty_place, s3_place, sub_tree_place

if TYPE_CHECKING:
    import pyarrow.fs as pafs

    from rebalance_monitor.checkpoints.places import Place

KINDS = ("path", "file_uri", "sub_tree", "moves_onto_nothing", "copies", "s3")
TREE = (
    "manifest.json",
    "lock",
    "tables/findings/date=2026-11-21/q-0000000001.parquet",
    "tables/findings/date=2026-11-21/.hidden.draft",
    "tables/findings/date=2026-11-22/q-0000000002.parquet",
    "state/1/offsets/0",
    "state/12/offsets/7",
)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "path":
            return tmp_path
        case "file_uri":
            return place_at(tmp_path.as_uri())
        case "sub_tree":
            return sub_tree_place(tmp_path)
        case "moves_onto_nothing":
            return faulty_place(tmp_path)
        case "copies":
            return faulty_place(tmp_path, copies=True)
        case _:
            return s3_place(request.getfixturevalue("s3"), uuid.uuid4().hex)


def made(place: Place, name: str, content: bytes = b"x") -> Place:
    file = place / name
    if not is_remote(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, content)
    return file


def test_a_replaced_file_holds_the_new_bytes(place: Place) -> None:
    for content in (b"old", b"", b"new \xff\x00 bytes" * 1_000):
        file = made(place, "folder/file.json.gz", content)
        assert file.read_bytes() == content
        assert file.stat().st_size == len(content)
    assert [found.name for found in (place / "folder").iterdir()] == ["file.json.gz"]
    assert (file.name, file.suffix, file.parent.name) == ("file.json.gz", ".gz", "folder")
    assert file.exists()
    assert file.is_file()
    assert not file.is_dir()
    assert file.stat().st_mtime == pytest.approx(file.stat().st_mtime_ns / 1e9)
    sync_folder(file.parent)


def test_what_is_not_there_is_told_as_a_path_tells_it(place: Place) -> None:
    none = place / "none"
    for ask in (none.read_bytes, none.stat, none.unlink, lambda: none.read_text("utf-8")):
        with pytest.raises(FileNotFoundError):
            ask()
    none.unlink(missing_ok=True)
    assert [none.exists(), none.is_dir(), none.is_file()] == [False] * 3
    assert list(none.glob("*")) == []


def test_a_deleted_file_is_gone(place: Place) -> None:
    for _ in range(2):
        file = made(place, "folder/file", b"one")
        file.unlink()
        assert not file.exists()
        assert list((place / "folder").glob("*")) == []


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.json", "[!.]*", "[0-9]*", "tables/*", "tables/findings/date=*/[!.]*.parquet", "date=*"],
)
def test_what_is_listed_is_what_matches(place: Place, pattern: str) -> None:
    for name in TREE:
        made(place, name)
    names = {"/".join(name.split("/")[:depth]) for name in TREE for depth in range(1, name.count("/") + 2)}
    parts = pattern.split("/")
    wanted = {
        name
        for name in names
        if len(name.split("/")) == len(parts) and all(map(fnmatchcase, name.split("/"), parts))
    }
    found = {str(found).removeprefix(str(place)).lstrip("/") for found in place.glob(pattern)}
    assert found == wanted
    deep = [found for found in place.rglob("*") if found.is_file()]
    assert sorted(found.name for found in deep) == sorted(name.rpartition("/")[2] for name in TREE)
    assert all(found.read_bytes() == b"x" and found.stat().st_size == 1 for found in deep)


def test_a_folder_is_there_once_made_and_gone_once_removed(place: Place) -> None:
    assert next_generation(place / "state") == 1
    (place / "state" / "3").mkdir(parents=True, exist_ok=True)
    assert (place / "state" / "3").is_dir()
    assert next_generation(place / "state") == 4
    made(place, "state/3/offsets/0")
    remove_folder(place / "state" / "3")
    assert not (place / "state" / "3").exists()


def test_a_second_owner_is_refused_and_the_next_one_is_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TERM_S", 1.5)
    with locked(place):
        assert place.is_dir()
        with pytest.raises(FolderInUseError, match="in use: another monitor"), locked(place):
            pass
        made(place, "still", b"mine")
    with locked(place):
        assert (place / "still").read_bytes() == b"mine"


def test_ledger_and_manifest_come_back_as_they_were(place: Place) -> None:
    ledger = Ledger(place / "ledger")
    assert ledger.load() == Snapshot()
    for batch in range(3):
        snapshot = Snapshot().on_topic("t", "c").after("q", batch, batch, {1: batch})
        ledger.commit(snapshot)
        assert Ledger(place / "ledger").load() == snapshot
    assert read_manifest(place / "manifest.json") is None
    identity = Identity("1", 1, buckets=1, lanes=1, shards=50, topic_id="t", cluster_id="c")
    manifest = Manifest(identity, 2, {0: 7})
    write_manifest(place / "manifest.json", manifest)
    assert read_manifest(place / "manifest.json") == manifest
    made(place, "ledger/snapshot.json", b"{")
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger.load()


def test_lines_grow_and_are_cut(place: Place) -> None:
    path = place / "findings.jsonl"
    lines = lines_at(path)
    assert lines.cut(10) == (10 if is_remote(path) else 0)
    lines = lines_at(path)
    length = lines.cut(0)
    for text in ("one\n", "two\nthree\n"):
        lines.append(text.encode(), length)
        lines.append(text.encode(), length)
        length += len(text)
    lines.append(b"never committed\n", length)
    assert list(read_lines(path)) == ["one", "two", "three", "never committed"]
    assert lines_at(path).cut(length) == length
    assert list(read_lines(path)) == ["one", "two", "three"]
    assert list(read_lines(place / "none")) == []


def test_a_line_ends_where_the_writer_ended_it_and_nowhere_else(place: Place) -> None:
    """Groups are named by whoever starts a consumer; a finding holds the name as it is."""
    lines = ['{"group":"a\u2028b"}', '{"group":"a\x85b\x1cc"}']
    lines_at(place / "findings.jsonl").append("".join(f"{line}\n" for line in lines).encode(), 0)
    assert list(read_lines(place / "findings.jsonl")) == lines


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("step", range(12))
def test_a_crash_at_any_step_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, *, step: int, copies: bool
) -> None:
    """Twice: the second replacement meets what the first one left."""

    class CrashError(Exception):
        pass

    allowed = {b"old"}
    faulty = partial(faulty_place, tmp_path, copies=copies)
    replace_file(faulty() / "file", b"old")
    for content in (b"new", b"newer"):
        left = step

        def before(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise CrashError

        allowed.add(content)
        try:
            replace_file(faulty(before) / "file", content)
        except CrashError:
            pass
        else:
            allowed = {content}
        seen = faulty()
        assert (seen / "file").read_bytes() in allowed
        assert (seen / "file").exists()
        assert (seen / "file").stat().st_size in set(map(len, allowed))
        assert [found.name for found in seen.glob("[!.]*")] == ["file"]
        allowed = {(seen / "file").read_bytes()}
    replace_file(faulty() / "file", b"last")
    assert (faulty() / "file").read_bytes() == b"last"
    assert {path.name for path in tmp_path.iterdir()} - {".file.draft"} == {"file"}


def test_what_passes_within_seconds_fails_nothing_and_what_lasts_is_told(tmp_path: Path) -> None:
    failures = len(PAUSES_S)

    def before(operation: str, _path: str) -> None:
        nonlocal failures
        if operation == "write" and failures:
            failures -= 1
            raise OSError("503 Slow Down")

    place = faulty_place(tmp_path, before)
    replace_file(place / "file", b"one")
    assert failures == 0
    failures = len(PAUSES_S) + 1
    with pytest.raises(OSError, match="Slow Down"):
        replace_file(place / "file", b"two")
    assert (place / "file").read_bytes() == b"one"


class Overtaken:
    """An S3 on which somebody puts a longer file as soon as one is opened."""

    def __init__(self, filesystem: pafs.FileSystem, puts: int) -> None:
        self._filesystem, self.puts = filesystem, puts

    def __getattr__(self, name: str) -> object:
        return getattr(self._filesystem, name)

    def open_input_file(self, key: str) -> object:
        file = self._filesystem.open_input_file(key)
        was = file.size()
        if self.puts:
            self.puts -= 1
            with self._filesystem.open_output_stream(key) as stream:
                stream.write(bytes(was * 2))
        return file


def test_a_file_that_is_replaced_while_it_is_read_is_never_read_in_part(s3: str) -> None:
    place = place_at(below(s3, "overtaken"))
    replace_file(place / "file", b"ten bytes!")
    remote = place.remote
    remote.filesystem, remote.pause = Overtaken(remote.filesystem, 2), lambda _: None
    assert (place / "file").read_bytes() == bytes(40)
    remote.filesystem.puts = 100
    with pytest.raises(StoreError, match="replaced while it was read"):
        (place / "file").read_bytes()


def test_a_remote_place_travels_to_another_process(s3: str) -> None:
    place = made(s3_place(s3, uuid.uuid4().hex), "a/b", b"x")
    assert pickle.loads(pickle.dumps(place)).read_bytes() == b"x"  # noqa: S301 - our own
    storage = storage_at(s3)
    assert str(pickle.loads(pickle.dumps(storage)).ledger) == str(storage.ledger)  # noqa: S301


def test_a_uri_is_told_from_a_path() -> None:
    for uri in (
        "s3://bucket/x",
        "hdfs://name/x",
        "file:///x",
        "abfss://c@a.dfs.core.windows.net/x",
        "dbfs:/x",
    ):
        assert is_uri(uri)
    for path in ("data", "/data", "./a:b", "C", "s3", "a/b:/c"):
        assert not is_uri(path)
        assert place_at(path) == Path(path)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3://key:secret@bucket/x", "credentials"),
        ("s3://key@bucket/x", "credentials"),
        ("abfss://c@a.dfs.core.windows.net/x?account_key=secret", "account_key"),
        ("dbfs:/x", "file:///dbfs"),
        ("ftp://host/x", "cannot be used"),
        ("s3://bucket/x?regoin=eu", "cannot be used"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_and_no_secret_is_told(uri: str, says: str) -> None:
    with pytest.raises(FolderError, match=says) as refused:
        place_at(uri)
    assert "secret" not in str(refused.value).replace("the secret 'account_key'", "")


def test_spark_is_given_the_name_that_hadoop_knows(s3: str, tmp_path: Path) -> None:
    bucket = s3.partition("?")[0]
    assert storage_at(s3).location(3) == f"{bucket.replace('s3:', 's3a:')}/state/3"
    assert str(storage_at(s3).ledger) == f"{bucket}/ledger"
    assert storage_at(s3.replace("s3:", "s3a:")).location(3) == f"{bucket.replace('s3:', 's3a:')}/state/3"
    assert storage_at(tmp_path.as_uri()).location(1) == f"{tmp_path.as_uri()}/state/1"
    assert storage_at(str(tmp_path)).location(1) == f"{tmp_path}/state/1"


def test_a_checkpoint_elsewhere_lies_in_a_folder_of_the_storages_own(tmp_path: Path) -> None:
    storage = storage_at(str(tmp_path), "hdfs://name/x/")
    storage.states.mkdir()
    storage.name.write_text("m7f3a00000001")
    assert storage.location(2) == "hdfs://name/x/m7f3a00000001/2"


def test_a_store_that_cannot_be_written_is_told_in_one_sentence(s3: str, tmp_path: Path) -> None:
    place = s3_place(s3.replace("monitors", "nowhere"), "x")
    place.remote.pause = lambda _seconds: None
    with pytest.raises(FolderError, match=r"cannot be written: .*right to read, list, write"), locked(place):
        pass

    def before(operation: str, path: str) -> None:
        if operation == "write":
            raise PermissionError(13, "Permission denied", path)

    with pytest.raises(FolderError, match="Permission denied"), locked(faulty_place(tmp_path, before)):
        pass


def test_the_faulty_file_system_moves_onto_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises(OSError, match="exists"):
        Faulty().move(str(tmp_path / "a"), str(tmp_path / "b"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a folder that others may not")
def test_a_folder_with_parts_of_somebody_else_is_told_in_one_sentence(tmp_path: Path) -> None:
    """As nobody: the folder may be written, its alerts/ may not."""
    (tmp_path / "alerts").mkdir(mode=0o755)
    script = (
        "import os, sys\n"
        "from rebalance_monitor.checkpoints.files import locked, usable\n"
        "from rebalance_monitor.checkpoints.places import place_at\n"
        "from rebalance_monitor.alerts.inbox import Inbox\n"
        "os.setgroups([]); os.setegid(65534); os.seteuid(65534)\n"
        "root = place_at(sys.argv[1])\n"
        "with locked(root), usable(root):\n"
        "    Inbox(root / 'alerts' / 'inbox').open({})\n"
    )
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o777 if folder == tmp_path else 0o755)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False)
    said = done.stderr.decode().splitlines()[-1]
    assert "cannot be used" in said
    assert "Permission denied" in said
    assert "storage.path" in said
