"""The API over the past: disk tells what memory does, and a disk that is slow holds up nobody else."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import httpx

from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from rebalance_monitor.dashboard.web.past.table_past import TablePast
from tests.dashboard.web import known
from tests.dashboard.web.asking import Answer, ask, replay_client, table  # noqa: F401 - the fixture `real`
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.web.past.past import Wanted


def found(client: httpx.Client, **values: str | int) -> Answer:
    """Return findings without holding them against the schema again."""
    return client.get("/api/v1/findings", params=values).raise_for_status().json()


def test_the_table_answers_as_the_memory_does_and_pages_lose_nothing(
    real: httpx.Client, tmp_path: Path
) -> None:
    queries = ({}, {"group": known.STORMY}, {"kind": "storm"}, {"cause": "session_timeout"}, {"search": "-d"})
    with served(known.snapshot_of(known.replayed()), table(tmp_path)) as disk:
        for query in queries:
            one, other = (found(client, limit=500, **query) for client in (real, disk))
            assert one["rows"] == other["rows"]
            assert (one["source"], other["source"]) == ("memory", "table")
        everything = [row["id"] for row in found(disk, limit=500)["rows"]]
        got, before = [], ""
        while before is not None:
            page = found(disk, limit=37, before=before)
            got += [row["id"] for row in page["rows"]]
            before = page["next"]
    assert got == everything
    assert len(got) == len(set(got)) > 200


def test_time_travel_shows_the_storm_while_it_was_open(tmp_path: Path) -> None:
    with served(known.snapshot_of(known.replayed()), table(tmp_path)) as client:
        opened = ask(client, "/findings", kind="storm", group=known.STORMY)["rows"][-1]["at"]
        before, after = (ask(client, "/groups", at=opened + shift) for shift in (-1, 1))
        page = ask(client, "/group", group=known.STORMY, at=opened + 1)
        assert client.get("/api/v1/group", params={"group": known.STORMY, "at": 5}).status_code == 404
    assert known.STORMY not in {row["group"] for row in before["rows"] if row["trouble"] == "storm"}
    assert after["rows"][0]["group"] == known.STORMY
    assert (page["as_of"], page["live"], page["row"]["trouble"]) == (opened + 1, False, "storm")
    assert len(page["members"]) == 3
    assert max(column["at"] for column in page["timeline"]["columns"]) <= opened + 1


def test_an_incident_that_memory_forgot_is_found_in_the_table(real: httpx.Client, tmp_path: Path) -> None:
    storm = ask(real, "/incidents", kind="storm")["rows"][0]
    with served(Snapshot("lab"), table(tmp_path)) as forgetful:
        seen = ask(forgetful, "/incident", id=storm["id"])
    assert seen["incident"]["group"] == storm["group"]
    assert seen["around"]


def test_a_table_that_cannot_be_read_is_a_503(tmp_path: Path) -> None:
    day = tmp_path / "date=2026-11-21"
    day.mkdir()
    (day / "x-1.parquet").write_bytes(b"no parquet")
    with served(Snapshot("lab"), TablePast(tmp_path)) as client:
        assert client.get("/api/v1/findings?until=2026-11-22T00:00:00").status_code == 503


class Held(MemoryPast):
    """A disk that does not answer until it is let go."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.free = Event()

    def find(self, wanted: Wanted) -> list[Finding]:
        self.free.wait(20)
        return super().find(wanted)


def test_however_many_wait_for_the_disk_the_rest_is_answered() -> None:
    snapshot = known.snapshot_of(known.replayed())
    past = Held(snapshot)
    with ThreadPoolExecutor(60) as pool, served(snapshot, past) as client:
        url = str(client.base_url)
        try:
            asked = [f"{url}/api/v1/findings?limit={n}" for n in range(1, 51)]
            asked += [f"{url}/api/v1/groups?at={known.T0 + n}" for n in range(5)]
            asked += [f"{url}/?incident=unknown{n}" for n in range(5)]
            waiting = [pool.submit(httpx.get, one, timeout=30) for one in asked]
            for path in ("/healthz", "/api/v1/groups", "/api/v1/cluster", "/api/v1/incidents"):
                assert client.get(path).status_code == 200
            assert not any(one.done() for one in waiting)
        finally:
            past.free.set()
        assert {one.result().status_code for one in waiting} == {200}


class CountedPast(MemoryPast):
    """Counts how often it was searched."""

    searches = 0

    def find(self, wanted: Wanted) -> list[Finding]:
        self.searches += 1
        return super().find(wanted)


def test_boards_are_kept_while_somebody_looks_and_let_go_when_nobody_does_any_more() -> None:
    snapshot = Snapshot("c")
    past = CountedPast(snapshot)
    api, then = Api(snapshot, past), {"at": known.T0}
    board = weakref.ref(api.board_of(snapshot.known))
    for _ in range(2):
        api.cluster(then)
    for _ in range(300):
        assert board() is not None
        snapshot.apply(Update(now=known.T0, wall=known.T0))
    assert past.searches == 1
    snapshot.apply(Update(now=known.T0, wall=known.T0))
    assert board() is None
    api.cluster(then)
    assert past.searches == 2
