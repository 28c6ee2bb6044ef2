"""A committed batch of the job reaches Slack, and a receiver that fails shows in findings and metrics."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import generate_latest

from rebalance_monitor.cli.verbs.local.demo import _alerts
from rebalance_monitor.config.load import load
from rebalance_monitor.config.model import Probe, Settings
from rebalance_monitor.config.web import Web
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import StatOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.outputs.alerting import is_behind
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.facts import TopicFacts
from rebalance_monitor.lab.suite.job import Job
from tests.alerts.support.findings import finding
from tests.alerts.support.memo import eventually
from tests.alerts.support.slack_fake import CHANNEL, TOKEN, SlackFake

if TYPE_CHECKING:
    from pathlib import Path

FACTS = TopicFacts("__consumer_offsets", "topic", "c1", {0: 0}, {0: 0})
QUERY = "8d74df78-fa24-4f2f-b920-b9b1ddd93eb6"


def settings(token: str, api: str) -> Settings:
    slack = {"token": token, "channel": CHANNEL, "api_url": api}
    other = {"webhook_url": f"{api}nowhere"}
    alerts: dict[str, Any] = {
        "receivers": [{"name": "sre", "slack": slack}, {"name": "other", "slack": other}],
        "route": {"receiver": "sre", "group_wait": "50ms", "group_interval": "100ms"},
    }
    quiet = {"enabled": False}
    return Settings(cluster_name="prod", probe=quiet, web=quiet, alerts=alerts)


def storm(phase: str) -> Finding:
    now = time.time_ns() // 1_000_000
    return replace(finding(Kind.STORM, phase=phase, incident="i1", cluster="c1"), at=now, id=f"{phase}1")


def sends(page: str) -> list[tuple[str, str, int]]:
    """Return receiver, result and count of the metrics page's attempts."""
    found = re.findall(r"sink_sends_total\{([^}]*)\} ([\d.]+)", page)
    labels = [(dict(re.findall(r'(\w+)="([^"]*)"', text)), float(count)) for text, count in found]
    return [(each["sink"], each["result"], int(count)) for each, count in labels if count]


def now() -> int:
    return time.time_ns() // 1_000_000


def test_what_the_job_finds_reaches_slack_and_the_metrics(tmp_path: Path) -> None:
    with SlackFake() as slack:
        made = settings(TOKEN, slack.api)
        with Outputs(made, Storage(tmp_path), FACTS, DetectionSettings()) as outputs:
            outputs.writer.apply(BatchKey(QUERY, 0), Batch(findings=[storm("opened")], now=now()))
            assert eventually(lambda: len(slack.parents()) == 1)
            assert "[prod] orders" in slack.parents()[0].content["text"]
            outputs.writer.apply(BatchKey(QUERY, 1), Batch(findings=[storm("resolved")], now=now()))
            assert eventually(lambda: "is over" in slack.parents()[0].content["text"])
            assert eventually(
                lambda: sends(generate_latest(outputs.serving.metrics).decode()) == [("sre/slack", "ok", 2)]
            )


def test_a_rebuild_ends_what_only_the_memory_of_the_alerts_knows(tmp_path: Path) -> None:
    """Without tables nothing else is left of the storm that was published."""
    live = StatOut("shard", {"shard": 0, "groups": 0, "last_ts": 0, "catching_up": 0})
    with SlackFake() as slack:
        made = Settings(**{**settings(TOKEN, slack.api).model_dump(), "outputs": {"parquet": False}})
        detection = DetectionSettings(storm_quiet_ms=1)
        with Outputs(made, Storage(tmp_path), FACTS, detection) as outputs:
            outputs.writer.apply(BatchKey(QUERY, 0), Batch(findings=[storm("opened")], now=now()))
            assert eventually(lambda: len(slack.parents()) == 1)
        with Outputs(made, Storage(tmp_path), FACTS, detection) as outputs:
            assert outputs.begin_anew(complete=True)
            outputs.writer.speak()
            for number, later in enumerate((0, 10_000)):
                outputs.writer.apply(BatchKey("again", number), Batch(stats=[(0, live)], now=now() + later))
            assert eventually(lambda: "RESOLVED" in slack.parents()[0].content["text"])
        assert len(slack.parents()) == 1


def test_a_receiver_that_fails_for_good_is_a_finding_and_an_alert_to_the_others(tmp_path: Path) -> None:
    with SlackFake() as slack:
        made = settings("xoxb-wrong", slack.api).model_dump()
        hook = {"name": "other", "slack": {"webhook_url": slack.hook}}
        made["alerts"]["receivers"] = [settings("xoxb-wrong", slack.api).alerts.receivers[0], hook]
        made["alerts"]["route"] = {"receiver": "sre", "group_wait": "50ms", "group_interval": "100ms"}
        with Outputs(Settings(**made), Storage(tmp_path), FACTS, DetectionSettings()) as outputs:
            outputs.writer.apply(BatchKey(QUERY, 0), Batch(findings=[storm("opened")], now=now()))
            assert eventually(lambda: len(slack.parents()) == 1)
            assert "degraded" in slack.parents()[0].content["text"]
            for number in (1, 2):
                outputs.writer.apply(BatchKey(QUERY, number), Batch(now=now()))
    lines = Storage(tmp_path).jsonl.read_text(encoding="utf-8").splitlines()
    told = [from_json(line) for line in lines]
    (degraded,) = [one for one in told if one.kind is Kind.MONITOR_DEGRADED]
    assert (
        degraded.causes[0].why
        == "receivers of alerts that fail: sre/slack (Slack answered invalid_auth: the token is wrong)"
    )


def test_what_the_demo_configures_reaches_the_webhook_and_keeps_its_address_secret(tmp_path: Path) -> None:
    with SlackFake() as slack, ExitStack() as stack:
        job = Job("127.0.0.1:1", tmp_path, alerts=_alerts(stack, slack.hook))
        assert slack.hook not in job.config.read_text(encoding="utf-8")
        quiet = {"enabled": False}
        made = load(job.config).model_copy(update={"probe": Probe(**quiet), "web": Web(**quiet)})
        with Outputs(made, Storage(job.storage), FACTS, DetectionSettings()) as outputs:
            outputs.writer.apply(BatchKey(QUERY, 0), Batch(findings=[storm("opened")], now=now()))
            assert eventually(lambda: len(slack.messages) == 1)
        assert "[lab] orders is in a rebalance storm" in slack.messages[0].content["text"]


@pytest.mark.parametrize(("judged", "behind"), [((0, 0), False), ((-30_000, 0), False), ((-70_000, 0), True)])
def test_a_job_is_behind_where_a_shard_has_yet_to_judge_what_was_written_a_minute_ago(
    judged: tuple[int, int], *, behind: bool
) -> None:
    at = now()
    stats = [
        (shard, StatOut("shard", {"shard": shard, "read_until": at + ago}))
        for shard, ago in enumerate(judged)
    ]
    assert is_behind(Batch(now=at, stats=stats)) is behind
    assert is_behind(Batch()) is None
