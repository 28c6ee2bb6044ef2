"""One run folder of a suite, read: its scenario as it was run, its steps, its groups (runner.py)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import yaml

from rebalance_monitor.lab.scenario.limits import limits_of
from rebalance_monitor.lab.workers.families import IDLE, MANUAL, UNDISCLOSED
from rebalance_monitor.lab.workers.flags import BY_HAND, Flags, typed
from rebalance_monitor.lab.workers.timings import Timing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

BROKER_VERBS = frozenset(
    {"restart_broker", "pause_broker", "kill_broker", "start_broker", "move_coordinator"}
)


@dataclass(frozen=True, slots=True)
class Played:
    """One run folder: its scenario as it was run, and the steps that were done."""

    group: str
    raw: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]

    @property
    def span(self) -> tuple[int, int]:
        """From its first step to its end, ms."""
        begin = int(self.steps[0]["at"])
        return begin, begin + int(float(self.raw["end"]) * 1000)

    @property
    def groups(self) -> tuple[str, ...]:
        """The group, or all groups of the herd."""
        return tuple(self.families)

    @property
    def families(self) -> dict[str, str]:
        """The family of each group, by how its members commit and whether they get anything."""
        # Runs that were recorded before there were any without traffic do not say that they had some.
        idle = IDLE * (not self.raw.get("traffic", True))
        return {
            one.group: f"{self.raw['family']}{MANUAL * (one.commit in BY_HAND)}{idle}" for one in self.flags
        }

    @property
    def flags(self) -> list[Flags]:
        """The flags of each group's members, as far as the scenario sets them."""
        settings = {key: str(value) for key, value in self.raw["settings"].items()}
        return list(replace(Flags("", self.group, ""), **typed(settings)).each())

    @property
    def timings(self) -> dict[str, Timing]:
        """The timing of each group whose run has drawn some."""
        if not self.raw.get("timings"):
            return {}
        drawn = (Timing.read(text) for text in self.raw["settings"]["timings"].split(","))
        return dict(zip(self.groups, drawn, strict=True))

    @property
    def limits(self) -> dict[str, str]:
        """What kind of limits the members of each group have; runs did not always say them."""
        said = self.raw.get("limits", {})
        return {group: kind for group, limits in said.items() if (kind := limits_of(*limits))}

    @property
    def intervals(self) -> dict[str, int]:
        """The max.poll.interval (ms) in each group whose members send none, and commit by hand."""
        # As for limits: what runs did not say, their scenario does.
        said = self.raw.get("limits") or {self.group: (0, self.raw["poll_ms"])}
        families = self.families
        manual = UNDISCLOSED + MANUAL
        return {group: int(poll) for group, (_, poll) in said.items() if families.get(group) == manual}

    @property
    def hurts_brokers(self) -> bool:
        """Whether it did something to the cluster that others share."""
        return any(step["verb"] in BROKER_VERBS for step in self.steps)


def read_run(folder: Path) -> Played:
    """Read one run folder."""
    raw = cast("dict[str, Any]", yaml.safe_load((folder / "scenario.yaml").read_text(encoding="utf-8")))
    lines = (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    return Played(folder.name, raw, [json.loads(line) for line in lines])
