"""Messages of whole threads: several alerts in one, sums, and addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.alerts.incidents.alert import NEVER, Alert, fingerprint
from rebalance_monitor.alerts.incidents.tally import MAX_OFFENDERS, Tally
from rebalance_monitor.alerts.messages.blocks import Tone
from rebalance_monitor.alerts.messages.links import MAX_ADDRESS, Links
from rebalance_monitor.alerts.messages.message import MAX_TITLE, links_of
from rebalance_monitor.alerts.messages.thread import MAX_ALERTS, message_of_thread, news_of
from rebalance_monitor.alerts.render import html, markdown, plain, slack
from rebalance_monitor.alerts.routing.labels import labels_of
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from tests.alerts.support.block_kit import refusal
from tests.alerts.support.findings import AT, CAUSE, finding

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding


def _alert(group: str, severity: Severity = Severity.CRITICAL, ends_at: int = NEVER) -> Alert:
    found = finding(Kind.STORM, group=group, severity=severity)
    return Alert(fingerprint(found), labels_of(found, {}), AT, ends_at, found)


def test_the_worst_alert_that_still_fires_comes_first_and_gives_the_colour() -> None:
    alerts = (
        _alert("over", ends_at=AT + 5_000),
        _alert("mild", Severity.WARNING),
        _alert("worst"),
    )
    made = message_of_thread(alerts, AT + 10_000, Tally())
    said = plain.render(made)
    assert made.tone is Tone.CRITICAL
    assert said.index("critical worst") < said.index("warning mild") < said.index("resolved over")
    assert "2 of 3 alerts still open" in made.title
    assert "lasted 5.0 s" in said


@pytest.mark.parametrize(
    ("kinds", "groups", "over", "title"),
    [
        ([Kind.STORM, Kind.SESSION_TIMEOUT], ["a", "a"], 0, "[prod] a: storm, session timeout (2 alerts)"),
        ([Kind.STORM, Kind.STORM], ["a", "b"], 1, "[prod] b, a: storm (1 of 2 alerts still open)"),
        ([Kind.STORM] * 3, ["a", "b", "c"], 3, "[prod] a, b and 1 more: storm (all 3 alerts are over)"),
        (
            [Kind.STORM, Kind.SLOW_SYNC, Kind.SESSION_TIMEOUT, Kind.GROUP_EMPTY],
            ["a"] * 4,
            0,
            "[prod] a: storm, slow sync, session timeout and 1 more (4 alerts)",
        ),
    ],
)
def test_the_title_of_several_alerts_says_whom_and_what(
    kinds: list[Kind], groups: list[str], over: int, title: str
) -> None:
    alerts = tuple(
        Alert(fingerprint(found), labels_of(found, {}), AT, AT if number < over else NEVER, found)
        for number, (kind, group) in enumerate(zip(kinds, groups, strict=True))
        for found in [finding(kind, group=group, cluster="prod", severity=Severity.CRITICAL)]
    )
    assert message_of_thread(alerts, AT, Tally()).title == title


def test_more_alerts_than_fit_are_counted() -> None:
    alerts = tuple(_alert(f"group-{number}") for number in range(MAX_ALERTS + 17))
    made = message_of_thread(alerts, AT, Tally())
    assert "and 17 more" in plain.render(made)
    assert "+17 more" in str(slack.render(made, whole=True))
    assert refusal(slack.render(made)) is None


def test_a_single_alert_that_ended_by_itself_is_green_though_its_finding_never_resolved() -> None:
    lost = finding(Kind.SESSION_TIMEOUT)
    alert = Alert(fingerprint(lost), labels_of(lost, {}), AT, AT + 300_000, lost)
    assert message_of_thread((alert,), AT + 300_000, Tally()).tone is Tone.RESOLVED


@given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=40), st.integers(0, 2**53))
def test_any_groups_make_a_message_that_every_medium_takes(groups: list[str], now: int) -> None:
    made = message_of_thread(tuple(_alert(group) for group in groups), now, Tally())
    assert len(made.title) <= MAX_TITLE
    assert refusal(slack.render(made)) is None
    assert refusal(slack.render_reply(news_of((finding(),) * 20, made))) is None
    assert all(render(made) for render in (html.render, markdown.render, plain.render))


def test_a_tally_counts_rebalances_and_the_client_named_most_often() -> None:
    other = replace(CAUSE, client_id="orders-9")
    tally = Tally()
    for causes in ((CAUSE, CAUSE), (CAUSE, other), ()):
        tally = tally.add(finding(Kind.REBALANCE, causes=causes))
    tally = tally.add(finding(Kind.REBALANCE_FAILED, causes=(), stopped_ms_max=None))
    assert tally == Tally(3, 1, 9_300, (("orders-3", 2), ("orders-9", 1)), "orders", 5, 5)
    assert tally.worst == ("orders-3", 2)
    assert tally.add(finding(Kind.SESSION_TIMEOUT)) == tally


def test_a_closed_thread_says_how_many_members_remain_and_how_many_there_were() -> None:
    tally = Tally().add(finding(Kind.REBALANCE, members_total=2, details={"joined": 0, "left": 1}))
    alert = _alert("orders", ends_at=AT + 5_000)
    assert "now 2 members, 3 before" in plain.render(message_of_thread((alert,), AT + 5_000, tally))
    other = _alert("payments", ends_at=AT + 5_000)
    assert "3 before" not in plain.render(message_of_thread((other,), AT + 5_000, tally))


def test_a_member_in_few_of_many_rebalances_is_not_called_their_worst_offender() -> None:
    tally = Tally(30, 0, 0, (("orders-3", 9), ("orders-9", 1)))
    assert (
        "orders-3"
        not in plain.render(message_of_thread((_alert("o", ends_at=AT),), AT, tally)).split("Details")[0]
    )


def test_a_tally_remembers_no_more_than_its_bound() -> None:
    tally = Tally()
    for number in range(100):
        tally = tally.add(finding(Kind.REBALANCE, causes=(replace(CAUSE, client_id=f"c-{number}"),)))
    assert len(tally.offenders) == MAX_OFFENDERS


@given(st.text(min_size=1, max_size=300))
def test_a_page_address_carries_any_group_and_nothing_of_it_acts(group: str) -> None:
    address = Links(page="https://monitor.example/{cluster}/groups/{group}").page_of(finding(group=group))
    assert address is None or len(address) <= MAX_ADDRESS
    if address is not None:
        parts = urlsplit(address)
        assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == (
            "https",
            "monitor.example",
            "",
            "",
        )
        assert address.isascii()
        if not any("\ud800" <= char <= "\udfff" for char in group):
            assert unquote(parts.path) == f"/prod/groups/{group}"


def test_a_group_named_like_a_placeholder_stays_a_name() -> None:
    links = Links(page="https://monitor.example/{cluster}/{group}")
    assert links.page_of(finding(group="{cluster}")) == "https://monitor.example/prod/%7Bcluster%7D"
    assert links.page_of(finding(cluster="{group}")) == "https://monitor.example/%7Bgroup%7D/orders"


def test_findings_of_an_incident_lead_to_its_page() -> None:
    address = "https://monitor.example/?incident={incident}"
    links = Links(page="https://monitor.example/?group={group}", incident=address)
    storm = render(finding(Kind.STORM, incident="0123456789abcdef", phase="opened"), links)
    assert "Incident page <https://monitor.example/?incident=0123456789abcdef>" in storm
    assert "Group page <https://monitor.example/?group=orders>" in storm
    assert "Group page <https://monitor.example/?group=" in render(
        finding(Kind.REBALANCE, incident=None), links
    )


def render(told: Finding, links: Links) -> str:
    return plain.words(links_of(told, links))


@pytest.mark.parametrize("address", ["javascript:alert(1)", "ftp://x", "//x", "runbooks.md"])
def test_only_web_addresses_become_links(address: str) -> None:
    with pytest.raises(ValueError, match="http"):
        Links(runbook=address)
    with pytest.raises(ValueError, match="http"):
        Links(page=address)
