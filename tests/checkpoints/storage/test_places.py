"""What must hold of a place, be it a path, an object store or a file system that moves onto nothing."""

from __future__ import annotations

import pickle
import uuid
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.runtime.inbox import Inbox
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile
from rebalance_monitor.checkpoints.ledger import Ledger, LedgerError, Snapshot
from rebalance_monitor.checkpoints.state.manifest import (
    Identity,
    Manifest,
    next_generation,
    read_manifest,
    write_manifest,
)
from rebalance_monitor.checkpoints.storage import lease
from rebalance_monitor.checkpoints.storage.files import (
    FolderInUseError,
    locked,
    remove_folder,
    replace_file,
    sync_folder,
)
from rebalance_monitor.checkpoints.storage.lines import lines_at, read_lines
from rebalance_monitor.checkpoints.storage.places import is_remote, place_at
from rebalance_monitor.cluster.jars.gateway import java_gateway
from rebalance_monitor.dashboard.tables.findings_table import read_newest, write_findings
from rebalance_monitor.engine.storage import storage_at
from tests.alerts.dispatch.test_crashes import Story
from tests.alerts.support.memo import storm
from tests.checkpoints.stores import faulty_place, hadoop_place, s3_place, sub_tree_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rebalance_monitor.checkpoints.storage.places import Place
    from tests.checkpoints.stores import StoreOfHadoop

KINDS = (
    "path",
    "file_uri",
    "sub_tree",
    "moves_onto_nothing",
    "copies",
    "s3",
    pytest.param("jvm_file", marks=pytest.mark.spark),
    pytest.param("hdfs", marks=pytest.mark.slow),
    pytest.param("viewfs", marks=pytest.mark.slow),
    pytest.param("s3a", marks=pytest.mark.slow),
    pytest.param("gs", marks=pytest.mark.chaos),
    pytest.param("abfs", marks=pytest.mark.chaos),
)
TREE = (
    "manifest.json",
    "lock",
    "tables/findings/date=2026-11-21/q-0000000001.parquet",
    "tables/findings/date=2026-11-21/.hidden.draft",
    "tables/findings/date=2026-11-22/q-0000000002.parquet",
    "state/1/offsets/0",
    "state/12/offsets/7",
)


def of_hadoop(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "jvm_file":
        return hadoop_place(request.getfixturevalue("hadoop_jvm"), tmp_path.as_uri())
    store: StoreOfHadoop = request.getfixturevalue(f"{request.param}_store")
    return hadoop_place(store.jvm, f"{store.uri}/{uuid.uuid4().hex}")


def of_s3(request: pytest.FixtureRequest, _folder: Path) -> Place:
    return s3_place(request.getfixturevalue("s3"), uuid.uuid4().hex)


MADE: dict[str, Callable[[pytest.FixtureRequest, Path], Place]] = {
    "path": lambda _, folder: folder,
    "file_uri": lambda _, folder: place_at(folder.as_uri()),
    "sub_tree": lambda _, folder: sub_tree_place(folder),
    "moves_onto_nothing": lambda _, folder: faulty_place(folder),
    "copies": lambda _, folder: faulty_place(folder, copies=True),
    "s3": of_s3,
}


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return MADE.get(request.param, of_hadoop)(request, tmp_path)


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


def test_a_large_file_comes_back_whole(place: Place) -> None:
    content = bytes(range(256)) * 81_920
    assert made(place, "folder/large", content).read_bytes() == content


@pytest.mark.spark
def test_a_jvm_without_memory_gives_a_file_whole_or_says_so(tmp_path: Path) -> None:
    content = bytes(range(256)) * 81_920
    (tmp_path / "large").write_bytes(content)
    said: list[str] = []
    with java_gateway((), ["-Xmx48m"]) as jvm:
        file = hadoop_place(jvm, tmp_path.as_uri()) / "large"
        file.remote.pause = lambda _seconds: None
        for _ in range(2):
            try:
                assert file.read_bytes() == content
            except OSError as error:
                said.append(str(error))
        assert all("emory" in words for words in said), said
        replace_file(file, b"small")
        assert file.read_bytes() == b"small"


def test_what_is_not_there_is_reported_as_for_a_path(place: Place) -> None:
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


def test_findings_and_the_memory_of_alerts_come_back_as_they_were(place: Place) -> None:
    told = [storm("opened", name) for name in ("a", "b", "c")]
    for batch, one in enumerate(told):
        write_findings(place / "tables" / "findings", [one], "query", batch)
    assert {found.id for found in read_newest(place / "tables" / "findings", 10)} == {one.id for one in told}
    inbox = Inbox(place / "alerts" / "inbox")
    assert inbox.open({}) == []
    inbox.put(("query", 0), told)
    again = Inbox(place / "alerts" / "inbox")
    assert again.open({"query": 0}) == [("query", 0)]
    assert [found.id for found in again.read(("query", 0))] == [one.id for one in told]
    story = Story(place / "alerts", 1)
    for verb in ("open", "update", "end"):
        story.tell(verb, "a")
        story.file.save(story.memory)
        assert MemoryFile(place / "alerts" / "memory.jsonl").load() == story.memory


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


def test_a_remote_place_travels_to_another_process(s3: str) -> None:
    place = made(s3_place(s3, uuid.uuid4().hex), "a/b", b"x")
    assert pickle.loads(pickle.dumps(place)).read_bytes() == b"x"  # noqa: S301 - our own
    storage = storage_at(s3)
    assert str(pickle.loads(pickle.dumps(storage)).ledger) == str(storage.ledger)  # noqa: S301
