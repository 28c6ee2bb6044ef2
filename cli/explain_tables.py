"""An explanation of a group as tables for people; the same data as `-o json`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, TextIO

from rebalance_monitor.cli.output import write_table
from rebalance_monitor.coordinator.findings.wording import counted

Json = dict[str, Any]
MAX_CAUSES = 3
MAX_PARTITIONS = 60
# What a narrow terminal shows last: the first one stays longest.
OF_MEMBERS = ("host", "last commit", "commits every", "session", "like", "member", "longest gap", "rebalance")
OF_EVENTS = ("members", "generation", "sync")


def write_tables(found: Json, out: TextIO, *, wide: bool = False) -> None:
    """Write the sections that hold anything, each under its own heading; `wide`: whatever the terminal."""
    group = [{"what": name, "value": value} for name, value in _group(found).items() if value is not None]
    sections = (
        ("Group", group, (), ()),
        ("Members", [_member(one) for one in found["members"]], OF_MEMBERS, ()),
        ("What happened, newest first", [_event(one) for one in found["rebalances"]], OF_EVENTS, ("causes",)),
        ("Spread", _spread(found["spread"]), (), ()),
        ("Advice", [_advice(one) for one in found["advice"]], (), ("advice", "reason")),
    )
    for title, rows, optional, below in sections:
        if rows:
            out.write(f"{title}\n")
            write_table(rows, None, out, optional, wide=wide, below=below)
            out.write("\n")
    out.writelines(f"Note: {note}.\n" for note in found["notes"])
    out.write(f"Values of the cluster: {found['values']}.\n")


def _group(found: Json) -> Json:
    place = found["coordinator"]
    broker = "unknown broker" if place["broker"] is None else f"broker {place['broker']}"
    return {
        "group": found["group"],
        "coordinator": f"partition {place['partition']} of {place['of']}, {broker}",
        "state": found["state"],
        "type": found["group_type"],
        "protocol": found["protocol"],
        "generation": found["generation"],
        "leader": found["leader"],
        "since": _time(found["since"]),
        "last commit": _time(found["last_commit"]),
        "commits": _rate(found["commits_per_minute"]),
        "topics": ", ".join(found["topics"]) or None,
    }


def _rate(per_minute: float | None) -> str | None:
    return None if per_minute is None else f"{counted(round(per_minute), 'offset')} a minute"


def _member(one: Json) -> Json:
    return {
        "client id": one["client_id"],
        "member": one["instance_id"] or one["member_id"],
        "host": one["host"] + (" (old process's)" if one["host_is_stale"] else ""),
        "like": one["family"],
        ("runs" if one["work"] else "partitions"): _partitions(one),
        "session": _span(one["session_timeout_ms"]),
        "rebalance": _span(one["rebalance_timeout_ms"]),
        **({} if one["work"] else _commits(one)),
    }


def _commits(one: Json) -> Json:
    return {
        "commits every": _span(one["commit_every_ms"]),
        "longest gap": _span(one["longest_commit_gap_ms"]),
        "last commit": _time(one["last_commit"]),
    }


def _partitions(one: Json) -> str:
    """Return how many, and which as far as a table has room: `4: orders 0-2 7`; of a worker what it runs."""
    if one["work"] is not None:
        return _work(one["work"])
    named = [f"{topic} {' '.join(_ranges(given))}" for topic, given in one["assigned"].items() if given]
    which = ", ".join(named)
    cut = which if len(which) <= MAX_PARTITIONS else which[: MAX_PARTITIONS - 1] + "…"
    return f"{one['partitions']}: {cut}" if cut else str(one["partitions"])


def _work(work: Json) -> str:
    names = ", ".join(work["connectors"])
    tasks = f"{counted(work['tasks'], 'task')}; config offset {work['config_offset']}"
    cut = names if len(names) <= MAX_PARTITIONS else names[: MAX_PARTITIONS - 1] + "…"
    return f"{cut or 'no connector'}; {tasks}"


def _ranges(given: Sequence[int]) -> Iterator[str]:
    """Yield partitions in order, neighbours as one range."""
    for _, run in groupby(enumerate(given), key=lambda item: item[1] - item[0]):
        numbers = [number for _, number in run]
        yield str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _event(one: Json) -> Json:
    changes = [f"{one[role]} {role}" for role in ("joined", "left", "replaced") if one[role]]
    # What stands for several causes, of one member mostly, is said once.
    alike = groupby(one["causes"][:MAX_CAUSES], key=lambda cause: str(cause["why"]))
    causes = [f"{', '.join(map(_cause, each))}: {why}" for why, each in alike]
    causes += [f"waited for {one['held_by']}"] if one["held_by"] else []
    return {
        "at": _time(one["at"]),
        "what": one["kind"] + (" (history)" if one["history"] else ""),
        "generation": one["generation"],
        "members": ", ".join(changes),
        "sync": _span(one["sync_ms"]),
        "causes": "; ".join([*([one["about"]] if one.get("about") else []), *causes]) or _price(one),
    }


def _price(one: Json) -> str:
    """Return what a rebalance cost in words: records, and until when."""
    cost = one["cost"]
    if "arrived" not in cost:
        return ""
    back = _span(cost.get("caught_up_ms"))
    stopped = _span(one["stopped_ms"])
    parts = [
        f"{counted(cost['arrived'], 'record')} arrived"
        + (f" while it stood still for {stopped}" if stopped else ""),
        f"{cost['waiting_peak']:,} waited at most",
        f"caught up {back} after it" if back else "not caught up within an hour",
    ]
    return "; ".join(parts)


def _cause(cause: Json) -> str:
    who = f" of {cause['client_id']}" if cause["client_id"] else ""
    if cause["instance_id"] and cause["instance_id"] != cause["client_id"]:
        who += f" as {cause['instance_id']}"
    sure = "" if cause["cause"] == "unknown" else f" ({cause['confidence']:.2f})"
    return f"{cause['cause']}{who}{sure}"


def _advice(one: Json) -> Json:
    who = " ".join(part for part in (one["client_id"], one["host"]) if part)
    reason = f"{who}: {one['reason']}" if who else one["reason"]
    return {"about": one["about"], "advice": one["advice"], "reason": reason}


def _spread(spread: Json) -> list[Json]:
    now = spread["now"]
    if now is None:
        return []
    rows = [{"assignor": f"now ({now['protocol'] or 'unknown'})", **_loads(now)}]
    return rows + [{"assignor": name, **_loads(one)} for name, one in spread["assignors"].items()]


def _loads(one: Json) -> Json:
    return {"most": one["most"], "least": one["least"], "idle members": one["idle"], "moves": one["moves"]}


def _time(ms: int | None) -> str | None:
    if ms is None or ms < 0:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def _span(ms: int | None) -> str | None:
    return None if ms is None or ms < 0 else f"{ms / 1000:g} s"
