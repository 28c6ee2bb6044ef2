"""The snapshot: what the monitor knows now, and the table that keeps it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.committing import Committing
from rebalance_monitor.dashboard.tables import groups_table
from rebalance_monitor.dashboard.tables.findings_table import read_newest, write_findings
from rebalance_monitor.dashboard.tables.groups_table import (
    FILE,
    GROUPS_SCHEMA,
    ROWS_OF_BLOCK,
    GroupsTable,
    read_groups,
    restored,
)
from rebalance_monitor.dashboard.view import snapshot as module
from rebalance_monitor.dashboard.view.group_view import GroupView
from rebalance_monitor.dashboard.view.incidents import CLOSED_KEPT, Incidents
from rebalance_monitor.dashboard.view.snapshot import Known, Snapshot, Update
from rebalance_monitor.lab.cluster.node import wait_until
from tests.dashboard.support.played import CAPTURES, SMALLEST, all_updates, updates

if TYPE_CHECKING:
    from pathlib import Path


def about(kind: Kind, number: int = 0, group: str | None = "g", **fields: object) -> Finding:
    spec = KINDS[kind]
    return Finding(
        id=f"{number:016x}",
        kind=kind,
        scope=spec.scope,
        severity=spec.severity,
        evidence="read",
        group=group,
        at=number,
        details={},
        **fields,  # type: ignore[arg-type]  # a test's own fields
    )


def played(name: str) -> Known:
    known = Known(cluster="c")
    for update in updates(name):
        known = known.after(update)
    return known


@pytest.mark.parametrize("name", CAPTURES)
def test_a_group_is_known_until_it_is_removed(name: str) -> None:
    known, removed = played(name), [group for update in updates(name) for group in update.removed]
    told = {group for update in updates(name) for group in update.groups}
    assert told
    assert {group for group in told if group not in removed} <= set(known.groups)
    for view in known.groups.values():
        commits_only = view.summary["generation"] is None
        assert commits_only or view.summary["generation"] >= 0


@pytest.mark.parametrize("name", CAPTURES)
def test_an_incident_is_open_exactly_when_its_last_phase_is_not_resolved(name: str) -> None:
    last = {}
    for update in updates(name):
        for finding in update.findings:
            if finding.phase:
                last[finding.incident] = (finding.phase, finding.group)
        for gone in update.removed:
            last = {identity: entry for identity, entry in last.items() if entry[1] != gone}
    expected = {identity for identity, (phase, _) in last.items() if phase != "resolved"}
    assert set(played(name).incidents.open) == expected


def test_an_update_changes_nothing_that_a_reader_holds() -> None:
    snapshot = Snapshot("c")
    before = snapshot.known
    snapshot.apply(Update(findings=[about(Kind.STORM, 1, phase="opened")], groups={"g": {"state": "Stable"}}))
    assert (before.groups, before.incidents.open, before.version) == ({}, {}, 0)
    assert snapshot.known.groups["g"].summary == {"state": "Stable"}


def test_a_generation_is_known_before_its_summary_comes() -> None:
    known = Known().after(Update(groups={"g": {"generation": 1, "at": 5, "members": 2, "leader": "a"}}))
    said = about(Kind.REBALANCE, 9, generation=2, members_total=3, state="Stable")
    assert known.after(Update(findings=[said])).groups["g"].summary == {
        "group": "g",
        "generation": 2,
        "at": 9,
        "members": 3,
        "leader": "a",
        "state": "Stable",
    }
    late = replace(said, at=4, generation=1)
    assert known.after(Update(findings=[late])).groups["g"].summary["generation"] == 1


def test_a_member_that_left_is_not_listed_until_the_next_summary() -> None:
    listed = [{"member_id": name} for name in ("a", "b", "c")]
    known = Known().after(
        Update(groups={"g": {"generation": 1, "at": 5, "members": 3, "member_list": listed}})
    )
    left = MemberEntry("b", None, "client", "/10.0.0.1", host_is_stale=False, role="left")
    smaller = about(Kind.REBALANCE, 9, generation=2, members_total=2, members=(left,))
    summary = known.after(Update(findings=[smaller])).groups["g"].summary
    assert [member["member_id"] for member in summary["member_list"]] == ["a", "c"]
    empty = about(Kind.GROUP_EMPTY, 10, generation=3, members_total=0)
    assert known.after(Update(findings=[empty])).groups["g"].summary["member_list"] == []


def test_findings_are_bounded_per_group_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINDINGS_KEPT", 400)
    known = Known()
    for number in range(2_000):
        known = known.after(Update(findings=[about(Kind.REBALANCE, number, f"g{number % 20}")]))
        held = sum(len(view.recent) for view in known.groups.values())
        assert held <= known.findings_held <= 1.25 * 400
    known = known.after(Update(findings=[about(Kind.REBALANCE, n, "noisy") for n in range(2_000, 2_400)]))
    assert [f.at for f in known.groups["noisy"].recent] == list(range(2_400 - GroupView.KEPT, 2_400))
    assert all(view.recent for view in known.groups.values())


@pytest.mark.parametrize("groups", [100, 400])
def test_groups_that_hold_more_than_the_bound_are_looked_through_as_often_as_they_grow_by_a_quarter(
    monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    monkeypatch.setattr(module, "FINDINGS_KEPT", 40)
    trims: list[int] = []
    real = Known.trimmed

    def counted(known: Known) -> Known:
        trims.append(known.findings_held)
        return real(known)

    monkeypatch.setattr(Known, "trimmed", counted)
    known = Known()
    for number in range(400):
        known = known.after(Update(findings=[about(Kind.REBALANCE, number, f"g{number % groups}")]))
        assert sum(len(view.recent) for view in known.groups.values()) <= 1.25 * max(40, len(known.groups))
    assert len(known.groups) == groups
    assert all(view.recent for view in known.groups.values())
    # A finding is visited by five of them, however many groups there are.
    assert sum(trims) <= 6 * 400


def test_closed_incidents_are_bounded_and_the_newest_kept() -> None:
    incidents = Incidents()
    for number in range(CLOSED_KEPT + 50):
        opened = about(Kind.GROUP_EMPTY, number, phase="opened", incident=f"i{number}", opened_at=number)
        incidents = incidents.after([opened, replace(opened, phase="resolved", at=number + 1)])
    assert len(incidents.closed) == CLOSED_KEPT
    last = incidents.get(f"i{CLOSED_KEPT + 49}")
    assert last is not None
    assert (last.opened_at, last.closed_at, last.findings) == (CLOSED_KEPT + 49, CLOSED_KEPT + 50, 2)
    assert incidents.get("i0") is None


def test_readiness_waits_until_no_shard_reads_history() -> None:
    shard = {"shard": 0, "groups": 1, "catching_up": 1, "last_ts": 40, "positions_dropped": 0}
    known = Known().after(Update(shards=[shard], now=50, wall=60))
    assert (known.health.is_ready, known.health.history_at) == (False, 40)
    known = known.after(Update(shards=[{**shard, "catching_up": 0}], now=51, wall=61))
    assert known.health.is_ready
    assert not Known().health.is_ready


def test_what_the_monitor_says_between_batches_is_no_sign_of_life() -> None:
    known = Known().after(Update(now=50, wall=60, batch=4))
    known = known.after(Update(findings=[about(Kind.MONITOR_DEGRADED, 1, None)], wall=99, batch=0))
    assert (known.health.last_batch, known.health.batch) == (60, 4)
    assert len(known.others) == 1


CHANGE = st.builds(
    Update,
    groups=st.dictionaries(st.sampled_from("abcde"), st.just({}), max_size=3),
    removed=st.lists(st.sampled_from("abcde"), max_size=2, unique=True),
    findings=st.lists(
        st.builds(about, st.just(Kind.REBALANCE), st.integers(1, 99), st.sampled_from(["a", "f", None])),
        max_size=2,
    ),
)


@given(st.lists(CHANGE, max_size=12))
def test_what_changed_is_reported_since_any_version(updates: list[Update]) -> None:
    snapshot = Snapshot()
    seen = [dict[str, GroupView]()]
    seen += [dict(snapshot.apply(update).groups) for update in updates]
    for version, before in enumerate(seen):
        changed = snapshot.changed_since(version)
        assert changed is not None
        now = {name for name, view in seen[-1].items() if before.get(name) is not view}
        assert now | (before.keys() - seen[-1].keys()) <= changed
        about_none = any(f.group is None for update in updates[version:] for f in update.findings)
        assert ("" in changed) is about_none
    assert snapshot.changed_since(len(updates)) == frozenset()
    assert snapshot.changed_since(len(updates) + 1) is None


def test_a_reader_that_asks_before_changes_are_known_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GONE_KEPT", 3)
    snapshot = Snapshot(started=1_000)
    assert snapshot.changed_since(999) is None
    for number in range(5):
        snapshot.apply(Update(groups={f"g{number}": {}}))
    for number in range(5):
        snapshot.apply(Update(removed=[f"g{number}"]))
    assert snapshot.changed_since(1_006) is None
    assert snapshot.changed_since(1_007) == {"g2", "g3", "g4"}
    snapshot.restore(Known())
    assert snapshot.changed_since(1_010) is None
    assert snapshot.changed_since(1_011) == frozenset()


def test_readers_and_writer_do_not_disturb_each_other() -> None:
    snapshot, stop, wrong = Snapshot(), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            known = snapshot.known
            if len(known.groups) != known.version or len(list(known.groups.items())) != known.version:
                wrong.append(known.version)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(300):
        snapshot.apply(Update(groups={f"g{number}": {"state": "Stable"}}))
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != SMALLEST)) for name in CAPTURES]
)
def test_a_killed_monitor_knows_at_its_next_start_what_was_known(tmp_path: Path, name: str) -> None:
    known = Known(cluster="c")
    for number, update in enumerate(updates(name)):
        known = known.after(update)
        write_findings(tmp_path / "findings", update.findings, "q", number)
        if number == len(updates(name)) // 2:
            GroupsTable(tmp_path / "groups").write(known, at=1)
    again = restored(read_groups(tmp_path / "groups"), read_newest(tmp_path / "findings", 10_000))
    assert set(again.incidents.open) == set(known.incidents.open)
    # Groups that ended without a finding (simple consumers) are forgotten with the next batches.
    assert set(known.groups) <= set(again.groups)
    for group, view in known.groups.items():
        generation = again.groups[group].summary.get("generation")
        # An epoch that ended in no finding since the table was written comes with the group's next summary.
        now = view.summary["generation"]
        epochs = view.summary["group_type"] not in {"classic", "commits"}
        assert generation == now or (epochs and generation == now - 1), group


def test_a_group_that_retired_without_a_finding_does_not_come_back_with_a_restart(tmp_path: Path) -> None:
    early = about(Kind.REBALANCE, 1, "retired", detected_at=1_000)
    late = about(Kind.REBALANCE, 2, "new", detected_at=130_000)
    known = Known().after(Update(findings=[early])).after(Update(removed=["retired"]))
    GroupsTable(tmp_path).write(known, at=120_000)
    again = restored(read_groups(tmp_path), [early, late])
    assert list(again.groups) == ["new"]


def test_the_groups_table_holds_every_group_with_its_incidents(tmp_path: Path) -> None:
    known = Known(cluster="c")
    for update in all_updates():
        known = known.after(update)
    GroupsTable(tmp_path).write(known, at=77)
    rows = pq.ParquetFile(tmp_path / FILE).read().to_pylist()
    assert [row["group"] for row in rows] == sorted(known.groups)
    assert {row["snapshot_at"] for row in rows} == {77}
    open_ones = {incident["incident"] for row in rows for incident in row["incidents"]}
    assert open_ones == {one.id for one in known.incidents.open.values() if one.group in known.groups}
    assert open_ones
    member = next(row for row in rows if row["member_list"])["member_list"][0]
    assert member["client_id"]
    assert list(rows[0]) == GROUPS_SCHEMA.names
    again = read_groups(tmp_path)
    assert {name: view.summary for name, view in again.groups.items()} == {
        name: dict(view.summary) for name, view in known.groups.items()
    }


def test_a_group_that_only_committed_since_its_last_change_keeps_its_last_commit(tmp_path: Path) -> None:
    update = next(one for one in all_updates() if len(one.groups) > 1)
    first, second = list(update.groups)[:2]
    known = Known(cluster="c").after(update).after(Update(committing={first: Committing(10**14)}))
    GroupsTable(tmp_path).write(known, at=77)
    again = restored(read_groups(tmp_path), [])
    assert again.last_commit(first) == 10**14
    assert again.last_commit(second) == known.last_commit(second)


@pytest.mark.parametrize("rows", [2, ROWS_OF_BLOCK])
def test_a_groups_table_written_again_and_again_is_that_of_one_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(groups_table, "ROWS_OF_BLOCK", rows)
    kept, known, sizes = GroupsTable(tmp_path / "kept"), Known(cluster="c"), set[int]()
    for number, update in enumerate(all_updates()):
        known = known.after(update)
        if number % 7 == 0:
            # Groups come, change and go.
            newest = {group: Committing(10**14 + number) for group in sorted(known.groups)[::3]}
            known = known.after(Update(removed=sorted(known.groups)[:: number + 2], committing=newest))
            kept.write(known, at=number)
            GroupsTable(tmp_path / "fresh").write(known, at=number)
            found, expected = (pq.ParquetFile(tmp_path / name / FILE).read() for name in ("kept", "fresh"))
            assert found.equals(expected, check_metadata=True)
            assert found["group"].to_pylist() == sorted(known.groups)
            commits = dict(zip(*(found[name].to_pylist() for name in ("group", "last_commit")), strict=True))
            assert commits == {group: known.last_commit(group) for group in known.groups}
            sizes.add(len(found))
    assert len(sizes) > 1


def test_a_groups_table_holds_no_arrow_memory_between_two_writes(tmp_path: Path) -> None:
    summary = next(one for update in all_updates() for one in update.groups.values() if one["member_list"])
    known = Known(groups={f"g{number}": GroupView(f"g{number}", summary) for number in range(3_000)})
    table, before = GroupsTable(tmp_path), pa.total_allocated_bytes()
    table.write(known, at=1)
    assert len(pq.ParquetFile(tmp_path / FILE).read()) == len(known.groups)
    # Arrow's own threads free what they have read a moment later.
    assert wait_until(lambda: pa.total_allocated_bytes() <= before, 30)


def test_a_groups_table_of_another_version_is_not_read(tmp_path: Path) -> None:
    pq.write_table(GROUPS_SCHEMA.empty_table(), tmp_path / FILE)
    assert read_groups(tmp_path) == Known()
    assert read_groups(tmp_path / "nowhere") == Known()
