"""Each kind of finding in each medium, letter by letter, and in the order in which people ask."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rebalance_monitor.alerts.gallery import examples
from rebalance_monitor.alerts.gallery.gallery import LINKS
from rebalance_monitor.alerts.messages.endings import ended_as, ending_of
from rebalance_monitor.alerts.messages.headlines import BY_CAUSE, HEADLINES
from rebalance_monitor.alerts.messages.lead import first_cause
from rebalance_monitor.alerts.messages.measures import DETAIL_ROWS, keys_of
from rebalance_monitor.alerts.messages.message import message_of
from rebalance_monitor.alerts.render import plain, slack
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rollup.bursts import ROLLED_UP
from rebalance_monitor.coordinator.storms.offenders import main_offender
from tests.alerts.golden_files import FOLDER, files, messages
from tests.alerts.support.block_kit import problems, refusal

EXPECTED = files()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_message_reads_as_its_golden_file(name: str) -> None:
    """`python -m tests.alerts.golden_files` writes them again."""
    assert (FOLDER / name).read_text(encoding="utf-8") == EXPECTED[name]


def test_there_is_no_golden_file_of_nothing() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(messages()))
def test_slack_takes_every_message_and_reply(name: str) -> None:
    for made in (slack.render(messages()[name]), slack.render_reply(messages()[name])):
        assert refusal(made) is None, problems(made)
        assert made["unfurl_links"] is made["unfurl_media"] is False


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("phase", [None, "resolved"])
def test_a_message_answers_in_the_order_in_which_people_ask(kind: Kind, phase: str | None) -> None:
    """Which group, what, through which member, since when, how bad, why, what to do; then the details."""
    if phase and not KINDS[kind].phases:
        phase = None
    finding = examples.example(kind, phase)
    said = plain.render(message_of(finding, LINKS))
    headline = HEADLINES[kind]
    sure = f", confidence {finding.confidence:.0%}" if finding.confidence < 1 else "\n"
    numbered = {Kind.PARTITIONS_UNASSIGNED: "leaves 3 partitions unread"}
    opened = numbered.get(kind, headline.opened.format(sync="31.2 s"))
    what = ended_as(finding) if phase else opened
    asked = [finding.group, what]
    if phase:
        asked += ["Lasted 3 min 20 s, until 2026-11-20 23:49:16 UTC"]
    else:
        asked += [first.client_id] if (first := first_cause(finding)) else []
        asked += [f"{'ince' if finding.phase else 't'} 2026-11-20"]
        asked += ["46.2 s to 49.3 s"] if finding.stopped_ms_min is not None else []
        asked += ["in the group"] if finding.members_total is not None else []
        asked += [finding.causes[0].why] if len(finding.causes) == 1 else []
    cause = first.cause if (first := first_cause(finding)) else None
    next_step = headline.next_step if cause is None else BY_CAUSE.get((kind, cause), headline.next_step)
    step = ending_of(finding).next_step if phase else next_step
    # Members that stayed are those that the finding is about.
    asked += [member.client_id for member in finding.members if member.role == "kept"]
    asked += ["Next: ", step, f"Runbook <{LINKS.runbook}#{kind.value}>"]
    asked += ["Details", "Evidence", f"{finding.evidence}{sure}"]
    if len(finding.causes) > 1:
        for cause in finding.causes:
            asked += [cause.cause.value.replace("_", " "), cause.why]
    for member in (one for one in finding.members if one.role != "kept"):
        asked += [f"{member.role}: {member.client_id}", member.host.lstrip("/")]
    place = 0
    for words in filter(None, asked):
        found = said.find(words, place)
        assert found >= 0, f"{words!r} is not said in its place"
        place = found


@pytest.mark.parametrize("kind", list(Kind))
def test_what_is_suspected_says_so_in_title_and_evidence_and_nothing_else_does(kind: Kind) -> None:
    finding = examples.example(kind)
    made = message_of(finding)
    suspected = finding.evidence == "suspected"
    assert ("(suspected)" in made.title) is suspected
    assert ("suspected, confidence" in plain.render(made)) is suspected
    assert ("(suspected)" in slack.render(made)["text"]) is suspected


def test_a_roll_up_says_how_many_groups_and_which() -> None:
    made = messages()["session_timeout.roll_up"]
    assert made.title == "[prod] 64 groups: lost a member to its session timeout (suspected)"
    said = plain.render(made)
    assert "team-00, team-01" in said
    assert "+54 more" in said


def test_rows_and_examples_use_details_that_the_kinds_table_knows() -> None:
    for kind in Kind:
        known = set(KINDS[kind].details)
        assert {key for _, template in DETAIL_ROWS.get(kind, ()) for key in keys_of(template)} <= known
        assert set(examples.example(kind).details) <= known


@pytest.mark.parametrize("kind", list(DETAIL_ROWS))
def test_every_row_of_details_is_shown_by_the_opening_or_the_closing_example(kind: Kind) -> None:
    phases = ("opened", "resolved")
    made = [examples.example(kind, phase) for phase in phases]
    # What many groups have in common carries what it cost all of them.
    made += [replace(examples.roll_up(phase), kind=kind) for phase in phases if kind in ROLLED_UP]
    shown = [plain.render(message_of(one)) for one in made]
    for label, template in DETAIL_ROWS[kind]:
        optional = {"cadence_ms", "empty_at", "seen", "topic", "twice"} & set(keys_of(template))
        in_lead = label == "Most frequent" and main_offender(examples.example(kind).details)
        assert optional or in_lead or any(f"\n  {label} " in said for said in shown), label


def test_an_end_is_green_and_says_how_long_how_many_and_who() -> None:
    made = messages()["thread.closed"]
    assert slack.render(made)["attachments"][0]["color"] == "#12b76a"
    said = plain.render(made)
    for words in (
        "3 min 20 s",
        "24 members, 25 before",
        "11 completed, 3 failed",
        "orders-enricher-7",
        "https://",
    ):
        assert words in said, words


def test_a_golden_file_of_slack_is_what_the_api_is_given() -> None:
    shown = json.loads((FOLDER / "storm.slack.json").read_text(encoding="utf-8"))
    assert set(shown["message"]) == {"text", "blocks", "attachments", "unfurl_links", "unfurl_media"}
