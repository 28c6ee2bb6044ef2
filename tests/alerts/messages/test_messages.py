"""What a message says, and that no name in it can act."""

from __future__ import annotations

import json
import shlex
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.alerts.messages import text
from rebalance_monitor.alerts.messages.endings import NOTHING
from rebalance_monitor.alerts.messages.headlines import HEADLINES
from rebalance_monitor.alerts.messages.lead import Ended
from rebalance_monitor.alerts.messages.links import Links, silence_command
from rebalance_monitor.alerts.messages.message import MAX_LINES, MAX_TITLE, message_of, title_of
from rebalance_monitor.alerts.render import html, markdown, plain, slack
from rebalance_monitor.alerts.routing.labels import labels_of
from rebalance_monitor.alerts.routing.matchers import all_match, parse
from rebalance_monitor.alerts.setup.receivers import links_of
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Coordinator
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.block_kit import problems, refusal
from tests.alerts.support.findings import CAUSE, MEMBER, finding

RENDERERS = {"plain": plain.render, "markdown": markdown.render, "html": html.render}
HOSTILE = [
    "<!channel> pay up",
    "<https://evil.example|click>",
    "*bold* _it_ `code` ~no~",
    "[text](https://evil.example)",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "line\nbreak\r\x00\x1b[31m",
    "\u202egnp.exe",
    "x" * 10_000,
]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_headline_and_a_message_that_names_group_cause_and_next_step(kind: Kind) -> None:
    said = plain.render(message_of(finding(kind), Links("https://runbooks.example/page")))
    assert HEADLINES[kind].next_step in said
    assert "ession timeout 93%" in said
    assert CAUSE.why in said
    assert "orders-3 on 10.1.2.3" in said
    assert f"https://runbooks.example/page#{kind.value}" in said


def test_what_is_only_suspected_says_so_in_its_title_and_how_sure_it_is_in_the_details() -> None:
    said = plain.render(message_of(finding(Kind.MEMBER_SILENT, evidence="suspected", confidence=0.7)))
    assert said.index("(suspected)") < said.index(CAUSE.why) < said.index("suspected, confidence 70%")


def test_the_order_is_group_offender_time_damage_next_step_members() -> None:
    said = plain.render(message_of(finding(Kind.STORM)))
    marks = [
        "orders",
        "Session timeout 93% of orders-3 on 10.1.2.3",
        "2026-11-20",
        "900 ms to 3.1 s",
        "1 member and 4 partitions affected",
        "Next: ",
        "left: ",
    ]
    places = [said.index(mark) for mark in marks]
    assert places == sorted(places)


LINKS = Links(
    "https://docs.example/runbooks/",
    "https://monitor.example/?group={group}",
    "https://monitor.example/?incident={incident}",
)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("phase", ["opened", "resolved"])
def test_a_message_has_at_most_seven_lines_before_its_details(kind: Kind, phase: str) -> None:
    said = plain.render(
        message_of(finding(kind, phase=phase, details=dict.fromkeys(KINDS[kind].details, 7)), LINKS)
    )
    assert len(said.split("\n\nDetails\n")[0].splitlines()) <= MAX_LINES
    assert ("rebalance-monitor alerts silence add " in said) is (phase == "opened")


@pytest.mark.parametrize(
    ("web", "says"),
    [
        ({}, "No links: `web.url` is not set. Runbook: /runbooks/#storm on the monitor's page."),
        ({"enabled": False}, "No links: `web.enabled` is false. Runbook: docs/runbooks.md#storm."),
        ({"host": "10.0.0.7", "token": "t" * 16}, "Runbook <http://10.0.0.7:8377/runbooks/#storm>"),
    ],
)
def test_a_message_leads_somewhere_or_says_why_it_does_not(web: dict[str, object], says: str) -> None:
    links = links_of(Settings.model_validate({"web": web}))
    for over in (None, Ended(finding().at + 200_000)):
        said = plain.render(message_of(finding(Kind.STORM), links, over))
        assert says in said.split("Details")[0]
        assert len(said.split("\n\nDetails\n")[0].splitlines()) <= MAX_LINES


@pytest.mark.parametrize("kind", list(Kind))
def test_what_is_over_begins_with_resolved_in_every_medium_and_repeats_no_bad_news(kind: Kind) -> None:
    over = message_of(finding(kind), LINKS, Ended(finding().at + 200_000))
    assert plain.render(over).startswith("RESOLVED [prod] ")
    assert slack.render(over)["text"].startswith("RESOLVED [prod] ")
    assert HEADLINES[kind].opened not in over.title
    assert NOTHING in plain.render(over)


@pytest.mark.parametrize("kind", [kind for kind, spec in KINDS.items() if spec.phases])
def test_an_end_that_proves_no_recovery_claims_none_and_says_what_to_do(kind: Kind) -> None:
    gone = plain.render(message_of(finding(kind, phase="resolved", resolution="expired", opened_at=1), LINKS))
    assert HEADLINES[kind].resolved not in gone
    assert NOTHING not in gone


@pytest.mark.parametrize(("share", "named"), [(0.33, False), (0.34, True)])
def test_a_member_behind_less_than_a_third_of_the_rebalances_is_not_the_worst_offender(
    share: float, *, named: bool
) -> None:
    details = {"count": 9, "window_ms": 300_000, "worst_client": "orders-9", "worst_share": share}
    said = plain.render(message_of(finding(Kind.STORM, details=details)))
    assert ("Worst offender orders-9" in said) is named
    assert ("Stop or fix the worst offender" in said) is named
    assert ("No member is behind a third of the rebalances" in said) is not named
    assert "orders-9, in 3" in said


@given(st.text(min_size=1, max_size=80).filter(lambda name: "\0" not in name))
def test_the_command_in_a_message_silences_this_alert_whatever_the_group_is_called(group: str) -> None:
    found = finding(Kind.STORM, group=group)
    *command, matchers, _for, _hour = shlex.split(silence_command(found))
    assert command == ["rebalance-monitor", "alerts", "silence", "add"]
    assert all_match(parse(matchers), labels_of(found, {}))
    assert not all_match(parse(matchers), labels_of(finding(Kind.STORM, group=f"{group}x"), {}))


def test_coordinator_and_epoch_are_said_only_where_they_are_the_matter() -> None:
    where = Coordinator(3, 42)
    assert "epoch 42" not in plain.render(message_of(finding(Kind.STORM, coordinator=where)))
    assert "epoch 42" in plain.render(message_of(finding(Kind.COORDINATOR_MOVED, coordinator=where)))


def test_an_unknown_cause_has_no_percentage() -> None:
    unknown = CauseEntry(Cause.UNKNOWN, 1.0, "the probe saw it rebalance, no record explains it")
    said = plain.render(message_of(finding(causes=(unknown,))))
    assert "Cause unknown; at" in said
    assert "100%" not in said


def test_a_resolved_incident_is_green_and_says_how_it_ended() -> None:
    over = finding(Kind.STORM, phase="resolved", resolution="quiet", opened_at=finding().at - 200_000)
    made = slack.render(message_of(over))
    assert made["attachments"][0]["color"] == "#12b76a"
    assert "rebalance storm is over" in made["text"]
    assert "Lasted 3 min 20 s, until 2026-11-20" in plain.render(message_of(over))
    assert "the rebalances stopped; now 5 members" in plain.render(message_of(over))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_letters_in_every_medium(name: str) -> None:
    bad = finding(Kind.STORM, group=name, causes=(), members=())
    said = slack.render(message_of(bad))
    assert "<" not in said["text"]
    kinds = {element["type"] for element in _leaves(said["attachments"][0]["blocks"])}
    assert problems(said) == []
    assert kinds <= {"text"}
    shown = html.render(message_of(bad))
    assert _tags(shown) <= {
        "div",
        "h3",
        "h4",
        "table",
        "tr",
        "th",
        "td",
        "span",
        "strong",
        "code",
        "p",
        "ul",
        "li",
    }
    for render in RENDERERS.values():
        assert not any(char in render(message_of(bad)) for char in "\x00\x1b\r\u202e")


@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=400))
def test_slack_limits_hold_for_any_names(group: str, client: str, host: str) -> None:
    member = MEMBER.__class__("m", None, client, host, host_is_stale=False, role="left")
    bad = finding(Kind.STORM, group=group, members=(member,) * 30, groups=(group,) * 50, groups_total=400)
    said = slack.render(message_of(bad), whole=True)
    assert refusal(said) is None
    assert refusal(slack.render(message_of(bad))) is None
    assert refusal(slack.render_reply(message_of(bad))) is None
    assert refusal(slack.render_text(message_of(bad))) is None
    assert "+22 more" in json.dumps(said)
    assert "+390 more" in json.dumps(said)


@given(st.text(max_size=300))
def test_titles_are_short_and_of_one_visible_line(group: str) -> None:
    title = title_of(finding(Kind.STORM, group=group))
    assert len(title) <= MAX_TITLE
    assert title == text.visible(title)
    assert title.endswith("is in a rebalance storm")


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (6_400, "6.4 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (3_600_000, "1 h"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations_read_as_people_say_them(ms: int, said: str) -> None:
    assert text.duration(ms) == said


def _leaves(blocks: list[dict]) -> list[dict]:  # type: ignore[type-arg] # Slack's JSON
    return [element for section in _sections(blocks) for element in section["elements"]]


def _sections(blocks: list[dict]) -> list[dict]:  # type: ignore[type-arg] # Slack's JSON
    found = []
    for block in blocks:
        for element in block["elements"]:
            found += [element] if element["type"] == "rich_text_section" else element["elements"]
    return found


def _tags(page: str) -> set[str]:
    class Seen(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: set[str] = set()

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            del attrs
            self.tags.add(tag)

    parser = Seen()
    parser.feed(page)
    return parser.tags
