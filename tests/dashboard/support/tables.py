"""Tables of the findings and groups of all captures, as a job would have written them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.dashboard.tables.groups_table import GroupsTable
from rebalance_monitor.dashboard.view.snapshot import Known
from tests.dashboard.support.played import all_updates

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "8d74df78-fa24-4f2f-b920-b9b1ddd93eb6"


def write_tables(root: Path) -> Known:
    """Write `findings` (some files) and `groups` below `root`; return what is known at the end."""
    known, findings = Known(cluster="lab"), []
    for number, update in enumerate(all_updates(), 1):
        known = known.after(update)
        findings += update.findings
        if number % 200 == 0:
            write_findings(root / "findings", findings, QUERY, number)
            findings = []
    write_findings(root / "findings", findings, QUERY, 10**6)
    GroupsTable(root / "groups").write(known, at=known.health.now)
    return known
