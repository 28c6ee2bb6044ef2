"""Writes every page and file that is generated from the code; `--check` only says which are out of date.

Run by `make docs`. A generator is a function without arguments that returns the whole text.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from rebalance_monitor.cli.reference import cli_markdown
from rebalance_monitor.config.reference import reference_markdown, reference_yaml
from rebalance_monitor.dashboard.metrics.reference import metrics_markdown
from rebalance_monitor.decoders.reference import records_markdown
from tools.chart import values_schema
from tools.pages.accuracy import RESULTS, accuracy_markdown, measurements_markdown
from tools.pages.detection import (
    detection_markdown,
    findings_markdown,
    kind_pages,
    runbooks_markdown,
    thresholds_markdown,
)
from tools.pages.messages import messages_markdown
from tools.pages.runbooks import runbooks_html
from tools.pages.structure import architecture_markdown

ROOT = Path(__file__).resolve().parent.parent
GENERATED: dict[str, Callable[[], str]] = {
    "config/reference.yaml": reference_yaml,
    "dashboard/web/static/runbooks.html": runbooks_html,
    "deploy/helm/rebalance-monitor/values.schema.json": values_schema,
    "docs/architecture.md": architecture_markdown,
    "docs/cli.md": cli_markdown,
    "docs/configuration.md": reference_markdown,
    "docs/detection.md": detection_markdown,
    "docs/findings.md": findings_markdown,
    "docs/metrics.md": metrics_markdown,
    "docs/samples/messages.md": messages_markdown,
    "docs/records.md": records_markdown,
    "docs/runbooks.md": runbooks_markdown,
    "docs/thresholds.md": thresholds_markdown,
    **kind_pages(),
}
if any(RESULTS.glob("*.json.gz")):
    GENERATED["docs/accuracy.md"] = accuracy_markdown
    GENERATED["docs/measurements/accuracy.md"] = measurements_markdown


def stale() -> list[str]:
    """Return the generated files whose committed text is not what the code gives."""
    return [name for name, text in GENERATED.items() if _committed(name) != text()]


def main(arguments: list[str]) -> int:
    """Write what is out of date, or with `--check` only name it (exit code 1)."""
    names = stale()
    for name in names:
        print(f"{'out of date' if '--check' in arguments else 'written'}: {name}")
        if "--check" not in arguments:
            (ROOT / name).write_text(GENERATED[name](), encoding="utf-8")
    return 1 if names and "--check" in arguments else 0


def _committed(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
