"""A finished suite folder, read: its facts, its groups' families, and which runs do not count.

A run counts unless the machine starved or its broker was fenced meanwhile (lab/truth/strain.py): then the log
tells of deadlines that no client missed.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.properties import HEARTBEAT_848, SESSION_848
from rebalance_monitor.lab.truth.counted import counted_storms
from rebalance_monitor.lab.truth.facts import facts_of, migrated_groups, stored
from rebalance_monitor.lab.truth.fold import LAB_PACE, Fact, Pace
from rebalance_monitor.lab.truth.runfolder import Played, read_run
from rebalance_monitor.lab.truth.scripted import Act, Script, scripted_facts
from rebalance_monitor.lab.truth.strain import Strain
from rebalance_monitor.lab.truth.truth import Truth, read_truth, write_truth
from rebalance_monitor.lab.workers.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rebalance_monitor.lab.workers.timings import Timing

# What a suite folder says of itself; it is written when the suite has ended.
ABOUT = "suite.json"
# A record of the last moments may miss the capture, which is taken before the log is copied.
EDGE_MS = 1_500
# The broker checks what expired every 5 s in the lab.
EXPIRY_MS = 8_000
# Connect's sinks are consumers of a group of their own, named after the connector.
SINKS = "connect-sinks"
# A sleeper that is late for a third of a session leaves too little of it (lab/truth/strain.py: 2 s of 6 s).
SESSION_PARTS = 3


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: facts of all groups; `families` has the groups that count, `spoilt` why others do not.

    `quiet` groups have (from, to) in ms; `migrated` ones changed their protocol: only that is judged of them.
    `shards` gives the groups of each shard, `settings` what the broker has for settings of the detection,
    `limits` what kind of limits each group's members have (lab/scenario/limits.py), `intervals` the
    max.poll.interval (ms) of groups that send it nowhere, `timings` what was drawn for each group
    (lab/workers/timings.py), `pace` what the brokers set for epoch-based groups. `until`: when (ms) the
    facts end.
    """

    folder: Path
    facts: list[Fact]
    families: dict[str, str]
    quiet: dict[str, tuple[int, int]]
    about: dict[str, object]
    spoilt: dict[str, str] = field(default_factory=dict)
    migrated: frozenset[str] = frozenset()
    shards: dict[int, list[str]] = field(default_factory=dict)
    settings: Mapping[str, int | str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    intervals: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, Timing] = field(default_factory=dict)
    pace: Pace = LAB_PACE
    until: int = sys.maxsize


def suite_folders(folders: Iterable[Path]) -> list[Path]:
    """Return the suite folders that some folders are or hold."""
    return [path.parent for folder in folders for path in sorted(folder.rglob(ABOUT))]


def read_suite(folder: Path) -> Suite:
    """Read a suite folder, leaving out facts that are younger than its capture."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    runs = [read_run(path.parent) for path in sorted(folder.glob("runs/*/scenario.yaml"))]
    metadata = read_capture(folder / "capture").metadata
    # Where the logs are there they are read again: the parser may have learnt since.
    truth = write_truth(folder) if any(folder.glob("coordinator-*.log")) else read_truth(folder)
    until = metadata.captured_at - EDGE_MS
    events = stored(event for event in truth if event.at <= until)
    migrated = migrated_groups(events)
    families = _families(runs, events)
    spoilt = _spoilt(runs, [Strain(**one) for one in about.get("strains", ())])
    shards: dict[int, list[str]] = defaultdict(list)
    for group in families:
        shards[coordinator_partition(group, metadata.partitions)].append(group)
    static = [group for run in runs if run.raw["static"] for group in run.groups]
    announced = _storms(runs)
    pace = _pace(runs)
    facts = facts_of(events, static, pace) + announced + _moves(events, shards)
    by_group: dict[str, list[Truth]] = defaultdict(list)
    for event in events:
        by_group[event.group].append(event)
    moves: dict[str, list[int]] = defaultdict(list)
    for fact in facts:
        if fact.label == Kind.COORDINATOR_MOVED:
            moves[fact.group].append(fact.at)
    facts += [fact for run in runs for fact in (*_scripted(run, moves, by_group), *_expiries(run, facts))]
    facts = _kicked(facts)
    known = {fact.group for fact in announced}
    facts += [storm for storm in counted_storms(facts) if storm.group not in known]
    return Suite(
        folder=folder,
        facts=[fact for fact in facts if fact.group not in migrated] + _migrations(events, migrated),
        families={group: family for group, family in families.items() if group not in spoilt},
        quiet={name: span for run in runs if run.raw["silent"] for name, span in _quiet(run).items()},
        about=about,
        spoilt=spoilt,
        migrated=migrated,
        shards=dict(shards),
        settings={"session_timeout_848": f"{pace.session_ms}ms"}
        | {key: value for run in runs for key, value in _settings(run).items()},
        pace=pace,
        limits={group: kind for run in runs for group, kind in run.limits.items()},
        intervals={group: poll for run in runs for group, poll in run.intervals.items()},
        timings={group: timing for run in runs for group, timing in run.timings.items()},
        until=until,
    )


def _families(runs: Sequence[Played], events: Sequence[Truth]) -> dict[str, str]:
    found: dict[str, str] = {}
    for run in runs:
        # Of a silent herd only what is loud counts.
        found |= {run.group: next(iter(run.families.values()))} if run.raw["silent"] else run.families
    # Brokers before 3.0 do not log which member joins, and sinks have no journals: of these nothing is known.
    complete = all(event.members for event in events if event.what == "synced")
    connected = complete and any(family == "connect" for family in found.values())
    sinks = {event.group for event in events if connected and event.group.startswith("connect-")}
    return {**dict.fromkeys(sinks - found.keys(), SINKS), **found}


def _spoilt(runs: Sequence[Played], strains: Sequence[Strain]) -> dict[str, str]:
    # A scenario that restarts brokers fences them on purpose, for all groups.
    ignored = "fenced" if any(run.hurts_brokers for run in runs) else ""
    counted = [strain for strain in strains if strain.what != ignored]
    return {
        group: strain.what
        for run in runs
        for group in run.groups
        for strain in counted
        if strain.spoils(*run.span) and _is_felt(strain, run.timings.get(group))
    }


def _is_felt(strain: Strain, timing: Timing | None) -> bool:
    """Whether it was a good part of a session: of 6 s, where no timings were drawn, it is that at once."""
    return timing is None or strain.what == "fenced" or strain.length_ms * SESSION_PARTS >= timing.session_ms


def _quiet(run: Played) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(run.groups, run.span)


def _storms(runs: Sequence[Played]) -> list[Fact]:
    """Give the storms that scenario files announce: no log line says that something is one."""
    return [
        Fact(Kind.STORM, group, -1, "", _first_fault(run))
        for run in runs
        for group in run.groups
        if any(one["kind"] == Kind.STORM and one["phase"] == "opened" for one in run.raw["expect"])
    ]


def _settings(run: Played) -> dict[str, int | str]:
    """Give what a monitor would read from this run's brokers: a capture holds no settings."""
    found: dict[str, int | str] = {}
    if retention := _retention(run):
        found["offsets_retention"] = f"{retention}ms"
    for step in run.raw["steps"]:
        if step["verb"] == "limit_record":
            found["max_message_bytes"] = int(step["who"][0])
    return found


def _pace(runs: Sequence[Played]) -> Pace:
    """Give what the cluster that all runs share sets for epoch-based groups."""
    broker: Mapping[str, Any] = next((run.raw.get("broker", {}) for run in runs), {})
    return Pace(
        session_ms=int(broker.get(SESSION_848, LAB_PACE.session_ms)),
        heartbeat_ms=int(broker.get(HEARTBEAT_848, LAB_PACE.heartbeat_ms)),
    )


def _retention(run: Played) -> int:
    return int(run.raw.get("broker", {}).get("offsets.retention.minutes", 0)) * 60_000


def _expiries(run: Played, facts: Sequence[Fact]) -> list[Fact]:
    """Give when groups expired: no line of the log says so, but they were empty for long enough.

    Groups without offsets are removed when the broker checks what expired, every ten minutes.
    """
    groups = {*run.groups}
    own = [fact for fact in facts if fact.group in groups and fact.label == Kind.GROUP_EMPTY]
    emptied = {fact.group: fact.at for fact in own}
    retention, end = _retention(run), run.span[1]
    found: list[Fact] = []
    for group in run.groups:
        at = emptied.get(group, end) + retention
        due = retention > 0 and at + EXPIRY_MS <= end
        labels = (Kind.GROUP_REMOVED, f"cause:{Cause.GROUP_EXPIRED}")
        found += [Fact(label, group, -1, "", at, required=due) for label in labels]
    return found


def _kicked(facts: Sequence[Fact]) -> list[Fact]:
    """Let it pass that a member that an administrator removed left: the broker calls it so as well."""
    label = f"cause:{Cause.MEMBER_REMOVED_BY_ADMIN}"
    removed = {(one.group, one.member) for one in facts if one.label == label}
    left = f"cause:{Cause.MEMBER_LEFT}"
    return [
        replace(one, required=False) if one.label == left and (one.group, one.member) in removed else one
        for one in facts
    ]


def _first_fault(run: Played) -> int:
    return next((int(step["at"]) for step in run.steps if step["verb"] != "start"), int(run.steps[0]["at"]))


def _moves(events: Sequence[Truth], shards: Mapping[int, Sequence[str]]) -> list[Fact]:
    """Give the coordinator moves of every group that was known to its shard before."""
    began: dict[str, int] = {}
    for event in events:
        began.setdefault(event.group, event.at)
    return [
        Fact(Kind.COORDINATOR_MOVED, group, event.generation, "", event.at)
        for event in events
        if event.what == "elected"
        for group in shards.get(int(event.group.rpartition("-")[2]), ())
        if began.get(group, event.at) < event.at
    ]


def _migrations(events: Sequence[Truth], migrated: frozenset[str]) -> list[Fact]:
    """Give each time that a group changed from synced generations to epochs, or back."""
    facts: list[Fact] = []
    before: dict[str, str] = {}
    for event in events:
        if event.group not in migrated or event.what not in {"synced", "epoch"}:
            continue
        if before.get(event.group, event.what) != event.what:
            facts.append(Fact(Kind.GROUP_MIGRATED, event.group, -1, "", event.at))
        before[event.group] = event.what
    return facts


def _scripted(
    run: Played, moves: Mapping[str, Sequence[int]], events: Mapping[str, Sequence[Truth]]
) -> list[Fact]:
    """Give the facts of a run's groups; `moves`: when (ms) the coordinator of each moved."""
    return [
        fact
        for group in run.groups
        for fact in scripted_facts(_script_of(run, group, moves.get(group, ())), events.get(group, ()))
    ]


def _script_of(run: Played, group: str, moves: Sequence[int]) -> Script:
    flags = f"{run.raw['family']} {run.raw['settings']} {run.raw['steps']}"
    return Script(
        group=group,
        acts=tuple(act for step in run.steps for act in _acts(run, step)),
        cooperative="cooperative" in flags or _is_cooperative(str(run.raw["family"])),
        connect=run.raw["family"] == "connect",
        moves=tuple(moves),
        joins_by_pattern=any(name.startswith("^") for name in run.raw["topics"]),
        at_broker=run.raw["family"] == "confluent-848",
    )


def _is_cooperative(family: str) -> bool:
    known = FAMILIES.get(family)
    return family == "streams" or (known is not None and "cooperative" in known.flags.get("assignor", ""))


def _acts(run: Played, step: Mapping[str, Any]) -> list[Act]:
    at, verb = int(step["at"]), str(step["verb"])
    planned = [one for one in run.raw["steps"] if one["verb"] == verb and one["at"] == step["planned_s"]]
    options = planned[0]["options"] if planned else {}
    if verb == "command":
        return [Act(at, str(options["text"]).split()[0])]
    if verb == "start" and (options.get("with") or {}).get("mode") == "assign":
        return [Act(at, "assign")]
    if verb == "start":
        return [Act(at, "assignor")] if _assignor(options) not in {"", _first_assignor(run)} else []
    return [Act(at, verb, tuple(step["member_ids"]))]


def _assignor(options: Mapping[str, Any]) -> str:
    return str((options.get("with") or {}).get("assignor", ""))


def _first_assignor(run: Played) -> str:
    firsts = (_assignor(one["options"]) for one in run.raw["steps"] if one["verb"] == "start")
    return next(firsts, "")
