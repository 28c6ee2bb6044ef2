"""State begun anew; what was open goes on or is resolved with a reason, nothing is published twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from rebalance_monitor.checkpoints.state.codec import Stored
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import BatchKey, read_batch
from rebalance_monitor.engine.batch.step import Plan, step
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.facts import TopicFacts
from tests.coordinator.storms.test_storms import STEADY, crash_loop
from tests.coordinator.support.timeline import T0, Client, Topic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.decoders import Row

SHARD = 7
EVERY = 10_000
FACTS = TopicFacts("__consumer_offsets", "topic", "c1", {SHARD: 0}, {SHARD: 0})
OFF: dict[str, Any] = {"enabled": False}
SETTINGS = Settings(web=OFF, probe=OFF, audit={"every_batches": 0})
DETECTION = DetectionSettings(always_on=("empty",))


class Job:
    """One job after the other on one folder, its clock moved by hand (ms after T0)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.told: list[Finding] = []
        self.query = self.now = 0
        self.last = -1
        self.begin({})

    def begin(self, history: dict[int, int], *, rebuilt: bool = False) -> None:
        """Start a process: with a new state that has `history`, or the first one."""
        self.query += 1
        self.stored: Stored | None = None
        self.batch = 0
        self.plan = Plan(DETECTION, "c1", history)
        self.outputs = Outputs(SETTINGS, Storage(self.root), FACTS, DETECTION)
        if rebuilt:
            self.outputs.begin_anew(complete=bool(history))
            self.outputs.writer.speak()

    def read(self, rows: Sequence[Row]) -> None:
        """One batch, ten seconds after the last."""
        self.now += EVERY
        self.last = max((row.last_offset for row in rows), default=self.last)
        self.stored, out = step(self.plan, SHARD, 0, rows, T0 + self.now, self.stored, ticks=True)
        batch = read_batch(out)
        self.outputs.writer.apply(BatchKey(f"q{self.query}", self.batch), batch)
        self.batch += 1

    def play(self, topic: Topic, until: int) -> None:
        """Read the topic as it comes, then nothing, up to `until`."""
        while self.now < until:
            due = T0 + self.now + EVERY
            self.read([row for row in topic.rows if row.first_offset > self.last and row.record_ts < due])

    def rebuild(self, rows: Sequence[Row]) -> None:
        """Lose the state; read what compaction has left of the topic in one batch."""
        self.outputs.serving._keep_groups()
        self.begin({SHARD: rows[-1].last_offset + 1}, rebuilt=True)
        self.read(rows)

    @property
    def open(self) -> dict[str, str]:
        """Open incidents as the dashboard has them: kind -> incident."""
        found = self.outputs.serving.snapshot.known.incidents.open.values()
        return {one.kind.value: one.id for one in found if one.kind is not Kind.MONITOR_DEGRADED}

    def findings(self, kind: Kind) -> list[Finding]:
        found = self.outputs.serving._newest_findings()
        return [one for one in found if one.kind is kind]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def compacted(rows: Sequence[Row]) -> list[Row]:
    """The newest record of each group; commits are left out."""
    newest = {row.group: row for row in rows if row.row_kind == "record"}
    return sorted(newest.values(), key=lambda row: row.first_offset)


def test_a_storm_that_is_not_seen_again_after_a_rebuild_is_resolved_and_says_why(job: Job) -> None:
    topic = crash_loop(6)
    job.play(topic, 150_000)
    incident = job.open["storm"]
    job.rebuild(compacted(topic.rows))
    job.play(topic, 400_000)
    assert job.open == {"storm": incident}
    job.play(topic, 500_000)
    assert job.open == {}
    ended = job.findings(Kind.STORM)[-1]
    assert (ended.incident, ended.phase, ended.resolution) == (incident, "resolved", "expired")
    assert ended.causes[0].why == "the state was built anew from the topic; not seen since"


def test_a_storm_that_goes_on_after_a_rebuild_keeps_its_incident_and_ends_once(job: Job) -> None:
    topic = crash_loop(14)
    job.play(topic, 150_000)
    incident = job.open["storm"]
    job.rebuild(compacted([row for row in topic.rows if row.first_offset <= job.last]))
    job.play(topic, 260_000)
    assert job.open == {"storm": incident}
    job.play(topic, 700_000)
    assert job.open == {}
    found = job.findings(Kind.STORM)
    assert {one.incident for one in found} == {incident}
    assert [one.phase for one in found].count("opened") == 1
    assert [one.phase for one in found].count("resolved") == 1


def test_an_earlier_storm_in_history_does_not_end_the_one_that_is_open(job: Job) -> None:
    topic = crash_loop(6)
    for row in crash_loop(6).rows:
        at = row.record_ts + 500_000
        topic.rows.append(replace(row, first_offset=topic.offset, last_offset=topic.offset, record_ts=at))
        topic.offset += 1
    job.play(topic, 650_000)
    incident = job.open["storm"]
    job.rebuild(topic.rows)
    assert job.open == {"storm": incident}
    job.play(topic, 1_100_000)
    assert job.open == {}


def test_a_group_that_is_still_empty_after_a_rebuild_stays_so_until_it_has_members(job: Job) -> None:
    topic = Topic(group="empty")
    topic.generation(0, 1, STEADY)
    topic.generation(20_000, 2, [])
    job.play(topic, 30_000)
    incident = job.open["group_empty"]
    job.rebuild(compacted(topic.rows))
    job.play(topic, 60_000)
    assert job.open == {"group_empty": incident}
    topic.generation(61_000, 3, STEADY)
    job.play(topic, 70_000)
    assert job.open == {}
    (ended,) = [one for one in job.findings(Kind.GROUP_EMPTY) if one.phase == "resolved"]
    assert (ended.incident, ended.resolution) == (incident, "completed")


@pytest.mark.parametrize("again", [True, False])
def test_a_skew_that_is_found_again_goes_on_and_one_that_is_not_is_resolved(job: Job, *, again: bool) -> None:
    skewed = [Client("a-1", (0, 1, 2, 3, 4), "a"), Client("b-1", (5,), "b")]
    topic = Topic()
    topic.generation(0, 1, skewed)
    topic.generation(10_000, 2, skewed)
    # Of a cooperative group's first record nothing is said: it may be of a first phase.
    topic.generation(20_000, 3, skewed, protocol="range" if again else "cooperative-sticky")
    job.play(topic, 30_000)
    incident = job.open["assignment_skewed"]
    job.rebuild(compacted(topic.rows))
    job.play(topic, 60_000)
    assert job.open == ({"assignment_skewed": incident} if again else {})
    topic.generation(61_000, 4, [Client("a-1", tuple(range(6)), "a")])
    job.play(topic, 80_000)
    assert job.open == {}
    found = job.findings(Kind.ASSIGNMENT_SKEWED)
    assert {one.incident for one in found} == {incident}
    assert [one.phase for one in found].count("opened") == 1
    assert [one.phase for one in found].count("resolved") == 1


def test_groups_that_are_in_the_topic_no_more_leave_the_groups_table(job: Job) -> None:
    topic = Topic()
    topic.generation(0, 1, STEADY)
    topic.group = "gone"
    topic.generation(1_000, 1, STEADY)
    job.play(topic, 30_000)
    assert set(job.outputs.serving.snapshot.known.groups) == {"g", "gone"}
    topic.tombstone(31_000)
    job.rebuild(compacted(topic.rows))
    job.play(topic, 60_000)
    assert set(job.outputs.serving.snapshot.known.groups) == {"g"}
    (removed,) = job.findings(Kind.GROUP_REMOVED)
    assert removed.group == "gone"


def test_what_a_shard_had_open_whose_state_was_damaged_goes_on_or_ends(job: Job) -> None:
    topic = crash_loop(6)
    job.play(topic, 150_000)
    incident = job.open["storm"]
    assert job.stored is not None
    job.stored = Stored(T0 + job.now, job.stored.blob[:9])
    job.play(topic, 400_000)
    assert job.open == {"storm": incident}
    job.play(topic, 500_000)
    assert job.open == {}
