"""What a scenario is made of: members, steps and the findings that they must lead to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.lab.scenario.traffic import TICK_S

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE_SESSION_MS, BASE_POLL_MS = 6_000, 8_000


class ScenarioError(ValueError):
    """A scenario file that says something we do not know."""


@dataclass(frozen=True, slots=True)
class Step:
    """At `at` seconds, `verb` is done to `who` (member names, or what the verb takes) with `options`."""

    at: float
    verb: str
    who: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A finding that must come: its kind, the member it names ("" = the group), its phase.

    `after` is the time of the step that causes it, in seconds of the scenario.
    """

    kind: str
    after: float
    member: str = ""
    phase: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, ready to run; times in seconds, time-outs in ms.

    One that needs `nodes` or `broker` properties gets a cluster of its own, shared by its client families; 0
    and nothing mean that it may run beside others. Members of a `proxied` one reach the brokers through
    proxies; with `hosts` each member has a loopback address of its own. One that runs `beside` others goes
    on until all of them have ended. Every `traffic` seconds each partition gets a record, never where it is
    0. So many `timings` are drawn, one for each group of the herd that each member is. All scenarios that
    name the same `cluster` share it.
    """

    name: str
    about: str
    topics: Mapping[str, int]
    members: tuple[str, ...]
    static: bool
    settings: Mapping[str, str]
    steps: tuple[Step, ...]
    end: float
    expect: tuple[Expectation, ...]
    families: tuple[str, ...]
    silent: bool
    nodes: int = 0
    broker: Mapping[str, str] = field(default_factory=dict)
    proxied: bool = False
    beside: bool = False
    traffic: float = TICK_S
    timings: int = 0
    cluster: str = ""
    hosts: bool = False
    session_ms: int = BASE_SESSION_MS
    poll_ms: int = BASE_POLL_MS
