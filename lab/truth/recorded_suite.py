"""A finished suite folder, read: its facts, its groups' families, and which runs do not count.

A run counts unless the machine starved or its broker was fenced meanwhile (lab/truth/strain.py): then the log
tells of deadlines that no client missed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import yaml

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.scenario.limits import limits_of
from rebalance_monitor.lab.truth.counted import counted_storms
from rebalance_monitor.lab.truth.facts import facts_of, migrated_groups, stored
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.truth.scripted import Act, Told, scripted_facts
from rebalance_monitor.lab.truth.strain import Strain
from rebalance_monitor.lab.truth.truth import Truth, read_truth, write_truth
from rebalance_monitor.lab.workers.families import IDLE, MANUAL, UNTOLD
from rebalance_monitor.lab.workers.flags import Flags, group_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# What a suite folder says of itself; it is written when the suite has ended.
ABOUT = "suite.json"
# A record of the last moments may miss the capture, which is taken before the log is copied.
EDGE_MS = 1_500
# The broker looks for what expired every 5 s in the lab.
EXPIRY_MS = 8_000
# Connect's sinks are consumers of a group of their own, named after the connector.
SINKS = "connect-sinks"
BROKER_VERBS = frozenset({"restart_broker", "kill_broker", "start_broker", "move_coordinator"})


@dataclass(frozen=True, slots=True)
class Suite:
    """A finished suite: facts of all groups; `families` has those that count, `spoilt` why others do not.

    `quiet` groups have (from, to) in ms; `migrated` ones changed their protocol: only that is judged of them.
    `shards` gives the groups of each shard, `settings` what the broker has for settings of the detection,
    `limits` what kind of limits each group's members have (lab/scenario/limits.py), `intervals` the
    max.poll.interval (ms) of those that tell it to nobody.
    """

    folder: Path
    facts: list[Fact]
    families: dict[str, str]
    quiet: dict[str, tuple[int, int]]
    about: dict[str, object]
    spoilt: dict[str, str] = field(default_factory=dict)
    migrated: frozenset[str] = frozenset()
    shards: dict[int, list[str]] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    intervals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run folder: its scenario as it was run, and the steps that were done."""

    group: str
    raw: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]

    @property
    def span(self) -> tuple[int, int]:
        begin = int(self.steps[0]["at"])
        return begin, begin + int(float(self.raw["end"]) * 1000)

    @property
    def groups(self) -> tuple[str, ...]:
        """The group, or those of the herd."""
        count = int(self.raw["settings"].get("groups", 1))
        return tuple(group_names(Flags("", self.group, "", groups=count)))

    @property
    def family(self) -> str:
        manual = bool(self.raw["settings"].get("commit") == "manual")
        # Runs that were recorded before there were any without traffic do not say that they had some.
        return str(self.raw["family"]) + MANUAL * manual + IDLE * (not self.raw.get("traffic", True))

    @property
    def limits(self) -> dict[str, str]:
        """What kind of limits the members of each group have; runs did not always say them."""
        said = self.raw.get("limits", {})
        return {group: kind for group, told in said.items() if (kind := limits_of(*told))}

    @property
    def intervals(self) -> dict[str, int]:
        """The max.poll.interval (ms) in each group whose members send none, and commit by hand."""
        if self.family != UNTOLD + MANUAL:
            return {}
        # As for limits: what runs did not say, their scenario does.
        said = self.raw.get("limits") or {self.group: (0, self.raw["poll_ms"])}
        return {group: int(poll) for group, (_, poll) in said.items()}

    @property
    def hurts_brokers(self) -> bool:
        return any(step["verb"] in BROKER_VERBS for step in self.steps)


def read_suite(folder: Path) -> Suite:
    """Read a suite folder, leaving out facts that are younger than its capture."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    runs = [_run(path.parent) for path in sorted(folder.glob("runs/*/scenario.yaml"))]
    metadata = read_capture(folder / "capture").metadata
    # Where the logs are there they are read again: the parser may have learnt since.
    truth = write_truth(folder) if any(folder.glob("coordinator-*.log")) else read_truth(folder)
    events = stored(event for event in truth if event.at <= metadata.captured_at - EDGE_MS)
    migrated = migrated_groups(events)
    families = _families(runs, events)
    spoilt = _spoilt(runs, [Strain(**one) for one in about.get("strains", ())])
    shards: dict[int, list[str]] = defaultdict(list)
    for group in families:
        shards[coordinator_partition(group, metadata.partitions)].append(group)
    static = [group for run in runs if run.raw["static"] for group in run.groups]
    announced = _storms(runs)
    facts = facts_of(events, static) + announced + _moves(events, shards)
    facts += [fact for run in runs for fact in (*_scripted(run, facts, events), *_expiries(run, facts))]
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
        settings={key: value for run in runs for key, value in _settings(run).items()},
        limits={group: kind for run in runs for group, kind in run.limits.items()},
        intervals={group: poll for run in runs for group, poll in run.intervals.items()},
    )


def _run(folder: Path) -> _Run:
    raw = cast("dict[str, Any]", yaml.safe_load((folder / "scenario.yaml").read_text(encoding="utf-8")))
    lines = (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    return _Run(folder.name, raw, [json.loads(line) for line in lines])


def _families(runs: Sequence[_Run], events: Sequence[Truth]) -> dict[str, str]:
    # Of a silent herd only what is loud counts.
    named = ((group, run) for run in runs for group in ((run.group,) if run.raw["silent"] else run.groups))
    found = {group: run.family for group, run in named}
    # Brokers before 3.0 do not log who joins, and sinks have no journals: of these nothing is known.
    told = all(event.members for event in events if event.what == "synced")
    connected = told and any(family == "connect" for family in found.values())
    sinks = {event.group for event in events if connected and event.group.startswith("connect-")}
    return {**dict.fromkeys(sinks - found.keys(), SINKS), **found}


def _spoilt(runs: Sequence[_Run], strains: Sequence[Strain]) -> dict[str, str]:
    return {
        group: strain.what
        for run in runs
        for group in run.groups
        for strain in strains
        # Who restarts brokers fences them on purpose.
        if strain.spoils(*run.span) and not (strain.what == "fenced" and run.hurts_brokers)
    }


def _quiet(run: _Run) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(run.groups, run.span)


def _storms(runs: Sequence[_Run]) -> list[Fact]:
    """Give the storms that scenario files announce: no log line says that something is one."""
    return [
        Fact(Kind.STORM, group, -1, "", _first_fault(run))
        for run in runs
        for group in run.groups
        if any(one["kind"] == Kind.STORM and one["phase"] == "opened" for one in run.raw["expect"])
    ]


def _settings(run: _Run) -> dict[str, int]:
    """Give what a monitor would read from this run's brokers: a capture holds no settings."""
    found = {"offsets_retention_ms": _retention(run)} if _retention(run) else {}
    for step in run.raw["steps"]:
        if step["verb"] == "limit_record":
            found["max_message_bytes"] = int(step["who"][0])
    return found


def _retention(run: _Run) -> int:
    return int(run.raw.get("broker", {}).get("offsets.retention.minutes", 0)) * 60_000


def _expiries(run: _Run, facts: Sequence[Fact]) -> list[Fact]:
    """Tell when groups expired: no line of the log says so, but they were empty for long enough.

    Groups without offsets go whenever the broker looks for what expired, every ten minutes.
    """
    own = [fact for fact in facts if fact.group in run.groups and fact.label == Kind.GROUP_EMPTY]
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


def _first_fault(run: _Run) -> int:
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
    """Tell each time that a group went over from synced generations to epochs, or back."""
    facts: list[Fact] = []
    before: dict[str, str] = {}
    for event in events:
        if event.group not in migrated or event.what not in {"synced", "epoch"}:
            continue
        if before.get(event.group, event.what) != event.what:
            facts.append(Fact(Kind.GROUP_MIGRATED, event.group, -1, "", event.at))
        before[event.group] = event.what
    return facts


def _scripted(run: _Run, facts: Sequence[Fact], events: Sequence[Truth]) -> list[Fact]:
    return [fact for group in run.groups for fact in scripted_facts(_told(run, group, facts), events)]


def _told(run: _Run, group: str, facts: Sequence[Fact]) -> Told:
    flags = f"{run.raw['family']} {run.raw['settings']} {run.raw['steps']}"
    return Told(
        group=group,
        acts=tuple(act for step in run.steps for act in _acts(run, step)),
        cooperative="cooperative" in flags or run.raw["family"] == "streams",
        connect=run.raw["family"] == "connect",
        moves=tuple(
            fact.at for fact in facts if fact.label == Kind.COORDINATOR_MOVED and fact.group == group
        ),
        joins_by_pattern=any(name.startswith("^") for name in run.raw["topics"]),
        at_broker=run.raw["family"] == "confluent-848",
    )


def _acts(run: _Run, step: Mapping[str, Any]) -> list[Act]:
    at, verb = int(step["at"]), str(step["verb"])
    planned = [one for one in run.raw["steps"] if one["verb"] == verb and one["at"] == step["planned_s"]]
    options = planned[0]["options"] if planned else {}
    if verb == "command":
        return [Act(at, str(options["text"]).split()[0])]
    if verb == "start":
        return [Act(at, "assignor")] if _assignor(options) not in {"", _first_assignor(run)} else []
    return [Act(at, verb, tuple(step["member_ids"]))]


def _assignor(options: Mapping[str, Any]) -> str:
    return str((options.get("with") or {}).get("assignor", ""))


def _first_assignor(run: _Run) -> str:
    firsts = (_assignor(one["options"]) for one in run.raw["steps"] if one["verb"] == "start")
    return next(firsts, "")
