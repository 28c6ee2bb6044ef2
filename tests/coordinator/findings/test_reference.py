from rebalance_monitor.coordinator.explain.advice import RULES as ADVICE
from rebalance_monitor.coordinator.findings.causes import CAUSE_WHAT, Cause
from rebalance_monitor.coordinator.findings.finding import FIELDS
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.state.state_machine import EDGES, TRANSITIONS, Event, Status


def test_every_kind_and_cause_stands_in_its_table() -> None:
    assert set(KINDS) == set(Kind)
    assert set(CAUSE_WHAT) == set(Cause)


def test_the_fields_have_the_order_of_the_contract() -> None:
    assert FIELDS[:9] == (
        "schema",
        "id",
        "kind",
        "scope",
        "severity",
        "evidence",
        "confidence",
        "history",
        "late",
    )
    assert FIELDS[-1] == "details"


def test_no_state_has_two_ways_for_one_event() -> None:
    assert len({(edge.before, edge.event) for edge in TRANSITIONS}) == len(TRANSITIONS)


def test_what_no_record_shows_is_never_called_read() -> None:
    unseen = {Event.REBALANCE_STARTED, Event.JOIN_ENDED}
    assert all(edge.tier != "read" for edge in TRANSITIONS if edge.event in unseen)


def test_an_illegal_event_is_none_and_raises_nothing() -> None:
    assert (Status.DEAD, Event.STATIC_REWRITE) not in EDGES


def test_every_advice_names_its_input() -> None:
    assert all(rule.__doc__ for rule in ADVICE)
