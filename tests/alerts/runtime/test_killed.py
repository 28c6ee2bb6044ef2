"""Kill -9 at any point: every incident is notified, none twice, with a Slack that fails as it likes."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.checkpoints.storage.lines import read_lines
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.engine.storage import storage_at
from tests.alerts.support import mortal
from tests.alerts.support.slack_fake import Flaky, SlackFake
from tests.checkpoints.stores import below
from tests.processes import environment, module

if TYPE_CHECKING:
    from pathlib import Path

KILLS = {"path": 15, "s3": 15, "mount": 5}
"""Of one wave; a few may find a job that has come to its end."""
MANY = 4
FLAKY = 0.15
ATTEMPTS = 200


class Victim:
    """The zygote and the job that it has forked."""

    def __init__(self, folder: str, api: str, waves: int) -> None:
        started_at = str(time.time_ns() // 1_000_000)
        command = module("alerts.support.mortal", folder, api, started_at, waves)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def start(self) -> int:
        """Fork a job and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return int(self._line())

    def lives_for(self, seconds: float) -> bool:
        """Wait; say whether the job still runs after that."""
        return not select.select([self._process.stdout], [], [], seconds)[0]

    def outcome(self) -> str:
        """Return `done` or `died` once the job is gone."""
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """End the zygote."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.mark.parametrize(
    "waves", [pytest.param(1, marks=pytest.mark.slow), pytest.param(MANY, marks=pytest.mark.chaos)]
)
@pytest.mark.parametrize("where", KILLS)
def test_no_incident_is_unnotified_and_none_is_notified_twice_whenever_the_process_is_killed(
    tmp_path: Path, where: str, waves: int, request: pytest.FixtureRequest
) -> None:
    """On a path, on an S3, and as on a mount without locks, where files are moved into place."""
    folder = str(tmp_path)
    if where == "s3":
        folder = below(request.getfixturevalue("s3"), f"killed-{waves}")
    elif where == "mount":
        folder = tmp_path.as_uri()
    draw = random.Random(20_261_121)  # noqa: S311 - not a secret
    wanted, kills = waves * KILLS[where], 0
    with SlackFake(flaky=Flaky(FLAKY, "0", random.Random(7))) as slack:  # noqa: S311 - not a secret
        victim = Victim(folder, slack.api, waves)
        try:
            for _ in range(ATTEMPTS):
                job = victim.start()
                if kills < wanted and victim.lives_for(draw.uniform(0.02, 0.9)):
                    os.kill(job, signal.SIGKILL)
                    kills += 1
                if victim.outcome() == "done":
                    break
            else:
                pytest.fail("the job never came to its end")
        finally:
            victim.close()
        parents = Counter(_group(posted.content["text"]) for posted in slack.parents())
        keys = Counter(
            (posted.thread_ts is None, posted.content["metadata"]["event_payload"].get("key"))
            for posted in slack.messages
        )
        ends = {_group(posted.content["text"]): posted.content["text"] for posted in slack.parents()}
        assert slack.refused == []
    # Most kills must have hit a job with something to do, or the test shows nothing.
    assert kills >= 2 * wanted / 3, kills
    assert parents == Counter(mortal.groups(waves))
    assert all("is over" in text for text in ends.values()), ends
    assert {key: count for key, count in keys.items() if count > 1} == {}
    storage = storage_at(folder)
    batches = Ledger(storage.ledger).load().batches
    assert batches[mortal.QUERY] == waves * mortal.WAVE
    lines = [from_json(line).id for line in read_lines(storage.jsonl)]
    assert len(lines) == len(set(lines))


def _group(text: str) -> str:
    """Return the group that a parent is about, or its whole text."""
    return next((word for word in text.split() if word in mortal.groups(MANY)), text)
