from rebalance_monitor.lab.truth.facts import facts_of, migrated_groups
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.truth.truth import Truth


class Log:
    """Writes a coordinator's log as events, one second apart."""

    def __init__(self) -> None:
        self.events: list[Truth] = []

    def tell(self, what: str, generation: int = -1, *members: str, after_ms: int = 1000) -> None:
        at = (self.events[-1].at if self.events else 0) + after_ms
        self.events.append(Truth(at, "g", what, generation, members))

    def generation(self, number: int, *joined: str) -> None:
        for member in joined:
            self.tell("joined", -1, member)
        self.tell("completed", number)
        self.tell("synced", number, "leader")

    def facts(self, *static: str) -> set[tuple[str, int, str]]:
        return {_plain(fact) for fact in facts_of(self.events, static)}


def _plain(fact: Fact) -> tuple[str, int, str]:
    return fact.label, fact.generation, fact.member


def test_a_first_generation_is_a_first_start_whoever_joined() -> None:
    log = Log()
    log.generation(1, "a", "b")
    assert log.facts() == {("rebalance", 1, ""), ("cause:first_start", 1, "")}


def test_an_expired_member_is_a_session_timeout_of_the_next_generation() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("expired", -1, "b")
    log.generation(2)
    assert {
        ("session_timeout", 2, "b"),
        ("cause:session_timeout", 2, "b"),
        ("rebalance", 2, ""),
    } <= log.facts()


def test_an_expired_static_member_has_its_own_cause() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("expired", -1, "b")
    log.generation(2)
    assert ("cause:static_member_expired", 2, "b") in log.facts("g")


def test_a_leave_after_a_breach_in_the_journal_is_a_poll_breach() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("poll_breach", -1, "b")
    log.tell("left", -1, "b")
    log.generation(2)
    facts = log.facts()
    assert ("cause:poll_interval_exceeded", 2, "b") in facts
    assert ("poll_interval_exceeded", 2, "b") in facts
    assert not any(label == "cause:member_left" for label, _, _ in facts)


def test_a_leave_long_after_a_breach_is_a_leave() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("poll_breach", -1, "b")
    log.tell("left", -1, "b", after_ms=60_000)
    log.generation(2)
    assert ("cause:member_left", 2, "b") in log.facts()


def test_a_generation_without_an_assignment_is_a_failed_one_published_with_the_next() -> None:
    log = Log()
    log.tell("joined", -1, "a")
    log.tell("completed", 1)
    log.generation(2, "b")
    facts = log.facts()
    assert ("rebalance_failed", 2, "") in facts
    assert ("rebalance", 1, "") not in facts


def test_a_member_that_joined_and_left_between_two_records_is_no_fact() -> None:
    log = Log()
    log.generation(1, "a")
    log.tell("joined", -1, "x")
    log.tell("expired", -1, "x")
    log.generation(2)
    assert not any(member == "x" for _, _, member in log.facts())


def test_what_happens_between_the_end_of_a_join_phase_and_its_record_belongs_to_the_next() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("joined", -1, "c")
    log.tell("completed", 2)
    log.tell("left", -1, "b")
    log.tell("synced", 2, "a")
    log.generation(3)
    facts = log.facts()
    assert ("cause:member_joined", 2, "c") in facts
    assert ("cause:member_left", 3, "b") in facts


def test_the_last_member_leaving_empties_the_group_and_the_next_start_is_a_first_one() -> None:
    log = Log()
    log.generation(1, "a")
    log.tell("left", -1, "a")
    log.tell("empty", 2)
    log.generation(3, "b")
    facts = log.facts()
    assert {("group_empty", 2, ""), ("cause:member_left", 2, "a"), ("cause:first_start", 3, "")} <= facts
    assert not any(label == "cause:member_joined" for label, _, _ in facts)


def test_a_static_replacement_is_no_rebalance() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("static_replaced", -1, "b")
    assert log.facts() == {
        ("rebalance", 1, ""),
        ("cause:first_start", 1, ""),
        ("static_member_replaced", -1, "b"),
    }


def test_a_static_member_that_comes_back_during_a_rebalance_leaves_no_record_of_its_own() -> None:
    log = Log()
    log.generation(1, "a", "b")
    log.tell("static_swapped", -1, "b")
    assert not any(label == "static_member_replaced" for label, _, _ in log.facts())


def test_a_group_that_changed_its_protocol_is_known_as_such() -> None:
    log = Log()
    log.generation(1, "a")
    assert migrated_groups(log.events) == frozenset()
    log.tell("epoch", 2)
    assert migrated_groups(log.events) == {"g"}


def test_a_leave_logged_after_the_empty_it_caused_still_caused_it() -> None:
    log = Log()
    log.generation(1, "a")
    log.tell("empty", 2)
    log.tell("left", -1, "a", after_ms=1)
    assert ("cause:member_left", 2, "a") in log.facts()


def test_an_epoch_based_group_is_written_with_every_change() -> None:
    log = Log()
    for number, (what, member) in enumerate(
        [("joined", "a"), ("joined", "b"), ("expired", "b"), ("left", "a")], 1
    ):
        log.tell(what, -1, member)
        log.tell("epoch", number, after_ms=2500)
    assert log.facts() == {
        ("rebalance", 1, ""),
        ("rebalance", 2, ""),
        ("rebalance", 3, ""),
        ("rebalance", 4, ""),
        ("cause:member_joined", -1, "b"),
        ("cause:session_timeout", -1, "b"),
        ("session_timeout", -1, "b"),
        ("cause:member_left", -1, "a"),
        ("group_empty", -1, ""),
        ("cause:first_start", -1, ""),
    }


def test_share_and_streams_groups_bump_their_epoch_without_a_line() -> None:
    log = Log()
    for number, member in enumerate("ab", 1):
        log.events.append(Truth(number * 5000, "g", "joined", -1, (member,), "share"))
        log.tell("epoch", number, after_ms=5)
    log.tell("expired", -1, "b", after_ms=9000)
    log.tell("epoch", 4, after_ms=400)
    log.tell("left", -1, "a", after_ms=9000)
    found = {(fact.label, fact.generation, fact.required) for fact in facts_of(log.events)}
    assert {("rebalance", 3, False), ("rebalance", 4, True), ("group_empty", -1, True)} <= found
    assert not any(label == "rebalance" and generation == 5 for label, generation, _ in found)


def test_an_assignment_that_could_not_be_stored_makes_no_generation_and_says_why() -> None:
    log = Log()
    log.generation(1, "a")
    log.generation(2, "b")
    error = "Error UNKNOWN_SERVER_ERROR when storing group assignmentduring SyncGroup (member: a)."
    log.events.append(Truth(log.events[-1].at + 2, "g", "started", 2, (), error))
    log.generation(3)
    found = log.facts()
    assert ("rebalance", 2, "") not in found
    assert {
        ("rebalance", 3, ""),
        ("rebalance_failed", 3, ""),
        ("cause:assignment_not_stored", 3, ""),
    } <= found
    assert ("cause:member_joined", 3, "b") in found


def test_members_of_an_assignment_whose_replicas_were_late_may_be_reported_or_not() -> None:
    log = Log()
    log.generation(1, "a")
    log.generation(2, "b")
    error = "Error COORDINATOR_NOT_AVAILABLE when storing group assignmentduring SyncGroup (member: a)."
    log.events.append(Truth(log.events[-1].at + 2, "g", "started", 2, (), error))
    log.tell("expired", -1, "b", after_ms=9000)
    log.generation(3)
    found = {(fact.label, fact.generation, fact.member, fact.required) for fact in facts_of(log.events)}
    assert {("rebalance", 2, "", False), ("rebalance", 3, "", True)} <= found
    assert ("cause:session_timeout", 3, "b", False) in found
    assert not any(label == "cause:assignment_not_stored" for label, *_ in found)
