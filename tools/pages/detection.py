"""Writes the pages about findings from templates and the coordinator's tables.

The pages are docs/findings.md, docs/detection.md, docs/thresholds.md, docs/runbooks.md and one a kind in
docs/kinds/. A kind's template begins with its evidence. All of it is the kind's page; what to look at first
and what would prove it wrong also are the kind's section of the runbooks.
"""

import re
from dataclasses import fields
from functools import partial

from rebalance_monitor.config.detection import Detection
from rebalance_monitor.coordinator.commits.client_families import FAMILIES, Family
from rebalance_monitor.coordinator.explain.advice import RULES as ADVICE
from rebalance_monitor.coordinator.findings.causes import CAUSE_WHAT
from rebalance_monitor.coordinator.findings.finding import SCHEMA, CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kind_table import KINDS, KindSpec
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rollup.bursts import ROLLED_UP
from rebalance_monitor.coordinator.state.state_machine import TRANSITIONS, Status
from tools.pages.templates import fill, table, template

_FIRST = re.compile(r"^- (\*\*First:\*\* .*?)(?=\n- |\Z)", re.DOTALL | re.MULTILINE)
_WRONG = re.compile(r"^- (\*\*Wrong if:\*\* .*?)(?=\n- |\n\n|\Z)", re.DOTALL | re.MULTILINE)


def findings_markdown() -> str:
    """Return docs/findings.md."""
    text = fill("findings", {"KINDS": _kinds(), "CAUSES": _causes(), "FIELDS": _fields()})
    return text.replace("{SCHEMA}", str(SCHEMA))


def detection_markdown() -> str:
    """Return docs/detection.md."""
    rows = [(f"[{kind.value}](kinds/{kind.value}.md)", spec.what) for kind, spec in KINDS.items()]
    return fill("detection", {"KINDS": table(("kind", "what"), rows)})


def thresholds_markdown() -> str:
    """Return docs/thresholds.md."""
    tables = {
        "SETTINGS": settings_table(),
        "FAMILIES": families_table(),
        "DIAGRAM": transitions_diagram(),
        "ADVICE": advice_list(),
    }
    return fill("thresholds", tables)


def runbooks_markdown() -> str:
    """Return docs/runbooks.md."""
    return fill("runbooks", {"KINDS": "\n".join(_runbook(kind) for kind in KINDS)})


def kind_pages() -> dict[str, partial[str]]:
    """Return, by path, what writes the page of each kind."""
    return {f"docs/kinds/{kind.value}.md": partial(kind_markdown, kind) for kind in KINDS}


def kind_markdown(kind: Kind) -> str:
    """Return the page of one kind."""
    evidence, meaning, rest = _parts(kind)
    spec = KINDS[kind]
    facts = table(("scope", "severity", "evidence", "phases"), [_facts(kind, spec, evidence)])
    page = f"# {kind.value}\n\n{facts}\n## What it means\n\n{meaning}\n\n"
    page += rest.replace("## Based on", "## What it is based on")
    keys = [(f"`{key}`", what) for key, what in spec.details.items()]
    return _spaced(f"{page.rstrip()}\n\n## Details\n\n{table(('key', 'what'), keys)}")


def families_table() -> str:
    """Return the table of client families with what their silence means."""
    head = ("family", "commits when idle", "leaves at max.poll.interval", "says goodbye on close")
    return table(head, [_family(family) for family in FAMILIES.values()])


def transitions_diagram() -> str:
    """Return the transition table as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Status.DEAD}"]
    lines += [f"    {edge.before} --> {edge.after}: {edge.event} ({edge.tier})" for edge in TRANSITIONS]
    return "\n".join([*lines, "```", ""])


def advice_list() -> str:
    """Return what each rule of `explain` looks at."""
    lines = [f"- {(rule.__doc__ or '').strip().rstrip('.')}." for rule in ADVICE]
    return "\n".join(lines) + "\n"


def settings_table() -> str:
    """Return every threshold with its default."""
    rows = [(f"`{name}`", _shown(field.default)) for name, field in Detection.model_fields.items()]
    return table(("threshold", "default"), rows)


def _shown(value: object) -> str:
    return "not set" if value is None or value == () else f"`{value}`"


def _parts(kind: Kind) -> tuple[str, str, str]:
    """Return evidence, meaning and the sections of a kind's template."""
    head, _, text = template(f"kinds/{kind.value}").partition("\n")
    meaning, _, rest = text.partition("\n## ")
    return head.removeprefix("evidence: "), meaning.strip(), f"## {rest}"


def _facts(kind: Kind, spec: KindSpec, evidence: str) -> tuple[str, ...]:
    phases = "yes" if spec.phases else "of many groups at once" if kind in ROLLED_UP else "no"
    return spec.scope, spec.severity, evidence, phases


def _runbook(kind: Kind) -> str:
    _, _, rest = _parts(kind)
    first, wrong = (_found(pattern, rest, kind) for pattern in (_FIRST, _WRONG))
    more = f"[What it means](kinds/{kind.value}.md)"
    return f"## {kind.value}\n\n- {first}\n- {wrong}\n- {more}\n".replace("](../", "](")


def _found(pattern: re.Pattern[str], text: str, kind: Kind) -> str:
    found = pattern.search(text)
    if found is None:
        message = f"the template of {kind.value} lacks {pattern.pattern}"
        raise ValueError(message)
    return found[1].rstrip()


def _spaced(text: str) -> str:
    """Return `text` with an empty line below each heading, as the templates leave it out."""
    return re.sub(r"^(## .*)\n(?!\n)", r"\1\n\n", text, flags=re.MULTILINE)


def _kinds() -> str:
    rows = [
        (
            f"[`{kind.value}`](kinds/{kind.value}.md)",
            spec.scope,
            spec.severity,
            spec.driven_by,
            "yes" if spec.phases else "of many groups" * (kind in ROLLED_UP),
            spec.what,
        )
        for kind, spec in KINDS.items()
    ]
    return table(("kind", "scope", "severity", "driven by", "phases", "what"), rows)


def _causes() -> str:
    return table(("cause", "what"), [(f"`{cause.value}`", what) for cause, what in CAUSE_WHAT.items()])


def _fields() -> str:
    rows = [("finding", f"`{item.name}`", str(item.type)) for item in fields(Finding)]
    rows += [("causes", f"`{item.name}`", str(item.type)) for item in fields(CauseEntry)]
    rows += [("members", f"`{item.name}`", str(item.type)) for item in fields(MemberEntry)]
    shown = [(where, name, kind.replace("|", "or")) for where, name, kind in rows]
    return table(("of", "field", "type"), shown)


def _family(family: Family) -> tuple[str, ...]:
    known = (family.commits_idle, family.enforces_poll, family.says_goodbye)
    return (family.name, *("not known" if one is None else "yes" if one else "no" for one in known))
