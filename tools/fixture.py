"""Makes a small fixture of a finished suite: `tools/fixture.py SUITE tests/fixtures/scenarios/NAME`.

Copies what the tests need (capture, truth, scenarios, steps), leaves the logs, and writes down how good the
detection is on it now. Look at what it missed before you commit that.
"""

import json
import shutil
import sys
from pathlib import Path

from rebalance_monitor.lab.scoring.results import result_of
from rebalance_monitor.lab.scoring.score import tally
from rebalance_monitor.lab.scoring.scored import REPLAY
from rebalance_monitor.lab.truth.recorded_suite import read_suite


def main(suite: Path, target: Path) -> None:
    """Copy the suite and write `expected.json`: per label and family facts, detected, wrong."""
    read_suite(suite)
    shutil.copytree(suite / "capture", target / "capture", dirs_exist_ok=True)
    for name in ("suite.json", "truth.jsonl"):
        shutil.copyfile(suite / name, target / name)
    for run in suite.glob("runs/*"):
        (target / "runs" / run.name).mkdir(parents=True, exist_ok=True)
        for name in ("scenario.yaml", "steps.jsonl"):
            shutil.copyfile(run / name, target / "runs" / run.name / name)
    expect(target)


def expect(target: Path) -> None:
    """Write how good the detection is on this fixture now."""
    result = result_of(read_suite(target))
    rows = tally(result.facts, result.claims[REPLAY], result.families)
    found = {"/".join(key): [one.facts, one.detected, one.wrong] for key, one in rows.items()}
    (target / "expected.json").write_text(
        json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:  # noqa: PLR2004 - from, to
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        expect(Path(sys.argv[1]))
