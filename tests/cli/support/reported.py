"""The recorded cases of `tests/fixtures/cases`: what people report, on real brokers with real clients.

Each folder holds `records.parquet`, the probe's samples (`sightings.jsonl.gz`) and `expected.json`: what was
right, which findings must be there (`must`) and which must not (`never`). A pattern names what it asks of a
finding: fields by equality, `members` by the client ids of those that the finding lists as `left` (or lists
at all), `causes` by some cause for each pattern, `details` by those that it names, `confidence` as the least.
`times`: how many findings match at the least. `group`: the group's name, where it is not the folder's.
`pages`: kinds of incidents that are worth a page; any other page is wrong.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import to_dict
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())
Pattern = dict[str, Any]


def unpacked(name: str, folder: Path) -> Path:
    """Make the capture of a case in `folder`; returns its path."""
    capture = folder / name
    capture.mkdir()
    shutil.copy(CASES / name / "records.parquet", capture)
    samples = gzip.decompress((CASES / name / "sightings.jsonl.gz").read_bytes())
    (capture / "sightings.jsonl").write_bytes(samples)
    return capture


def expected(name: str) -> dict[str, Any]:
    """Return what is right of a case."""
    found: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))
    return found


def worth_a_page(name: str) -> dict[tuple[str, Kind], bool]:
    """Return the group and the kinds of incidents that must page in a case."""
    truth = expected(name)
    return {(str(truth.get("group", name)), Kind(kind)): True for kind in truth["pages"]}


def matching(pattern: Pattern, findings: list[Finding]) -> list[Finding]:
    """Return the findings that a pattern describes."""
    return [finding for finding in findings if _matches(pattern, finding)]


def _matches(pattern: Pattern, finding: Finding) -> bool:
    body, asked = to_dict(finding), dict(pattern)
    asked.pop("times", None)
    details, causes = asked.pop("details", {}), asked.pop("causes", [])
    clients, least = asked.pop("members", None), asked.pop("confidence", 0)
    named = {member.client_id for member in finding.members if member.role != "joined"}
    return (
        all(body[name] == value for name, value in asked.items())
        and finding.confidence >= least
        and all(finding.details.get(name) == value for name, value in details.items())
        and all(_has_cause(one, body["causes"]) for one in causes)
        and (clients is None or set(clients) <= named)
    )


def _has_cause(pattern: Pattern, causes: list[dict[str, Any]]) -> bool:
    asked = dict(pattern)
    least, words = asked.pop("confidence", 0), asked.pop("why", "")
    return any(
        all(cause.get(name) == value for name, value in asked.items())
        and cause["confidence"] >= least
        and words in cause["why"]
        for cause in causes
    )
