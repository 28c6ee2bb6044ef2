"""Addresses that messages lead to: the runbook and the monitor's own page, both of the configuration."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from rebalance_monitor.alerts.routing.matchers import Matcher, Operator

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_ADDRESS = 2_000


@dataclass(frozen=True, slots=True)
class Links:
    """Only http and https addresses are taken (ValueError).

    `runbook`: the address of the runbook page, to which the kind's section is added. `page`: the address of a
    group's page; `{group}` and `{cluster}` in it stand for the percent-encoded names. `incident`: the address
    of an incident's page, with `{incident}` for its id; findings of an incident lead there. `missing`: what
    a message says in place of links, with `{kind}` for the section of the runbook.
    """

    runbook: str | None = None
    page: str | None = None
    incident: str | None = None
    missing: str = ""

    def __post_init__(self) -> None:
        addresses = {"runbook": self.runbook, "page": self.page, "incident": self.incident}
        for name, address in addresses.items():
            if address is not None and not address.startswith(("http://", "https://")):
                raise ValueError(f"the address of the {name} must start with http:// or https://")

    def runbook_of(self, finding: Finding) -> str | None:
        """Return the address of the runbook's section for this finding."""
        return None if self.runbook is None else f"{self.runbook}#{finding.kind.value}"

    def incident_of(self, finding: Finding) -> str | None:
        """Return the address of the incident's page, None where there is none."""
        if self.incident is None or finding.incident is None:
            return None
        return self.incident.replace("{incident}", quote(finding.incident, safe=""))

    def silence_of(self, finding: Finding) -> str | None:
        """Return the address at which the incident's page asks for a silence of an hour."""
        page = None if finding.phase == "resolved" else self.incident_of(finding)
        return None if page is None else f"{page}&silence=1h"

    def page_of(self, finding: Finding) -> str | None:
        """Return the address of the group's page, None where there is none or it gets too long."""
        if self.page is None or finding.group is None:
            return None
        group = quote(finding.group.encode(errors="replace"), safe="")
        cluster = quote(finding.cluster.encode(errors="replace"), safe="")
        address = self.page.replace("{cluster}", cluster).replace("{group}", group)
        return address if len(address) <= MAX_ADDRESS else None


def silence_command(finding: Finding) -> str:
    """Return the command that silences this kind of alert of the group for an hour, quoted for a shell."""
    scope = finding.scope.value if finding.group is None else None
    wanted = {"group": finding.group, "kind": finding.kind.value, "scope": scope}
    matchers = (Matcher(label, Operator.EQUAL, value) for label, value in wanted.items() if value)
    return f"rebalance-monitor alerts silence add {shlex.quote(','.join(map(str, matchers)))} --for 1h"
