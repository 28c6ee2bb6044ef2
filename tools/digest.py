"""Prints one digest per capture of all findings without their texts: equal before and after a change of form.

    python -m tools.digest tests/fixtures/scenarios/*/capture tests/fixtures/cases/*

A finding counts with its id, kind, phase, severity, causes and confidences, members and numbers. Left out are
the sentences of causes and `details` that hold sentences, because a change of words is no change of meaning.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.finding import Finding, to_dict
from rebalance_monitor.engine.replay.replaying import replay_capture
from rebalance_monitor.engine.settings import detection_settings


def digest_of(capture: Path) -> tuple[int, str]:
    """Return the number of findings in a capture and the SHA-256 of what they say without their texts."""
    detection = detection_settings(Settings().detection, read_capture(capture).metadata)
    lines = sorted(wordless(finding) for finding in replay_capture(capture, detection))
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


def wordless(finding: Finding) -> str:
    """Return the finding as JSON without sentences."""
    data: dict[str, Any] = to_dict(finding)
    for cause in data["causes"]:
        cause.pop("why", None)
    data["details"] = {key: value for key, value in data["details"].items() if not isinstance(value, str)}
    return json.dumps(data, sort_keys=True)


def main(folders: Iterable[str]) -> int:
    """Print findings, digest and name of each capture."""
    for folder in folders:
        number, digest = digest_of(Path(folder))
        print(f"{number:>7,}  {digest[:24]}  {folder}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
