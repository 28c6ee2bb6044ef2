"""What a finding costs the driver: read from the operator, stamped, as a JSON line and as a row of the table.

Replays a capture of the mix for its findings and measures each part over all of them, CPU microseconds per
finding; the best round counts. Prints a table and writes build/bench/findings.json.

    python -m bench.core.findings --records 300000 --groups 1000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.core.replay import made
from rebalance_monitor.coordinator.findings.finding import from_json, stamp, to_json
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.engine.replay.replaying import replay_capture

if TYPE_CHECKING:
    from collections.abc import Callable

OUT = Path(__file__).parents[2] / "build" / "bench" / "findings.json"


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-findings-") as folder:
        made(given.records, given.groups, Path(folder) / "capture")
        findings = list(replay_capture(Path(folder) / "capture", DetectionSettings()))
        lines = [to_json(finding) for finding in findings]
        now = findings[-1].at
        parts: dict[str, Callable[[], object]] = {
            "read": lambda: [from_json(line) for line in lines],
            "stamp": lambda: [stamp(finding, now) for finding in findings],
            "JSON line": lambda: [to_json(finding) for finding in findings],
            "table": partial(write_findings, Path(folder) / "table", findings, "query", 0),
        }
        spent = {name: min(_cpu(part) for _ in range(given.rounds)) for name, part in parts.items()}
    each = {name: round(seconds / len(findings) * 1e6, 1) for name, seconds in spent.items()}
    each["together"] = round(sum(each.values()), 1)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"findings": len(findings), "us": each}, indent=1) + "\n")
    print(
        f"{len(findings)} findings of {sum(map(len, lines)) // len(lines)} bytes, CPU microseconds for each"
    )
    for name, value in each.items():
        print(f"{name:12}{value:>8}")


def _cpu(part: Callable[[], object]) -> float:
    began = time.process_time()
    part()
    return time.process_time() - began


if __name__ == "__main__":
    main()
