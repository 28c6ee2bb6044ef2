"""Whatever was open when the state was begun anew: it goes on once, and it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import part_of
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut, GroupOut, Output, RemovedOut, StatOut
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.rollup.rebuild import Reading, Rebuilt
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import rows as records
from tests.coordinator.storms.test_storms import crash_loop
from tests.coordinator.support.looks import _recorded, look
from tests.coordinator.support.timeline import T0, Client, Topic, findings
from tests.coordinator.test_invariance import topics

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.decoders import Row

SETTINGS = DetectionSettings(storm_threshold=2)
EVERY, HOUR = 10_000, 3_600_000


class Driver:
    """One shard and what the driver tells of it; a batch for each row, and one every ten seconds."""

    def __init__(self) -> None:
        self.rebuilt = Rebuilt(SETTINGS, "c1")
        self.open: dict[str, Finding] = {}
        self.groups: set[str] = set()
        self.told_to = -1
        self.now = T0
        self.begin(None)

    def begin(self, history: int | None) -> None:
        self.shard = ShardCoordinator(new_shard_state(7, 0, history), SETTINGS, "c1", history or 0)

    def batch(self, rows: list[Row]) -> None:
        out = [said for row in rows for said in self.shard.on_row(row)] + self.shard.on_clock(self.now)
        found = [said.finding for said in out if isinstance(said, FindingOut)]
        again = [
            one for one in found if one.history and one.offset is not None and one.offset <= self.told_to
        ]
        told = [one for one in found if one not in again]
        # It is written and read between any two batches.
        self.rebuilt = Rebuilt(SETTINGS, "c1", json.loads(json.dumps(self.rebuilt.snapshot())))
        outcome = self.rebuilt.on_batch(told, self.reading(again, out))
        for one in [*outcome.findings, *outcome.ended]:
            self.take(one)
        self.groups |= {said.group for said in out if isinstance(said, GroupOut)}
        self.groups -= {*outcome.gone, *(said.group for said in out if isinstance(said, RemovedOut))}
        self.told_to = max([self.told_to, *(row.last_offset for row in rows)])

    def reading(self, again: list[Finding], out: list[Output]) -> Reading:
        return Reading(
            again,
            {said.group: said.summary for said in out if isinstance(said, GroupOut)},
            [said.group for said in out if isinstance(said, RemovedOut)],
            any(said.data.get("catching_up") for said in out if isinstance(said, StatOut)),
            self.now,
        )

    def take(self, finding: Finding) -> None:
        """Nothing is opened that is open already: that would be a second page."""
        incident = finding.incident or ""
        if finding.phase == "resolved":
            self.open.pop(incident, None)
        elif finding.phase is not None:
            same = {self.subject(one) for one in self.open.values()}
            is_new = finding.phase == "opened" and not finding.history
            assert not is_new or self.subject(finding) not in same
            self.open[incident] = finding

    @staticmethod
    def subject(one: Finding) -> tuple[object, ...]:
        """What an incident is about: a silence is of one member, since one deadline."""
        return one.kind, one.group, part_of(one), one.details.get("deadline_at")

    def live(self, rows: list[Row], until: int) -> None:
        for row in rows:
            self.now = max(self.now, row.record_ts)
            self.batch([row])
        while self.now < until:
            self.now += EVERY
            self.batch([])

    def rebuild(self, rows: list[Row]) -> None:
        self.rebuilt.begin(self.open.values(), self.groups)
        self.begin(rows[-1].last_offset + 1 if rows else 0)
        self.batch(rows)


def compacted(rows: list[Row], keep: int) -> list[Row]:
    """The newest record of each key; the last `keep` rows were not cleaned yet."""
    head = rows[: len(rows) - keep]
    newest = {records.record(row)[0]: row for row in head if row.row_kind == "record"}
    return sorted(newest.values(), key=lambda row: row.first_offset) + rows[len(rows) - keep :]


# The records whose tombstones end a group: of each type its own.
ENDS = (2, 3, 5, 11, 17)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(topics(), st.integers(0, 25), st.integers(0, 25))
def test_what_was_open_goes_on_under_its_incident_or_ends(topic: Topic, cut: int, keep: int) -> None:
    cut = min(cut, len(topic.rows))
    driver = Driver()
    before = topic.rows[:cut]
    driver.live(before, 0)
    driver.rebuild(compacted(before, min(keep, cut)))
    driver.live(topic.rows[cut:], driver.now + 20_000)
    end = max([driver.now, *(row.record_ts for row in topic.rows)]) - T0
    for number, kind in enumerate(ENDS):
        topic.tombstone(end + 10_000 + 10_000 * number, kind)
    driver.live(topic.rows[-len(ENDS) :], driver.now + HOUR)
    assert driver.open == {}
    assert driver.groups == set()
    assert driver.rebuilt.snapshot() == {}


def test_a_removal_that_was_not_decided_before_the_rebuild_ends_what_is_open() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(0, 2, [])
    topic.tombstone(0)
    driver = Driver()
    driver.live(topic.rows, 0)
    assert [one.kind for one in driver.open.values()] == [Kind.GROUP_EMPTY]
    driver.rebuild(topic.rows)
    driver.live([], driver.now + 20_000)
    assert driver.open == {}
    assert driver.groups == set()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 20))
def test_a_rebuild_of_a_topic_that_was_not_compacted_changes_no_incident(keep: int) -> None:
    topic = crash_loop(8)
    cut = len(topic.rows) - min(keep, 12)
    driver = Driver()
    driver.live(topic.rows[:cut], 0)
    before = set(driver.open)
    driver.rebuild(topic.rows[:cut])
    driver.live([], driver.now + 20_000)
    assert set(driver.open) == before
    driver.live(topic.rows[cut:], 0)
    assert before <= set(driver.open)


def test_a_silent_member_is_given_as_long_to_be_silent_again() -> None:
    topic = Topic()
    member = Client("a-1", (0,))
    topic.generation(0, 1, [member])
    topic.commits(1_000, 20_000, member)
    topic.record(25_000, b"\0\2\0\5other", None, "other")
    (silent,) = [one for one in findings(topic, until=10_000) if one.kind is Kind.MEMBER_SILENT]
    rebuilt = Rebuilt(SETTINGS, "c1")
    rebuilt.begin([silent], ["g"])
    at, silence = silent.at, int(silent.details["silence_ms"])
    assert not rebuilt.on_batch(
        [], Reading(groups={"g": {"state": "Stable"}}, catching_up=False, now=at)
    ).ended
    assert not rebuilt.on_batch([], Reading(catching_up=False, now=at + silence)).ended
    (ended,) = rebuilt.on_batch([], Reading(catching_up=False, now=at + silence + 5_000)).ended
    assert (ended.kind, ended.incident, ended.resolution) == (silent.kind, silent.id, "expired")
    assert rebuilt.snapshot() == {}


def test_nothing_ends_while_history_is_read() -> None:
    (opened,) = [one for one in findings(crash_loop(3)) if one.kind is Kind.STORM and one.phase == "opened"]
    rebuilt = Rebuilt(SETTINGS, "c1")
    rebuilt.begin([opened], ["g"])
    for hours in range(3):
        reading = Reading(catching_up=True, now=T0 + HOUR * hours)
        assert rebuilt.on_batch([], reading).ended == []
    assert rebuilt.on_batch([], Reading(catching_up=None, now=T0 + 9 * HOUR)).ended == []


def test_the_probe_may_open_a_storm_again_whose_records_were_forgotten() -> None:
    live = Live(DetectionSettings(), "c1")
    live.refine([_recorded("opened", 1)])
    live.forget_records()
    looks = live.on_samples([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    storms = [one for one in looks if one.kind is Kind.STORM]
    assert [one.phase for one in storms] == ["opened"]
    assert {one.incident for one in storms} <= live.opened
