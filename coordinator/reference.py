"""docs/findings.md and docs/detection.md, written from the tables, so that they say what the code does."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES, Family
from rebalance_monitor.coordinator.departure import attribution
from rebalance_monitor.coordinator.detection_text import PROSE
from rebalance_monitor.coordinator.explain.advice import RULES as ADVICE
from rebalance_monitor.coordinator.findings.causes import CAUSE_WHAT
from rebalance_monitor.coordinator.findings.finding import SCHEMA, CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import KINDS
from rebalance_monitor.coordinator.findings.rules import RULES
from rebalance_monitor.coordinator.rollup.bursts import ROLLED_UP
from rebalance_monitor.coordinator.settings import UNCONFIGURED, DetectionSettings
from rebalance_monitor.coordinator.state.state_machine import TRANSITIONS, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = f"""# Findings

Generated from the coordinator's own tables (`make docs`); do not edit.

A finding is one JSON line, one row of the findings table and one alert input, with the same fields
everywhere (schema {SCHEMA}). Times are ms since 1970, `_ms` fields are durations in ms, null where a
field does not apply. In tables `details` is a JSON string.

- `evidence`: `read`, a record or the probe says so; `derived`, arithmetic over records proves it;
  `suspected`, silence or timing suggests it, with a `confidence` between 0 and 1.
- `id`: the first 16 hex digits of a sha256 over cluster, kind, group or scope, member, anchor, phase
  and sequence. The anchor is shard, offset and record time for what a record decided, generation,
  member and deadline for what the clock decided, the generation at opening for what the probe decided.
  The same evidence gives the same id under any batching, replay and restart.
- `incident`: the id of the finding that opened it; `phase` is opened, updated or resolved, `resolution`
  says how.
- `history`: rebuilt from records older than the start; stored, not routed. `late`: told over a minute
  after.
- `causes` are a set, likeliest first; `unknown` is a legal cause.
"""


def findings_markdown() -> str:
    """Return the text of docs/findings.md."""
    parts = [
        _HEAD,
        "## Kinds\n\n" + _kinds(),
        "## Causes\n\n" + _causes(),
        "## Fields\n\n" + _fields(),
        "## Details\n\n" + _details(),
    ]
    return "\n".join(parts)


def detection_markdown() -> str:
    """Return the text of docs/detection.md."""
    tables = {
        "FAMILIES": families_table(),
        "PRIORS": priors_table(),
        "TRANSITIONS": transitions_table(),
        "DIAGRAM": transitions_diagram(),
        "RULES": rules_table(),
        "ADVICE": advice_list(),
        "SETTINGS": settings_table(),
    }
    text = PROSE + "\n"
    for name, table in tables.items():
        text = text.replace(f"<{name}>\n", table)
    return text


def families_table() -> str:
    """Return the table of client families with what their silence means."""
    rows = [_family(family) for family in FAMILIES.values()]
    return _table(
        ("family", "commits when idle", "leaves at max.poll.interval", "says goodbye on close"), rows
    )


def transitions_table() -> str:
    """Return the transition table with the tier of each edge."""
    rows = [(edge.before, edge.event, edge.after, edge.tier) for edge in TRANSITIONS]
    return _table(("from", "event", "to", "evidence"), rows)


def transitions_diagram() -> str:
    """Return the same as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Status.DEAD}"]
    lines += [f"    {edge.before} --> {edge.after}: {edge.event} ({edge.tier})" for edge in TRANSITIONS]
    return "\n".join([*lines, "```", ""])


def rules_table() -> str:
    """Return every rule with its evidence and its limits."""
    rows = [(f"`{rule.kind.value}`", rule.evidence, rule.decides, rule.limits) for rule in RULES]
    return _table(("rule", "evidence", "what decides", "what it cannot know"), rows)


def advice_list() -> str:
    """Return what each rule of `explain` looks at."""
    lines = [f"- {(rule.__doc__ or '').strip().rstrip('.')}." for rule in ADVICE]
    return "\n".join(lines) + "\n"


def priors_table() -> str:
    """Return the prior weight of each explanation of a member's departure."""
    rows = [("dynamic", cause.value, f"{weight:g}") for cause, weight in attribution.PRIORS_DYNAMIC.items()]
    rows += [("static", cause.value, f"{weight:g}") for cause, weight in attribution.PRIORS_STATIC.items()]
    return _table(("member", "explanation", "prior"), rows)


def settings_table() -> str:
    """Return every threshold with its default."""
    defaults = DetectionSettings()
    names = [item.name for item in fields(DetectionSettings) if item.name not in UNCONFIGURED]
    rows = [(f"`{name}`", f"`{getattr(defaults, name)}`") for name in names]
    return _table(("threshold", "default"), rows)


def _kinds() -> str:
    rows = [
        (
            f"`{kind.value}`",
            spec.scope,
            spec.severity,
            spec.driven_by,
            "yes" if spec.phases else "of many groups" * (kind in ROLLED_UP),
            spec.what,
        )
        for kind, spec in KINDS.items()
    ]
    return _table(("kind", "scope", "severity", "driven by", "phases", "what"), rows)


def _causes() -> str:
    return _table(("cause", "what"), [(f"`{cause.value}`", what) for cause, what in CAUSE_WHAT.items()])


def _fields() -> str:
    rows = [("finding", f"`{item.name}`", str(item.type)) for item in fields(Finding)]
    rows += [("causes", f"`{item.name}`", str(item.type)) for item in fields(CauseEntry)]
    rows += [("members", f"`{item.name}`", str(item.type)) for item in fields(MemberEntry)]
    shown = [(where, name, kind.replace("|", "or")) for where, name, kind in rows]
    return _table(("of", "field", "type"), shown)


def _details() -> str:
    rows = [
        (f"`{kind.value}`", f"`{key}`", what)
        for kind, spec in KINDS.items()
        for key, what in spec.details.items()
    ]
    return _table(("kind", "key", "what"), rows)


def _family(family: Family) -> tuple[str, ...]:
    return (
        family.name,
        _tell(value=family.commits_idle),
        _tell(value=family.enforces_poll),
        _tell(value=family.says_goodbye),
    )


def _tell(*, value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
