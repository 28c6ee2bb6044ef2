"""The verbs around alerts, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from rebalance_monitor.cli.main import run
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import finding
from tests.alerts.support.slack_fake import CHANNEL, TOKEN, SlackFake

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPTURE = Path(__file__).resolve().parents[3] / "fixtures" / "scenarios" / "faults-4.1.1" / "capture"


@pytest.fixture
def slack() -> Iterator[SlackFake]:
    with SlackFake() as fake:
        yield fake


@pytest.fixture
def config(tmp_path: Path, slack: SlackFake) -> str:
    receivers = [
        {"name": "sre", "slack": {"token": TOKEN, "channel": CHANNEL, "api_url": slack.api}},
        {"name": "hook", "slack": {"webhook_url": slack.hook}},
        {"name": "away", "webhook": {"url": "http://127.0.0.1:1/", "timeout": "1s"}},
        {"name": "nobody"},
    ]
    routes = [
        {"matchers": ['group=~"test-.*"'], "receiver": "nobody"},
        {"matchers": ['severity="critical"'], "receiver": "hook", "continue": True},
        {"matchers": ['team="payments"'], "receiver": "away", "mute_time_intervals": ["always"]},
    ]
    always = [{"name": "always", "time_intervals": [{}]}]
    alerts = {
        "receivers": receivers,
        "route": {"receiver": "sre", "routes": routes},
        "time_intervals": always,
    }
    detection = {"groups": [{"pattern": "pay-*", "team": "payments"}]}
    path = tmp_path / "c.yaml"
    (tmp_path / "store").mkdir()
    body = {"cluster_name": "prod", "storage": {"path": str(tmp_path / "store")}, "alerts": alerts}
    body["detection"] = detection
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return str(path)


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_test_arrives_marked_and_is_resolved_again(config: str, slack: SlackFake) -> None:
    assert run(["alerts", "test", "sre", "-c", config]) == 0
    (parent,) = slack.parents()
    assert "[TEST]" in parent.content["text"]
    assert "over" in parent.content["text"]
    assert parent.edits == 1


def test_a_test_that_does_not_arrive_says_why(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "test", "away", "-c", config]) == 3
    assert "away/webhook: " in capsys.readouterr().err
    assert run(["alerts", "test", "missing", "-c", config]) == 2
    assert "there are: sre, hook, away" in capsys.readouterr().err


def test_routes_name_the_receivers_and_the_reason(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "routes", "orders", "pay-1", "test-1", "-c", config, "-o", "jsonl"]) == 0
    told = [row for row in rows(capsys) if "receiver" in row]
    found = {(row["group"], row["alert"], row["receiver"], row["why"], row["now"]) for row in told}
    assert ("orders", "storm", "hook/slack", 'severity="critical"', "notifies") in found
    assert ("orders", "session_timeout", "sre/slack", "the top route", "notifies") in found
    assert ("pay-1", "storm", "away/webhook", 'team="payments"', "muted: always") in found
    assert ("test-1", "storm", "nobody (nobody)", 'group=~"test-.*"', "notifies") in found


def test_an_alert_below_the_minimum_severity_is_marked_so(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["alerts", "routes", "orders", "--alert", "rebalance", "-c", config, "-o", "jsonl"]) == 0
    (row,) = rows(capsys)
    assert row["why"] == "below `minimum_severity` warning"


def test_a_silence_is_added_listed_shown_by_routes_and_ended(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["alerts", "silence", "add", 'group="orders"', 'severity="critical"', "--for", "30m"]
    assert run([*words, "--comment", "deploying", "--by", "me", "-c", config]) == 0
    identity = capsys.readouterr().out.strip()
    assert run(["alerts", "routes", "orders", "--alert", "storm", "-c", config, "-o", "jsonl"]) == 0
    assert rows(capsys)[0]["now"] == "silenced"
    assert run(["alerts", "silence", "list", "-c", config, "-o", "jsonl"]) == 0
    (row,) = rows(capsys)
    assert (row["id"], row["state"], row["by"], row["comment"]) == (identity, "active", "me", "deploying")
    assert run(["alerts", "silence", "expire", identity, "-c", config]) == 0
    assert run(["alerts", "silence", "expire", identity, "-c", config]) == 2
    capsys.readouterr()
    assert run(["alerts", "silence", "list", "-c", config, "-o", "jsonl"]) == 0
    assert rows(capsys) == []


@pytest.mark.parametrize("words", [['pod="x"'], ['team!="x"'], ["orders"], ['group="x"', "--for", "soon"]])
def test_a_silence_that_cannot_be_meant_is_a_usage_error(config: str, words: list[str]) -> None:
    assert run(["alerts", "silence", "add", *words, "-c", config]) == 2


def test_a_finding_is_previewed_on_the_terminal_and_as_a_page(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = tmp_path / "findings.jsonl", tmp_path / "page.html"
    path.write_text(to_json(finding(Kind.STORM, group="<b>orders")) + "\n", encoding="utf-8")
    assert run(["alerts", "preview", str(path), "--html", str(page), "-c", config]) == 0
    assert "is in a rebalance storm" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;orders" in text
    assert "<b>orders" not in text


def test_a_stored_finding_is_previewed_by_its_id(config: str, tmp_path: Path) -> None:
    (tmp_path / "store" / "findings.jsonl").write_text(to_json(finding(Kind.STORM)) + "\n", encoding="utf-8")
    assert run(["alerts", "preview", "0123456789abcdef", "-c", config]) == 0
    assert run(["alerts", "preview", "ffffffffffffffff", "-c", config]) == 2


def test_a_capture_shows_each_notification_that_would_have_been_sent(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "--alerts", "--capture", str(CAPTURE), "-c", config, "-o", "jsonl"]) == 0
    told = rows(capsys)
    assert {row["receiver"] for row in told} == {"sre/slack", "hook/slack"}
    assert {row["reason"] for row in told} >= {"first", "all_resolved"}
    assert [row["at"] for row in told] == sorted(row["at"] for row in told)  # type: ignore[type-var] # numbers
    storms = [row for row in told if "storm" in str(row["title"])]
    assert {row["receiver"] for row in storms} == {"hook/slack"}


def test_a_capture_is_previewed_as_its_messages(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "preview", str(CAPTURE), "--limit", "2", "-c", config]) == 0
    assert capsys.readouterr().out.count("Next:") == 2
