"""Leader epochs: what a leader without the newest records replaced is noticed, wherever its log ends."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.state.manifest import ManifestError
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.engine.topic.guard import require_uncut
from rebalance_monitor.engine.topic.leader_epochs import (
    Kept,
    Mark,
    Marks,
    believed,
    compared,
    mark_cuts,
    marked,
    read_marks,
    to_ask,
    write_marks,
)
from rebalance_monitor.engine.topic.topic import NO_MARKS, ask
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.cluster.quiet import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.engine.topic.facts import TopicFacts

OFFSETS = st.integers(0, 50)
# A log as its leaders wrote it: how many records each of some epochs has, in order.
LOGS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


def end_of(log: list[int], epoch: int) -> int:
    """Where the log of a leader ends an epoch, as OffsetForLeaderEpoch is answered."""
    return sum(log[: epoch + 1])


@given(LOGS, st.integers(0, 5), st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_a_loss_of_what_was_marked_is_found_whatever_was_written_since(
    log: list[int], lost: int, since: list[int]
) -> None:
    epoch, read = len(log) - 1, sum(log)
    places = {0: Mark(epoch, read)}
    left = max(0, read - lost)
    # The new leader has a prefix of the log, and epochs of its own after it.
    kept = compared(places, {0: min(left, end_of(log, epoch))})
    assert kept[0].is_cut == (left < read)
    now = {0: epoch + len(since)}
    end = {0: left + sum(since)}
    after = marked(places, end, now, kept, end)
    assert after == (places if kept[0].is_cut else {0: Mark(now[0], left + sum(since))})


@given(LOGS, st.integers(1, 5), st.integers(1, 4), st.integers(0, 1))
def test_a_loss_that_ends_reported_once_is_found_later_too_whatever_was_written_since(
    log: list[int], lost: int, later: int, looks: int
) -> None:
    """The last look was before most was read, or there was none; then the ends came, and the job ended."""
    epoch, read = len(log) - 1, sum(log)
    left = read - lost
    if left < 0:
        return
    looked = {0: Mark(epoch, 0)} if looks else {}
    places = mark_cuts(looked, {0: read}, {0: epoch})
    assert to_ask(places, {0: epoch + later}) == {0: epoch}
    # The new leader's log ends that epoch where it had got to.
    kept = compared(places, {0: left})
    assert kept == {0: Kept(read, left)}
    assert kept[0].is_cut


def test_only_partitions_that_another_leads_are_asked_about() -> None:
    places = {0: Mark(3, 9), 1: Mark(3, 9), 2: Mark(3, 9)}
    assert to_ask(places, {0: 3, 1: 4, 2: -1}) == {1: 3}


def test_a_leader_of_an_older_epoch_than_was_seen_is_not_believed() -> None:
    mark = Mark(6, 200)
    assert believed((150, 5), mark) == (200, -1)
    assert [believed(told, mark) for told in [(150, 6), (150, 7), (150, -1)]] == [
        (150, 6),
        (150, 7),
        (150, -1),
    ]
    assert believed((150, 5), None) == (150, 5)


def test_a_mark_stays_until_the_new_leader_has_answered() -> None:
    places = {0: Mark(3, 9)}
    assert marked(places, {0: 20}, {0: 4}, {}, {0: 20}) == places
    assert marked(places, {0: 20}, {0: 4}, {0: Kept(9, 9)}, {0: 20}) == {0: Mark(4, 20)}
    assert marked(places, {0: 20}, {0: -1}, {}, {0: 20}) == places


def test_a_leader_that_lacks_what_was_read_since_the_mark_gets_none_of_its_own() -> None:
    """Its end tells of the loss; the mark of the leader before it is what tells once it has grown."""
    places, read = {0: Mark(0, 6)}, {0: 15}
    kept = compared(places, {0: 6})
    assert not kept[0].is_cut
    after = marked(places, read, {0: 1}, kept, {0: 6})
    assert after == places
    assert mark_cuts(after, read, {0: 0}) == {0: Mark(0, 15)}


def test_marks_are_read_as_they_were_written_and_mean_nothing_for_another_topic(tmp_path: Path) -> None:
    marks = Marks("topic", {0: Mark(1, 10), 49: Mark(0, 0)})
    write_marks(tmp_path / "leaders.json", marks)
    found = read_marks(tmp_path / "leaders.json")
    assert found == marks
    assert found.of("recreated") == {}


@pytest.mark.parametrize("text", ["", "[]", '{"topic_id": "t", "places": {"0": [1]}}', "\udce4"])
def test_a_damaged_file_of_marks_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "leaders.json").write_bytes(text.encode(errors="surrogateescape"))
    assert read_marks(tmp_path / "leaders.json") == Marks()
    assert read_marks(tmp_path / "nothing.json") == Marks()


def make(bootstrap: str, topic: NewTopic) -> None:
    client = AdminClient(quiet(bootstrap))
    client.create_topics([topic])["t"].result()


def write(bootstrap: str, records: int) -> None:
    # Idempotent: a record that is sent again, while another leads, is written once.
    producer = Producer({**quiet(bootstrap), "enable.idempotence": True})
    for number in range(records):
        producer.produce("t", str(number), partition=0)
    assert producer.flush(180) == 0


def look(bootstrap: str, marks: Marks) -> TopicFacts | None:
    with ClusterAdmin({"bootstrap.servers": bootstrap}) as admin:
        facts = ask(admin, "t", marks)
    return facts if facts is not None and facts.epochs[0] >= 0 else None


def long_as(bootstrap: str, end: int, marks: Marks = NO_MARKS) -> TopicFacts:
    """Wait until all replicas in sync have so many records; give what the brokers say then."""
    found: list[TopicFacts] = []

    def there() -> bool:
        # A leader that was killed is not there to be asked.
        with suppress(DependencyError):
            found.extend(filter(None, [look(bootstrap, marks)]))
        return bool(found) and found[-1].ends[0] == end

    assert wait_until(there, 240, 1), [facts.ends for facts in found]
    return found[-1]


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_unclean_election_is_noticed_once_the_topic_is_longer_than_it_was() -> None:
    """Two of three brokers hold the topic: one misses records, and leads alone when the other is killed."""
    settings = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with LabBroker(nodes=3, offsets_partitions=1, settings=settings) as cluster:
        first, second, _ = cluster.nodes
        topic = NewTopic("t", 1, replica_assignment=[[first.address.node, second.address.node]])
        make(cluster.bootstrap, topic)
        write(cluster.bootstrap, 10)
        long_as(cluster.bootstrap, 10)
        second.kill()
        write(cluster.bootstrap, 20)
        before = long_as(cluster.bootstrap, 30)
        marks = Marks(before.id, marked({}, before.ends, before.epochs, {}, before.ends))
        first.kill()
        second.start(leashed=True)
        write(cluster.bootstrap, 50)
        found = long_as(cluster.bootstrap, 60, marks)
        assert found.kept == {0: Kept(30, 10)}
        with pytest.raises(ManifestError, match=r"read up to 30, kept to 10.*--rebuild-state"):
            require_uncut(before.ends, found)


@pytest.mark.broker
def test_a_restart_that_loses_nothing_is_no_loss(tmp_path: Path) -> None:
    with LabBroker(folder=tmp_path, offsets_partitions=1) as cluster:
        make(cluster.bootstrap, NewTopic("t", 1, 1))
        write(cluster.bootstrap, 10)
        before = look(cluster.bootstrap, Marks())
        assert before is not None
        marks = Marks(before.id, marked({}, before.ends, before.epochs, {}, before.ends))
        cluster.nodes[0].kill()
        cluster.nodes[0].start(leashed=True)
        cluster.wait_ready()
        after = look(cluster.bootstrap, marks)
        assert after is not None
        assert after.epochs[0] > before.epochs[0]
        assert after.kept == {0: Kept(10, 10)}
        require_uncut(before.ends, after)
        write(cluster.bootstrap, 10)
