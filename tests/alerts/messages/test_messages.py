"""What a message says, and that no name in it can act."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.alerts.messages import text
from rebalance_monitor.alerts.messages.headlines import HEADLINES
from rebalance_monitor.alerts.messages.links import Links
from rebalance_monitor.alerts.messages.message import MAX_TITLE, message_of, title_of
from rebalance_monitor.alerts.render import html, markdown, plain, slack
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.sinks.block_kit import problems, refusal
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
    assert "session timeout 93%" in said
    assert CAUSE.why in said
    assert "orders-3 on 10.1.2.3" in said
    assert f"https://runbooks.example/page#{kind.value}" in said


def test_what_is_only_suspected_says_so_before_its_cause() -> None:
    said = plain.render(message_of(finding(Kind.MEMBER_SILENT, evidence="suspected", confidence=0.7)))
    assert said.index("suspected, confidence 70%") < said.index(CAUSE.why)


def test_the_order_is_group_time_damage_cause_member_next_step() -> None:
    said = plain.render(message_of(finding(Kind.STORM)))
    marks = [
        "orders",
        "2026-11-20",
        "900 ms to 3.1 s",
        "1 affected",
        "session timeout 93%",
        "left: ",
        "Next: ",
    ]
    places = [said.index(mark) for mark in marks]
    assert places == sorted(places)


def test_a_resolved_incident_is_green_and_says_how_it_ended() -> None:
    over = finding(Kind.STORM, phase="resolved", resolution="quiet", opened_at=finding().at - 200_000)
    made = slack.render(message_of(over))
    assert made["attachments"][0]["color"] == "#12b76a"
    assert "rebalance storm is over" in made["text"]
    assert "3 min 20 s, until 2026-11-20" in plain.render(message_of(over))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_letters_in_every_medium(name: str) -> None:
    bad = finding(Kind.STORM, group=name, causes=(), members=())
    said = slack.render(message_of(bad))
    assert "<" not in said["text"]
    kinds = {element["type"] for element in _leaves(said["attachments"][0]["blocks"])}
    assert problems(said) == []
    assert kinds <= {"text"}
    shown = html.render(message_of(bad))
    assert _tags(shown) <= {"div", "h3", "table", "tr", "th", "td", "span", "strong", "code", "p", "ul", "li"}
    for render in RENDERERS.values():
        assert not any(char in render(message_of(bad)) for char in "\x00\x1b\r\u202e")


@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=400))
def test_slack_limits_hold_for_any_names(group: str, client: str, host: str) -> None:
    member = MEMBER.__class__("m", None, client, host, host_is_stale=False, role="left")
    bad = finding(Kind.STORM, group=group, members=(member,) * 30, groups=(group,) * 50, groups_total=400)
    said = slack.render(message_of(bad))
    assert refusal(said) is None
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
