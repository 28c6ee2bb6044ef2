"""Whatever names a record has, nothing that leaves a coordinator grows with them, and all of it matches."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import MEASURED
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.names import (
    MAX_BYTES,
    MAX_SENTENCE_BYTES,
    bounded,
    short,
)
from rebalance_monitor.coordinator.findings.outputs import FindingOut, GroupOut, Output, RemovedOut
from rebalance_monitor.coordinator.probe import sample
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.step import OpenShard, Plan
from tests.alerts.support.findings import finding
from tests.coordinator.support.timeline import T0, Client, Topic

LONG = st.text(min_size=1).map(lambda text: (text * MAX_BYTES)[: 8 * MAX_BYTES])


def texts(found: object) -> list[str]:
    """Every text in a JSON-able value, keys too."""
    if isinstance(found, str):
        return [found]
    if isinstance(found, dict):
        return [text for pair in found.items() for one in pair for text in texts(one)]
    return [text for one in found for text in texts(one)] if isinstance(found, list | tuple) else []


def told(group: str, member: str, topic: str) -> list[Output]:
    """All that is said of a group whose members change and go."""
    first, second = (
        Client(f"{member}-{n}", (n,), client_id=member, host=member, topics=(topic,)) for n in (1, 2)
    )
    records = Topic(group=group)
    records.generation(0, 1, [first])
    records.commit(500, {1: 1}, topic)
    records.generation(20_000, 2, [first, second], protocol=member)
    records.generation(40_000, 3, [second])
    records.generation(60_000, 4, [])
    records.tombstone(80_000)
    shard = OpenShard(Plan(DetectionSettings(), "c1", {}), records.shard, 0, None)
    out = shard.advance(records.rows, T0 + 100_000, ticks=True)
    for later in (110_000, 120_000):
        out += shard.advance((), T0 + later, ticks=True)
    return out


@given(LONG, LONG, LONG)
def test_outputs_have_no_long_text_and_one_name_for_a_group(group: str, member: str, topic: str) -> None:
    out = told(group, member, topic)
    assert max(len(text.encode()) for text in texts(msgspec.to_builtins(out))) <= MAX_SENTENCE_BYTES
    names = {one.finding.group for one in out if isinstance(one, FindingOut)}
    names |= {one.group for one in out if isinstance(one, GroupOut | RemovedOut)}
    names |= {one.summary["group"] for one in out if isinstance(one, GroupOut)}
    assert names == {short(group)}


@given(LONG, LONG)
def test_a_probe_sample_has_the_names_that_outputs_have(group: str, member: str) -> None:
    seen = (RebalancingGroup(group, "PreparingRebalance", "classic", "consumer"),)
    members = {group: ((member, "", member, member),)}
    made = ProbeSample(T0, seen, members=members, listed=frozenset({group}))
    cut = sample.from_json(sample.to_json(made))
    assert {cut.groups[0].group, *cut.members, *(cut.listed or ())} == {short(group)}
    assert cut.members[short(group)] == ((short(member), "", short(member), short(member)),)


@given(st.text())
def test_a_name_that_fits_stays_and_what_was_different_stays_different(name: str) -> None:
    assert len(short(name * MAX_BYTES).encode()) <= MAX_BYTES
    long = name + "x" * MAX_BYTES
    assert short(long + "1") != short(long + "2")
    assert short(short(long)) == short(long)
    assert short(name[: MAX_BYTES // 4]) == name[: MAX_BYTES // 4]


def test_a_finding_that_fits_is_left_as_it_is() -> None:
    plain = finding(Kind.STORM)
    assert bounded(plain) is plain
    cut = bounded(finding(Kind.STORM, group="x" * 32_000, groups=("x" * 32_000,)))
    assert cut.groups == (cut.group,)
    assert len(json.dumps(msgspec.to_builtins(cut))) < 6_000


@given(LONG, st.integers(MAX_SENTENCE_BYTES, 5 * MAX_SENTENCE_BYTES))
def test_the_evidence_of_many_members_reaches_the_driver_whole(name: str, length: int) -> None:
    evidence = "1" * length
    event = finding(Kind.REBALANCE, group=name, details={MEASURED: evidence, "named": name})
    assert bounded(event).details == {MEASURED: evidence, "named": short(name, MAX_SENTENCE_BYTES)}
