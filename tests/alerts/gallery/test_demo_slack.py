"""`demo --slack-webhook URL`: what a newcomer sees in a channel within the first minutes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from tests.alerts.support.slack_fake import HOOK, SlackFake

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(500)]
MAIN = "from rebalance_monitor.cli.main import main; main()"


def test_the_demo_sends_its_findings_to_a_slack_webhook() -> None:
    with SlackFake() as slack:
        command = [sys.executable, "-c", MAIN, "demo", "--slack-webhook", slack.hook]
        done = subprocess.run(command, capture_output=True, text=True, timeout=450, check=False)
        texts = [posted.content["text"] for posted in slack.messages]
        assert slack.refused == []
    said = done.stdout + done.stderr
    assert any("crash-loop-fast" in text and "storm" in text for text in texts), "\n".join([*texts, said])
    assert {count for count in Counter(texts).values() if count > 1} == set()
    assert HOOK not in said
