from rebalance_monitor.lab.truth.scripted import Act, Script, scripted_facts
from rebalance_monitor.lab.truth.truth import Truth

JOIN = "Adding new member m with group instance id null; client reason: not provided"
ASK = "Leader m re-joining group during Stable; client reason: not provided"
Events = list[Truth]


def _generation(number: int, at: int, reason: str) -> Events:
    return [
        Truth(at, "g", "started", number - 1, (), reason),
        Truth(at + 10, "g", "completed", number),
        Truth(at + 20, "g", "synced", number, ("m",)),
    ]


def _facts(script: Script, *generations: Events) -> set[tuple[str, int, str, bool]]:
    events = [event for generation in generations for event in generation]
    found = scripted_facts(script, events)
    return {(fact.label, fact.generation, fact.member, fact.required) for fact in found}


FIRST = [Truth(900, "g", "joined", -1, ("m",)), *_generation(1, 1000, JOIN)]


def test_a_step_is_the_cause_of_the_next_generation_that_no_member_asked_to_join_in() -> None:
    script = Script("g", (Act(5000, "add_partitions"),))
    found = _facts(script, FIRST, _generation(2, 5500, JOIN), _generation(3, 6000, ASK))
    assert found == {("cause:partitions_changed", 3, "", True)}


def test_a_step_without_any_effect_is_no_fact() -> None:
    assert _facts(Script("g", (Act(5000, "add_partitions"),)), FIRST) == set()


def test_a_new_subscription_is_a_fact_of_its_member_and_one_by_pattern_of_all() -> None:
    script = Script("g", (Act(5000, "subscribe", ("m",)),))
    assert _facts(script, FIRST, _generation(2, 5500, ASK)) == {
        ("cause:subscription_changed", -1, "m", True),
        ("cause:leader_rejoined", 2, "", False),
    }
    by_pattern = Script("g", (Act(5000, "create_topic"),), joins_by_pattern=True)
    assert _facts(by_pattern, FIRST) == {("cause:subscription_changed", -1, "m", True)}
    assert _facts(Script("g", (Act(5000, "create_topic"),)), FIRST) == set()
    at_broker = Script("g", (Act(5000, "create_topic"),), joins_by_pattern=True, at_broker=True)
    assert _facts(at_broker, FIRST) == {("cause:subscription_changed", -1, "", True)}


def test_only_the_first_member_with_another_assignor_changes_the_groups() -> None:
    script = Script("g", (Act(4000, "assignor"), Act(9000, "assignor")))
    found = _facts(script, FIRST, _generation(2, 4500, ASK), _generation(3, 9500, ASK))
    assert {(label, number) for label, number, _, _ in found if "protocol" in label} == {
        ("cause:protocol_changed", 2)
    }


def test_a_member_that_an_administrator_removed_is_a_fact_of_its_own() -> None:
    script = Script("g", (Act(5000, "remove_members", ("m",)),))
    assert ("cause:member_removed_by_admin", -1, "m", True) in _facts(script, FIRST)


def test_an_announced_follow_up_is_a_probing_rebalance_one_at_once_may_be() -> None:
    def asked(when: str) -> str:
        return ASK.replace("not provided", f"triggered followup rebalance scheduled for {when}")

    announced = _facts(Script("g", ()), FIRST, _generation(2, 60_000, asked("1795252346000")))
    assert announced == {("cause:streams_probing", 2, "", True)}
    at_once = _facts(Script("g", ()), FIRST, _generation(2, 60_000, asked("0")))
    assert {required for *_, required in at_once} == {False}


def test_a_deleted_topic_may_be_reported_in_several_ways_after_the_first() -> None:
    script = Script("g", (Act(5000, "delete_topic"),))
    found = _facts(script, FIRST, _generation(2, 5500, ASK), _generation(3, 7000, ASK))
    assert ("cause:topic_deleted", 2, "", True) in found
    assert ("cause:topic_deleted", 3, "", False) in found
    assert ("cause:subscription_changed", -1, "m", False) in found


def test_a_generation_that_a_member_asked_for_may_tell_of_the_step_as_well() -> None:
    """Its assignments have the new config offset, whoever came."""
    script = Script("g", (Act(5000, "connector"),), connect=True)
    found = _facts(script, FIRST, _generation(2, 5500, ASK), _generation(3, 6000, JOIN))
    assert found == {
        ("cause:connect_reconfigured", 2, "", True),
        ("cause:connect_reconfigured", 3, "", False),
    }


def test_what_no_step_explains_is_a_leader_that_rejoined_or_a_follow_up() -> None:
    again = _generation(2, 3000, ASK)
    assert _facts(Script("g", ()), FIRST, again) == {("cause:leader_rejoined", 2, "", True)}
    assert _facts(Script("g", (), cooperative=True), FIRST, again) == {
        ("cause:cooperative_follow_up", 2, "", True)
    }
    late = _generation(2, 60_000, ASK)
    assert _facts(Script("g", (), cooperative=True), FIRST, late) == {("cause:leader_rejoined", 2, "", True)}
    said = _generation(2, 60_000, ASK.replace("not provided", "need to revoke partitions and re-join"))
    assert _facts(Script("g", ()), FIRST, said) == {("cause:cooperative_follow_up", 2, "", True)}


def test_after_a_move_of_the_coordinator_nobody_can_know_which_of_two_it_was() -> None:
    found = _facts(Script("g", (), moves=(2500,)), FIRST, _generation(2, 3000, ASK))
    assert found == {("cause:coordinator_moved", 2, "", False), ("cause:leader_rejoined", 2, "", False)}


def test_a_reset_is_reported_by_the_generation_that_fills_the_group_again() -> None:
    script = Script("g", (Act(5000, "reset_offsets"),))
    empty = [Truth(4000, "g", "empty", 2)]
    assert _facts(script, FIRST, empty, _generation(3, 40_000, JOIN)) == {
        ("cause:offsets_reset", 3, "", True)
    }


def test_who_commits_with_a_group_id_is_reported_whenever_the_group_fills_again() -> None:
    script = Script("g", (Act(2000, "assign"),))
    empty, again = [Truth(4000, "g", "empty", 3)], [Truth(14_000, "g", "empty", 5)]
    found = _facts(
        script,
        FIRST,
        _generation(2, 3000, JOIN),
        empty,
        _generation(4, 9_000, JOIN),
        again,
        _generation(6, 19_000, JOIN),
    )
    assert found == {("cause:group_id_shared", generation, "", True) for generation in (4, 6)}


def test_connect_waits_for_a_lost_worker_and_rebalances_when_the_delay_is_over() -> None:
    lost = _generation(2, 5000, "removing member m on heartbeat expiration.")
    found = _facts(Script("g", (), connect=True), FIRST, lost, _generation(3, 13_000, ASK))
    assert found == {("cause:connect_delayed", 2, "", False), ("cause:connect_delayed", 3, "", True)}


def test_other_groups_are_not_ours() -> None:
    others = [Truth(event.at, "h", event.what, event.generation, (), ASK) for event in FIRST]
    assert _facts(Script("g", ()), others, others) == set()
