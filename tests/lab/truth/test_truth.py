import json
from pathlib import Path

import pytest

from rebalance_monitor.lab.truth.truth import Truth, parse_journal, parse_line, parse_log, write_truth

AT = "2026-11-21T03:09:49.414Z INFO "
JAVA = (
    AT
    + "org.apache.kafka.coordinator.group.GroupMetadataManager [GroupCoordinator id=1 topic=x partition=9] "
)
SCALA = AT + "kafka.coordinator.group.GroupCoordinator [GroupCoordinator 1]: "
MS = 1795230589414


def _event(line: str) -> tuple[str, str, int, tuple[str, ...]]:
    found = parse_line(line)
    assert found is not None
    assert found.at == MS
    return found.what, found.group, found.generation, found.members


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (
            JAVA + "Preparing to rebalance group my group in state PreparingRebalance with old generation 3 "
            "(reason: removing member m-1 on heartbeat expiration.).",
            ("started", "my group", 3, ()),
        ),
        (
            SCALA + "Preparing to rebalance group g in state PreparingRebalance with old generation 3 "
            "(__consumer_offsets-7) (reason: Adding new member m-1 with group instance id None)",
            ("started", "g", 3, ()),
        ),
        (JAVA + "Stabilized group g generation 4 with 2 members.", ("completed", "g", 4, ())),
        (
            SCALA + "Stabilized group g generation 4 (__consumer_offsets-7) with 2 members",
            ("completed", "g", 4, ()),
        ),
        (
            JAVA
            + "Assignment received from leader m-1 for group g for generation 4. The group has 2 members, "
            "0 of which are static.",
            ("synced", "g", 4, ("m-1",)),
        ),
        (JAVA + "Group g with generation 5 is now empty.", ("empty", "g", 5, ())),
        (SCALA + "Group g with generation 5 is now empty (__consumer_offsets-7)", ("empty", "g", 5, ())),
        (
            JAVA + "Member m-1 in group g has failed, removing it from the group.",
            ("expired", "g", -1, ("m-1",)),
        ),
        (
            SCALA + "Member m-1 in group g has failed, removing it from the group",
            ("expired", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "Pending member m-1 in group g has been removed after session timeout expiration.",
            ("pending_expired", "g", -1, ("m-1",)),
        ),
        (
            JAVA
            + "[Group g] Member m-1 has left group through explicit `LeaveGroup` request; client reason: "
            "the consumer is being closed",
            ("left", "g", -1, ("m-1",)),
        ),
        (
            JAVA
            + "[Group g] Member m-1 has left group through explicit `LeaveGroup` request; client reason: "
            "consumer poll timeout has expired.",
            ("poll_left", "g", -1, ("m-1",)),
        ),
        (
            SCALA + "Member MemberMetadata(memberId=m-1, groupInstanceId=None, clientId=c, clientHost=/h, "
            "sessionTimeoutMs=6000, rebalanceTimeoutMs=8000, supportedProtocols=List(range)) has left "
            "group g through explicit `LeaveGroup`; client reason: not provided",
            ("left", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "Group g removed dynamic members who haven't joined: [m-1, m-2]",
            ("join_deadline", "g", -1, ("m-1", "m-2")),
        ),
        (
            SCALA + "Group g removed dynamic members who haven't joined: Set(m-1, m-2)",
            ("join_deadline", "g", -1, ("m-1", "m-2")),
        ),
        (
            JAVA
            + "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. "
            "Replacing previously mapped member m-1 with this groupInstanceId.",
            ("static_replaced", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "Static member with groupInstanceId=i and unknown member id joins group g in "
            "PreparingRebalance state. Replacing previously mapped member m-1 with this groupInstanceId.",
            ("static_swapped", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "Static member with groupInstanceId=i and unknown member id joins group g in Empty state. "
            "Created a new member id m-1 for this member and added to the group.",
            ("joined", "g", -1, ("m-1",)),
        ),
        (
            JAVA
            + "Pending dynamic member with id m-1 joins group g in Stable state. Adding to the group now.",
            ("joined", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "Dynamic member with unknown member id joins group g in state PreparingRebalance. "
            "Created a new member id m-1 and added the member to the group.",
            ("joined", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "[GroupId g] Member m-1 joins the consumer group using the consumer protocol.",
            ("joined", "g", -1, ("m-1",)),
        ),
        (JAVA + "[GroupId g] Member m-1 left the consumer group.", ("left", "g", -1, ("m-1",))),
        (
            JAVA + "[GroupId g] Static member m-1 with instance id i temporarily left the consumer group.",
            ("static_left", "g", -1, ("m-1",)),
        ),
        (
            JAVA
            + "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer "
            "protocol. Created a new member m-2 to replace the existing member m-1.",
            ("static_replaced", "g", -1, ("m-1", "m-2")),
        ),
        (
            JAVA + "[GroupId g] Member m-1 fenced from the group because the member session expired.",
            ("expired", "g", -1, ("m-1",)),
        ),
        (
            JAVA + "[GroupId g] Member m-1 fenced from the group because the member session expired..",
            ("expired", "g", -1, ("m-1",)),
        ),
        (JAVA + "[GroupId g] Bumped group epoch to 6 with metadata hash 0.", ("epoch", "g", 6, ())),
        (
            SCALA
            + "Member[group.instance.id None, member.id m-1] in group g has left, removing it from the group",
            ("left", "g", -1, ("m-1",)),
        ),
        (
            SCALA
            + "Assignment received from leader for group g for generation 2. The group has 3 members, 0 of "
            "which are static.",
            ("synced", "g", 2, ()),
        ),
        (
            SCALA
            + "Static member Some(i-1) of group g with unknown member id rejoins, assigning new member id "
            "m-2, while old member id m-1 will be removed.",
            ("static_replaced", "g", -1, ("m-1", "m-2")),
        ),
        (
            SCALA
            + "Static Member with unknown member id joins group g in Empty state. Created a new member id "
            "m-1 for this member and add to the group.",
            ("joined", "g", -1, ("m-1",)),
        ),
        (JAVA + "Loaded classic group g with 2 members.", ("loaded", "g", -1, ())),
        (JAVA + "[GroupId=g] Unloading group metadata for generation 3.", ("unloaded", "g", 3, ())),
        (SCALA + "Unloading group metadata for g with generation 3", ("unloaded", "g", 3, ())),
    ],
)
def test_old_and_new_wording_gives_the_same_events(
    line: str, event: tuple[str, str, int, tuple[str, ...]]
) -> None:
    assert _event(line) == event


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\tat java.base/something",
        "not a time INFO a b",
    ],
)
def test_other_lines_are_no_events(line: str) -> None:
    assert parse_line(line) is None


def test_a_sync_deadline_is_an_event_of_its_own_for_every_member_it_names() -> None:
    line = (
        JAVA + "Preparing to rebalance group g in state PreparingRebalance with old generation 3 "
        "(reason: Removing [m-1, m-2] on pending sync request expiration)."
    )
    started, missed = parse_log([line])
    assert started.what == "started"
    assert (missed.what, missed.members) == ("sync_deadline", ("m-1", "m-2"))


def test_a_journal_tells_of_processing_only_when_it_was_too_long() -> None:
    def line(seconds: float) -> str:
        return json.dumps(
            {"at": 1000, "event": "processing", "seconds": seconds, "limit_ms": 8000, "member": "m-1"}
        )

    found = list(
        parse_journal("g", [line(14), line(7.9), '{"at": 12', json.dumps({"at": 1, "event": "closed"})])
    )
    assert found == [Truth(9000, "g", "poll_breach", -1, ("m-1",), source="journal")]


def test_a_join_that_only_starts_a_rebalance_is_an_event_once() -> None:
    asks = SCALA + (
        "Preparing to rebalance group g in state PreparingRebalance with old generation 3 "
        "(__consumer_offsets-7) (reason: Adding new member m-1 with group instance id None)"
    )
    assert [one.what for one in parse_log([asks, asks])] == ["started", "joined", "started"]


def test_a_coordinator_that_has_given_a_group_up_removes_none_of_its_members() -> None:
    """The delayed join of the old coordinator of 3.9.1 ends a minute after the move, and says so."""
    unloading = SCALA + "Unloading group metadata for g with generation 3"
    removed = SCALA + "Group g removed dynamic members who haven't joined: Set(m-1, m-2)"
    loading = SCALA + "Loading group metadata for g with generation 7"
    other = removed.replace("Group g", "Group h")
    lines = [removed, unloading, removed, other, loading, removed]
    assert [(one.what, one.group) for one in parse_log(lines)] == [
        ("join_deadline", "g"),
        ("unloaded", "g"),
        ("join_deadline", "h"),
        ("loaded", "g"),
        ("join_deadline", "g"),
    ]


ASKED = (
    "Dynamic member with unknown member id joins group g in Empty state. Created a new member id {} "
    "and requesting the member to rejoin with this id."
)
GONE = "[Group g] Member {} has left group through explicit `LeaveGroup` request; client reason: not provided"


def test_a_member_that_was_asked_to_join_again_has_done_so_if_it_is_heard_of_later(tmp_path: Path) -> None:
    """The Java coordinator of 3.9 logs no more; later ones log the join as well."""
    pending = "Pending dynamic member with id m-3 joins group g in Empty state. Adding to the group now."
    lines = [*map(ASKED.format, ("m-1", "m-2", "m-3")), pending, GONE.format("m-2")]
    (tmp_path / "coordinator-1.log").write_text("".join(f"{JAVA}{line}\n" for line in lines))
    found = [(one.what, one.members) for one in write_truth(tmp_path)]
    assert sorted(found) == [("joined", ("m-2",)), ("joined", ("m-3",)), ("left", ("m-2",))]


def test_a_member_that_joined_without_a_line_is_reported_by_its_journal(tmp_path: Path) -> None:
    """Brokers before 3.0 log no join of a rebalance under way."""
    run = tmp_path / "runs" / "g"
    run.mkdir(parents=True)
    lines = [
        "Stabilized group g generation 1 (__consumer_offsets-7) with 2 members",
        "Assignment received from leader for group g for generation 1. The group has 2 members, 0 of which",
    ]
    (tmp_path / "coordinator-1.log").write_text("".join(f"{SCALA}{line}\n" for line in lines))
    at = parse_line(SCALA + lines[0])
    assert at is not None
    journal = [{"at": at.at + 40, "event": "assigned", "member": "m-2"}] * 2
    (run / "b.jsonl").write_text("".join(json.dumps(one) + "\n" for one in journal))
    assert [(one.what, one.members) for one in write_truth(tmp_path)] == [
        ("joined", ("m-2",)),
        ("completed", ()),
        ("synced", ()),
    ]
