"""The same records give the same findings, however they are cut, decoded, replayed or clocked."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.coordinator.findings.finding import MEASURED, Finding, from_json, to_json
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import DrivenBy, Kind
from rebalance_monitor.decoders import Row, rows
from tests.coordinator.support.epochs import A, B, Epochs, Share, Streams
from tests.coordinator.support.timeline import Client, Topic, findings, in_batches

CLIENTS = [
    Client("a-1", (0, 1), "consumer-a"),
    Client("b-1", (2,), "rdkafka", "/10.0.0.2"),
    Client("c-1", (3,), "consumer-c", "/10.0.0.3", instance_id="c"),
    Client("c-2", (3,), "consumer-c", "/10.0.0.3", instance_id="c"),
    Client("a-2", (0, 1), "consumer-a"),
]
steps = st.one_of(
    st.tuples(st.just("generation"), st.integers(0, 3), st.sets(st.integers(0, 4), max_size=4)),
    st.tuples(st.just("commit"), st.integers(0, 3), st.integers(0, 4)),
    st.tuples(st.just("commit"), st.integers(0, 3), st.integers(0, 4)),
    st.tuples(st.just("tombstone"), st.sampled_from([2, 3, 5]), st.just(0)),
    st.tuples(st.just("junk"), st.sampled_from([1, 2, 3, 5, 8, 17]), st.binary(max_size=12)),
)
waits = st.sampled_from([0, 1, 40, 500, 1_000, 6_500, 8_300, 40_000, 400_000])
quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# librdkafka chooses ids of its own kind.
MEMBERS = [A, B, "plain-member-id"]
parts = st.sets(st.integers(0, 3), max_size=3).map(lambda some: tuple(sorted(some)))
epoch_steps = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(MEMBERS), parts, st.sampled_from([None, None, "c"])),
    st.tuples(st.just("leave"), st.sampled_from(MEMBERS), st.booleans(), st.none()),
    st.tuples(st.just("describe"), st.sampled_from(MEMBERS), st.none(), st.none()),
    st.tuples(st.just("ack"), st.sampled_from(MEMBERS), parts, st.integers(-2, 2)),
    st.tuples(st.just("ack"), st.sampled_from(MEMBERS), parts, st.integers(-2, 2)),
    st.tuples(st.sampled_from(["bump", "target"]), st.just(A), st.integers(0, 2), st.none()),
    st.tuples(st.just("commit"), st.just(A), parts, st.integers(0, 3)),
    st.tuples(st.just("commit"), st.just(A), parts, st.integers(0, 3)),
    st.tuples(st.just("tombstone"), st.just(A), st.sampled_from([2, 3, 4, 6, 11, 12, 17, 18]), st.none()),
    # The group goes from or to the classic protocol.
    st.tuples(st.just("generation"), st.just(A), st.sets(st.integers(0, 4), max_size=3), st.none()),
)


@st.composite
def epoch_topics(draw: st.DrawFn) -> Topic:
    """Records of one group of any epoch-based type, in any order that a damaged topic may have them in."""
    topic: Epochs = draw(st.sampled_from([Epochs, Share, Streams]))()
    # Streams members are written down without tasks.
    assigned = not isinstance(topic, Streams) and draw(st.booleans())
    at = epoch = 0
    for wait, (verb, member, what, number) in draw(
        st.lists(st.tuples(waits, epoch_steps), min_size=1, max_size=25)
    ):
        at += wait
        epoch += _bumps(verb, what)
        if verb in {"join", "leave", "ack", "describe"}:
            _of_member(topic, at, epoch, (verb, member, what if assigned else (), number))
        elif verb == "bump":
            topic.bump(at, epoch)
        elif verb == "target":
            topic.target(at, max(0, epoch - what))
        elif verb == "commit":
            topic.commit(at, dict.fromkeys(what or (0,), number))
        elif verb == "tombstone":
            topic.tombstone(at, what)
        else:
            topic.generation(at, epoch, [CLIENTS[index] for index in sorted(what)])
    return topic


def _bumps(verb: str, what: object) -> int:
    """By how much a step counts the epoch up."""
    return what if verb in {"bump", "leave"} and isinstance(what, int) else verb in {"join", "generation"}


def _of_member(topic: Epochs, at: int, epoch: int, step: tuple[str, str, Any, Any]) -> None:
    verb, member, what, number = step
    if verb == "join":
        # Share members have no instance ids.
        topic.join(at, member, epoch, what, None if isinstance(topic, Share) else number)
    elif verb == "leave":
        topic.leave(at, member, epoch)
    elif verb == "ack":
        topic.ack(at, member, -2 if number < -1 else max(0, epoch - abs(number)), what, number % 3)
    else:
        topic.metadata(at, member)


def topics() -> st.SearchStrategy[Topic]:
    """One group's records, of any type."""
    return st.one_of(classic_topics(), epoch_topics())


@st.composite
def classic_topics(draw: st.DrawFn) -> Topic:
    topic, at, generation = Topic(), 0, 0
    for wait, (verb, number, what) in draw(st.lists(st.tuples(waits, steps), min_size=1, max_size=25)):
        at += wait
        if verb == "generation":
            generation += number
            topic.generation(at, generation, [CLIENTS[index] for index in sorted(what)])
        elif verb == "commit":
            topic.commit(at, dict.fromkeys(CLIENTS[what].partitions, number))
        elif verb == "tombstone":
            topic.tombstone(at, number)
        else:
            topic.record(at, bytes([0, number, 0, 1]) + b"g" + what, what)
    return topic


def by_records(found: list[Finding]) -> list[Finding]:
    """Those that records alone decide; a storm's end is published by the clock or by the next record."""
    kept = [f for f in found if KINDS[f.kind].driven_by is DrivenBy.RECORD]
    return [f for f in kept if f.phase != "resolved" or f.kind is Kind.GROUP_EMPTY]


@quick
@given(topics(), st.lists(st.integers(0, 25), max_size=6))
def test_cutting_into_batches_and_writing_the_state_between_changes_nothing(
    topic: Topic, cuts: list[int]
) -> None:
    cuts = [cut for cut in cuts if cut < len(topic.rows)]
    assert in_batches(topic, cuts, clocks=False) == in_batches(topic, [], clocks=False)


@quick
@given(topics())
def test_what_records_decide_needs_no_clock(topic: Topic) -> None:
    with_clock = by_records(findings(topic))
    without = by_records(in_batches(topic, [], clocks=False))
    ids = {found.id for found in without}
    assert ids <= {found.id for found in with_clock}
    later = [found for found in with_clock if found.id not in ids]
    assert {found.kind for found in later} <= {Kind.GROUP_REMOVED}


@quick
@given(topics())
def test_rows_that_come_twice_say_nothing_again(topic: Topic) -> None:
    twice = Topic(rows=[*topic.rows, *topic.rows])
    assert in_batches(twice, [], clocks=False) == in_batches(topic, [], clocks=False)


@quick
@given(topics())
def test_every_finding_has_its_own_id_and_survives_as_json(topic: Topic) -> None:
    found = findings(topic)
    assert len({finding.id for finding in found}) == len(found)
    assert [from_json(to_json(finding)) for finding in found] == found


@quick
@given(topics())
def test_history_says_so_and_claims_nothing_of_the_clock(topic: Topic) -> None:
    cuts = list(range(len(topic.rows)))
    found = in_batches(topic, cuts[::9], history=topic.offset + 10)
    assert all(finding.history for finding in found)
    assert not [f for f in found if KINDS[f.kind].driven_by is not DrivenBy.RECORD]


@quick
@given(topics())
def test_details_hold_only_keys_that_the_table_lists(topic: Topic) -> None:
    for finding in findings(topic):
        # What is sent along to the driver nobody else sees.
        assert set(finding.details) - {MEASURED} <= set(KINDS[finding.kind].details)
        assert (finding.phase is not None) <= KINDS[finding.kind].phases


@quick
@given(topics())
def test_whatever_belongs_to_an_incident_says_since_when_it_is_open(topic: Topic) -> None:
    since: dict[str | None, int | None] = {}
    for finding in findings(topic):
        if finding.phase is None:
            continue
        assert finding.opened_at is not None
        assert since.setdefault(finding.incident, finding.opened_at) == finding.opened_at


def cut_in_two(topic: Topic) -> Topic:
    """Every commit run of several partitions as two rows with the same timestamps."""
    out = []
    for row in topic.rows:
        if row.row_kind != rows.COMMIT_RUN or row.count == 1:
            out.append(row)
            continue
        run = rows.commit_run(row)
        (topic_a, part_a), *rest = run.partitions()
        head = rows.run_body(rows.partition_entry(topic_a.encode(), part_a), run.offsets_bytes[:8])
        tail = b"".join(rows.partition_entry(name.encode(), part) for name, part in rest)
        out.append(replace(row, last_offset=row.first_offset, count=1, body=head))
        body = rows.run_body(tail, run.offsets_bytes[8:])
        out.append(replace(row, first_offset=row.first_offset + 1, count=row.count - 1, body=body))
    return Topic(rows=out)


@quick
@given(topics())
def test_a_run_that_is_cut_gives_the_same_findings(topic: Topic) -> None:
    assert in_batches(cut_in_two(topic), [], clocks=False) == in_batches(topic, [], clocks=False)


@given(st.binary(max_size=80), st.integers(0, 40))
@quick
def test_no_record_raises(value: bytes, kind: int) -> None:
    topic = Topic()
    topic.generation(0, 1, CLIENTS[:2])
    topic.record(10, bytes([0, kind, 0, 1]) + b"g", value)
    topic.rows.append(
        Row(
            7,
            0,
            "failure",
            2,
            2,
            0,
            "g",
            -1,
            1,
            b'\1{"reason":"truncated","part":"value","at":0,"field":"","type":2,"key":null,"value":null}',
        )
    )
    findings(topic, until=5_000)
