"""One owner at a time, by any story of pauses, deaths and outages; a clock that only this test moves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.errors import FolderError, FolderInUseError, TakenError
from rebalance_monitor.checkpoints.storage import lease
from rebalance_monitor.checkpoints.storage.files import locked, replace_file
from rebalance_monitor.checkpoints.storage.lease import NAME, PATIENCE, Lease
from rebalance_monitor.checkpoints.storage.owner_file import Numbered, owner_file
from rebalance_monitor.checkpoints.storage.remote import Remote, Replacing
from rebalance_monitor.checkpoints.storage.remote_place import RemotePlace
from tests.checkpoints.stores import faulty_place, hadoop_place, s3_place, without_conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    Bucket = Callable[[str], RemotePlace]

TERM = 30.0


class Clock:
    """Seconds that pass when somebody waits; `meanwhile` happens at every wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


class Owner:
    """One monitor, without its thread: it renews when the story says so."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.reachable = True
        self.place = faulty_place(folder, self._before)
        self.lease = Lease(self.place, TERM, clock, clock.wait)

    def _before(self, _operation: str, path: str) -> None:
        if not self.reachable:
            raise OSError(f"{path} cannot be reached")

    def claim(self) -> None:
        self.lease._take()
        self.place.remote.fences.append(self.lease.require)

    def may_write(self) -> bool:
        try:
            self.lease.require()
        except (FolderInUseError, OSError):
            return False
        return True


@pytest.fixture(autouse=True)
def _another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both owners are this process, which lives: only time may tell that one is dead."""
    monkeypatch.setattr(lease, "_space", lambda: "")


def test_an_owner_that_renews_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    first, second = Owner(tmp_path, clock), Owner(tmp_path, clock)
    first.claim()
    clock.meanwhile = first.lease.renew
    with pytest.raises(FolderInUseError, match="another monitor"):
        second.claim()
    assert clock.now < TERM
    assert first.may_write()


def test_an_owner_that_is_gone_is_replaced_after_a_term_and_a_half(tmp_path: Path) -> None:
    clock = Clock()
    first, second = Owner(tmp_path, clock), Owner(tmp_path, clock)
    first.claim()
    began = clock.now
    second.claim()
    assert PATIENCE * TERM <= clock.now - began < PATIENCE * TERM + 6
    assert second.may_write()


def test_an_owner_that_wakes_up_too_late_writes_nothing_and_says_why(tmp_path: Path) -> None:
    clock = Clock()
    first, second = Owner(tmp_path, clock), Owner(tmp_path, clock)
    first.claim()
    replace_file(first.place / "ledger", b"first")
    # The first one sleeps: a stopped process, a machine that was suspended.
    second.claim()
    replace_file(second.place / "ledger", b"second")
    for _ in range(2):
        with pytest.raises((FolderInUseError, OSError)):
            replace_file(first.place / "ledger", b"late")
        first.lease.renew()
    with pytest.raises(FolderInUseError, match="another monitor"):
        replace_file(first.place / "ledger", b"late")
    with pytest.raises(FolderInUseError):
        (first.place / "ledger").unlink()
    assert (second.place / "ledger").read_bytes() == b"second"


def test_an_owner_that_cannot_reach_the_store_stops_writing_and_goes_on_once_it_can(tmp_path: Path) -> None:
    clock = Clock()
    owner = Owner(tmp_path, clock)
    owner.claim()
    owner.reachable = False
    clock.now += TERM * 0.9
    with pytest.raises(OSError, match="cannot be reached"):
        owner.lease.renew()
    assert owner.may_write()
    clock.now += TERM * 0.2
    assert not owner.may_write()
    owner.reachable = True
    owner.lease.renew()
    assert owner.may_write()


def test_of_two_newcomers_one_stays(tmp_path: Path) -> None:
    clock = Clock()
    first, second = Owner(tmp_path, clock), Owner(tmp_path, clock)

    def both() -> None:
        clock.meanwhile = lambda: None
        second.claim()

    # The second one claims while the first one's claim lies.
    clock.meanwhile = both
    with pytest.raises(FolderInUseError):
        first.claim()
    assert second.may_write()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sleep", "renew", "away", "back", "claim"]),
            st.integers(0, 1),
            st.floats(0.1, 20),
        ),
        max_size=40,
    )
)
def test_two_never_may_write_at_a_time(tmp_path_factory: pytest.TempPathFactory, story: list[tuple]) -> None:  # type: ignore[type-arg]
    folder, clock = tmp_path_factory.mktemp("lease"), Clock()
    owners: list[Owner | None] = [None, None]

    def at_most_one() -> None:
        assert sum(owner is not None and owner.may_write() for owner in owners) <= 1

    clock.meanwhile = at_most_one
    for verb, which, seconds in story:
        owner = owners[which]
        try:
            match verb:
                case "claim" if owner is None or not owner.may_write():
                    owners[which] = None
                    new = Owner(folder, clock)
                    new.claim()
                    owners[which] = new
                case "renew" if owner is not None:
                    owner.lease.renew()
                case "away" | "back" if owner is not None:
                    owner.reachable = verb == "back"
                case _:
                    clock.wait(seconds)
        except (FolderInUseError, OSError):
            pass
        at_most_one()


def test_a_process_that_was_killed_here_is_known_to_be_dead_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    script = (
        "import os, signal, sys\n"
        "from rebalance_monitor.checkpoints.storage.files import locked\n"
        "from rebalance_monitor.checkpoints.storage.places import place_at\n"
        "with locked(place_at(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path.as_uri()], check=False)
    assert done.returncode == -9
    assert json.loads((tmp_path / NAME).read_bytes())["pid"] != os.getpid()
    waits: list[float] = []
    taken = Lease(faulty_place(tmp_path), wait=waits.append)
    with taken:
        taken.require()
    assert len(waits) == 1
    assert not (tmp_path / NAME).exists()


def test_an_owner_renews_by_itself_and_gives_up_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TERM_S", 0.3)
    with locked(faulty_place(tmp_path)):
        first = json.loads((tmp_path / NAME).read_bytes())["renewals"]
        threading.Event().wait(1.0)
        assert json.loads((tmp_path / NAME).read_bytes())["renewals"] > first + 2
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_an_owner_file_that_cannot_be_read_is_waited_for_and_replaced(tmp_path: Path, content: bytes) -> None:
    clock = Clock()
    (tmp_path / NAME).write_bytes(content)
    owner = Owner(tmp_path, clock)
    owner.claim()
    assert clock.now >= PATIENCE * TERM
    assert owner.may_write()


def test_a_store_that_is_away_at_the_start_is_reported(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Clock())
    owner.reachable = False
    with pytest.raises(FolderError, match="cannot be reached"), owner.lease:
        pass


def test_losing_a_part_does_not_stop_the_owner_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TERM_S", 0.6)
    root = faulty_place(tmp_path)
    with locked(root), locked(root / "tables"):
        (tmp_path / "tables" / NAME).write_text('{"token": "another"}')
        threading.Event().wait(1.0)
        replace_file(root / "ledger", b"still mine")
    assert (tmp_path / "tables" / NAME).exists()


@pytest.fixture(
    params=[
        "s3",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("s3a", "hdfs", "viewfs")),
        *(pytest.param(name, marks=pytest.mark.chaos) for name in ("gs", "abfs")),
    ]
)
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """What gives a folder of a store that decides: by pyarrow and obstore, or by Hadoop."""
    if request.param == "s3":
        return partial(s3_place, request.getfixturevalue("s3"))
    store = request.getfixturevalue(f"{request.param}_store")
    return lambda name: hadoop_place(store.jvm, f"{store.uri}/{name}-by-{request.param}")


def test_of_many_newcomers_at_a_bucket_the_store_lets_one_in(bucket: Bucket) -> None:
    """They all have read that nobody is there before any of them writes, and none waits or reads back."""
    places = [bucket("crowded") for _ in range(8)]
    leases = [Lease(place, TERM, wait=no_wait) for place in places]
    together = threading.Barrier(len(leases))
    got: list[Lease] = []

    def claim(one: Lease) -> None:
        found = one._owner()
        together.wait()
        assert found is None
        if one._write():
            got.append(one)

    threads = [threading.Thread(target=claim, args=(one,)) for one in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    for one in leases:
        one.renew()
        assert bool(one._lost) == (one not in got)


def test_a_renewal_that_arrives_after_another_has_taken_the_bucket_changes_nothing(
    bucket: Callable[[str], RemotePlace],
) -> None:
    first, second = (Lease(bucket("late"), TERM, wait=no_wait) for _ in range(2))
    first._take()
    first._owner()
    # The first one hangs between its look and its put; the second one finds its file given up.
    first._file.give_up(first._version)
    second._take()
    assert not first._write()
    assert json.loads((second._folder / NAME).read_bytes())["token"] == second._token
    assert second._is_own()


def test_a_put_whose_answer_is_lost_is_known_as_ones_own(bucket: Bucket) -> None:
    owner = Lease(bucket("answer-lost"), TERM, wait=no_wait)
    owner._take()
    before = owner._version
    owner._write()
    owner._version = before
    assert owner._write()
    owner.renew()
    assert not owner._lost


def test_a_folder_that_was_given_up_has_a_next_owner_at_once(bucket: Bucket) -> None:
    for _ in range(3):
        with Lease(bucket("in-turn"), TERM, wait=no_wait) as owner:
            for _ in range(3):
                owner.renew()
            owner.require()
        assert not (owner._folder / NAME).exists()


def test_that_reaches_the_folder_without_hadoop_is_seen_there_and_sees_the_owner(bucket: Bucket) -> None:
    owner = Lease(bucket("both-ways"), TERM, wait=no_wait)
    owner._take()
    file = owner._folder / NAME
    assert json.loads(file.read_bytes())["token"] == owner._token
    replace_file(file, b'{"token": "of pyarrow"}')
    owner.renew()
    with pytest.raises(FolderInUseError):
        owner.require()


class CreatesOnce(pafs.LocalFileSystem):
    """A file system of this machine, which creates a file once, as HDFS does."""

    def create_file(self, path: str, content: bytes) -> None:
        Path(path).parent.mkdir(exist_ok=True)
        with Path(path).open("xb") as file:
            file.write(content)


@given(st.lists(st.tuples(st.sampled_from(["read", "write", "give up"]), st.integers(0, 2)), max_size=60))
def test_a_version_has_one_successor_however_late_others_write(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, int]]
) -> None:
    """What each of three has read may be as old as it likes; who was replaced never comes back."""
    folder = tmp_path_factory.mktemp("numbered")
    place = RemotePlace(Remote(CreatesOnce(), str(folder), "", "", Replacing.ASIDE)) / NAME
    files = [Numbered(place, place.remote.filesystem) for _ in range(3)]
    read: list[int | None] = [None] * 3
    newest: int | None = None
    owner: int | None = None
    for verb, who in story:
        if verb == "read":
            content, read[who] = files[who].read()
            assert read[who] == newest
            assert content == (None if owner is None else json.dumps({"token": owner}).encode())
        elif verb == "give up":
            files[who].give_up(read[who])
            if read[who] == newest:
                newest, owner = (newest or 0) + 1, None
        else:
            try:
                read[who] = files[who].write(json.dumps({"token": who}).encode(), read[who])
            except TakenError:
                assert read[who] != newest
            else:
                assert read[who] == (newest or 0) + 1
                newest, owner = read[who], who


def no_wait(_seconds: float) -> None:
    raise AssertionError("a store that takes conditions needs no pause")


def test_a_server_that_ignores_conditions_is_read_back(s3: str) -> None:
    with without_conditions(s3) as uri:
        assert owner_file(s3_place(uri, "careless") / NAME).settles
        assert s3_place(s3, "careless").iterdir() == []
    assert not owner_file(s3_place(s3, "careful") / NAME).settles
    assert s3_place(s3, "careful").iterdir() == []
