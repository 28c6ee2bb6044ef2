"""A finding as a JSON line: what its reader gets, and the same bytes whatever writes it."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    CauseEntry,
    Coordinator,
    Finding,
    MemberEntry,
    from_json,
    to_dict,
    to_json,
)
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity

texts = st.text()
numbers = st.integers(-(2**63), 2**63 - 1)
shares = st.integers(0, 100).map(lambda hundredths: hundredths / 100)
maybe = st.none() | texts
causes = st.builds(CauseEntry, st.sampled_from(Cause), shares, texts, maybe, maybe, maybe, maybe)
members = st.builds(
    MemberEntry, texts, maybe, texts, texts, st.booleans(), texts, last_seen=st.none() | numbers
)
findings = st.builds(
    Finding,
    id=texts,
    kind=st.sampled_from(Kind),
    scope=st.sampled_from(Scope),
    severity=st.sampled_from(Severity),
    evidence=texts,
    confidence=shares,
    group=maybe,
    groups=st.lists(texts, max_size=2).map(tuple),
    coordinator=st.none() | st.builds(Coordinator, numbers, numbers),
    at=numbers,
    causes=st.lists(causes, max_size=2).map(tuple),
    members=st.lists(members, max_size=2).map(tuple),
    details=st.dictionaries(texts, texts | numbers | shares, max_size=3),
)


@settings(max_examples=50, deadline=None)
@given(findings)
def test_a_line_is_what_the_json_module_makes_of_the_dict_byte_for_byte(finding: Finding) -> None:
    assert to_json(finding) == json.dumps(to_dict(finding), ensure_ascii=False, separators=(",", ":"))
    assert from_json(to_json(finding)) == finding


def test_half_a_surrogate_pair_is_written_as_it_came() -> None:
    found = Finding(
        id="1",
        kind=Kind.STORM,
        scope=Scope.GROUP,
        severity=Severity.WARNING,
        evidence="read",
        group="half \ud800",
        at=0,
        details={},
    )
    assert from_json(to_json(found)) == found
