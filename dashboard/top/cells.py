"""What a group, a member and a generation look like in a terminal's table.

Names come from clients: they become plain text (no markup), with everything unprintable escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from rebalance_monitor.coordinator.findings.wording import likely

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GROUP_COLUMNS = (
    "Trouble",
    "Group",
    "State",
    "Members",
    "Gen",
    "Last hour",
    "Last cause",
    "Last rebalance",
)
MEMBER_COLUMNS = ("Member", "Host", "Partitions", "Last commit", "Session", "Deadline")
GENERATION_COLUMNS = ("Generation", "Ago", "Causes", "Members", "Join", "Sync", "Evidence")
TONES = {"critical": "bold red", "warning": "yellow", "info": "cyan", "": ""}
_BLOCKS = " ▁▂▃▄▅▆▇█"
NONE = "-"
_SECOND = 1_000
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (_SECOND, "s"))


def plain(text: object, style: str = "") -> Text:
    """Return a name as it may be printed."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(text))
    return Text(shown, style=style, no_wrap=True)


def duration(ms: int | None) -> str:
    """Return a duration in its largest unit and the next one."""
    if ms is None:
        return NONE
    if ms < _SECOND:
        return f"{max(0, ms)}ms"
    number = next(number for number, (size, _unit) in enumerate(_UNITS) if ms >= size)
    (size, unit), below = _UNITS[number], _UNITS[number + 1 : number + 2]
    rest = "".join(f"{ms % size // smaller:02d}{small}" for smaller, small in below)
    return f"{ms // size}{unit}{rest}"


def ago(at: int | None, now: int) -> str:
    """Return how long ago a time (ms) was."""
    return NONE if at is None or at < 0 else duration(now - at)


def spark(counts: Sequence[int]) -> str:
    """Return counts as bars of one character each."""
    top = max(counts, default=0)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // top)] if top else " " for count in counts)


def group_cells(row: Mapping[str, Any], now: int) -> tuple[Text, ...]:
    """Return the cells of one group, in the order of `GROUP_COLUMNS`."""
    tone = TONES[row["severity"]]
    cause = likely(row["last_cause"], row["last_confidence"]).replace("_", " ") if row["last_cause"] else ""
    return (
        Text(row["trouble"].replace("_", " "), style=tone),
        plain(row["group"], tone if row["severity"] == "critical" else ""),
        Text(
            row["state"],
            style="" if row["state"] == "Stable" else "dim" if row["state"] == "Empty" else "magenta",
        ),
        Text(f"{row['members']:,}", justify="right"),
        Text("" if row["generation"] is None else str(row["generation"]), justify="right"),
        Text(f"{spark(row['bars'])} {row['rebalances']}", style="cyan"),
        Text(cause),
        Text(ago(row["last_rebalance"], now), justify="right"),
    )


def member_cells(member: Mapping[str, Any], now: int) -> tuple[Text, ...]:
    """Return the cells of one member, in the order of `MEMBER_COLUMNS`."""
    name = member["instance_id"] or member["client_id"] or member["member_id"]
    left = None if member["deadline"] is None else member["deadline"] - now
    passed = left is not None and left <= 0
    text = "" if left is None else f"passed {duration(-left)} ago" if passed else f"in {duration(left)}"
    return (
        plain(name, "bold" if member["is_leader"] else ""),
        plain(member["host"]),
        Text(str(member["partitions"]), justify="right", style="" if member["partitions"] else "yellow"),
        Text(ago(member["last_commit"], now), justify="right"),
        Text(duration(member["session_timeout_ms"]), justify="right"),
        Text(text, style="red" if passed else "yellow"),
    )


def generation_cells(column: Mapping[str, Any], now: int) -> tuple[Text, ...]:
    """Return the cells of one generation, in the order of `GENERATION_COLUMNS`."""
    causes = ", ".join(
        likely(cause["cause"], cause["confidence"]).replace("_", " ")
        + (f" ({cause['client_id']})" if cause["client_id"] else "")
        for cause in column["causes"][:3]
    )
    moved = "".join(
        f" {sign}{column[name]}" for name, sign in (("joined", "+"), ("left", "-")) if column[name]
    )
    kind = "" if column["kind"] == "rebalance" else f" {column['kind'].replace('_', ' ')}"
    return (
        Text(f"{column['generation'] if column['generation'] is not None else NONE}{kind}"),
        Text(ago(column["at"], now), justify="right"),
        plain(causes),
        Text(f"{NONE if column['members'] is None else column['members']}{moved}"),
        Text(duration(column["join_ms_max"]), justify="right"),
        Text(duration(column["sync_ms"]), justify="right"),
        Text(column["evidence"]),
    )
