"""Any story of findings, failures and crashes: no incident missed, no parent twice, every end notified.

The crash is simulated here, thousands of them: the memory goes back to what was saved last, what the sink was
doing may have taken effect or not. The real one, with kill -9, is tests/alerts/runtime/test_killed.py.
"""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.alerts.dispatch.dispatch import Dispatch
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile
from rebalance_monitor.alerts.setup.receivers import plan_of
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import AT, finding
from tests.alerts.support.play import ONLY_SLACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.alerts.dispatch.plan import Memory, Outgoing
    from rebalance_monitor.alerts.messages.notification import Notification
    from rebalance_monitor.coordinator.findings.finding import Finding

STEP_S = 10
GROUPS = ("a", "b", "c")
SECTION = {**ONLY_SLACK, "route": {"receiver": "sre", "group_by": ["cluster", "group"]}}
PLAN = plan_of(Settings(alerts=SECTION), "prod")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["open", "update", "end", "lost", "restart"]), st.sampled_from(GROUPS)),
        st.tuples(st.just("wait"), st.integers(1, 400)),
        st.tuples(st.just("crash"), st.booleans()),
    ),
    max_size=25,
)


@pytest.fixture(autouse=True, scope="module")
def _without_waiting_for_the_disk() -> Iterator[None]:
    """Leave out what makes a save durable: nothing here loses its power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@dataclass
class Service:
    """What Slack would hold: thread -> phase of its parent. It finds a parent only when it is asked."""

    parents: dict[str, Phase] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    def take(self, told: Notification) -> None:
        known = told.thread in self.parents
        if known and not told.state and not told.maybe_sent:
            self.twice.append(told.key)
        self.parents[told.thread] = told.phase
        # That a sink fails is of no group.
        self.groups[told.thread] = told.labels.get("group", "")


class Story:
    """One run. The memory lives in a real file; findings are kept as the inbox does."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.file = MemoryFile(folder / "memory.jsonl")
        self.draw = random.Random(seed)  # noqa: S311 - not a secret
        self.service = Service()
        self.now = AT
        self.batches: list[Finding] = []
        self.incidents: dict[str, int] = {}
        self.open: set[str] = set()
        self.fails = 0.4
        self.under_way: list[tuple[Outgoing, bool]] = []
        self.begin()

    def begin(self) -> None:
        self.under_way = []
        self.memory: Memory = self.file.load()
        self.dispatch = Dispatch(PLAN, self.memory, self.draw.random, self.now)
        for number in range(self.memory.batches.get("q", -1) + 1, len(self.batches)):
            self.take(number)

    def take(self, number: int) -> None:
        self.dispatch.take([self.batches[number]], self.now)
        self.memory.batches["q"] = number

    def tell(self, verb: str, group: str) -> None:
        if verb == "open" and group not in self.open:
            self.incidents[group] = self.incidents.get(group, 0) + 1
            self.open.add(group)
        elif verb in {"open", "update", "end"} and group not in self.open:
            return
        if verb == "end":
            self.open.discard(group)
        phases = {"open": "opened", "update": "updated", "end": "resolved"}
        kinds = {"lost": Kind.SESSION_TIMEOUT, "restart": Kind.ROLLING_RESTART}
        kind = kinds.get(verb, Kind.STORM)
        made = finding(kind, group=group, at=self.now, detected_at=self.now, phase=phases.get(verb))
        number = len(self.batches)
        self.batches.append(replace(made, id=f"f{number}", incident=f"{group}{self.incidents.get(group, 0)}"))
        self.take(number)

    def round(self) -> None:
        """Do what the dispatcher's thread does, in its order."""
        for outgoing, arrived in self.under_way:
            if arrived:
                self.dispatch.arrived(outgoing, {"ts": outgoing.notification.thread}, self.now)
            else:
                self.dispatch.failed(outgoing, SinkError("no"), self.now)
        self.under_way = []
        self.dispatch.advance(self.now)
        found = self.dispatch.ready(self.now)
        self.file.save(self.memory)
        for outgoing in found:
            chance = self.draw.random()
            if chance >= self.fails / 2:
                self.service.take(outgoing.notification)
            self.under_way.append((outgoing, chance >= self.fails))

    def wait(self, seconds: int) -> None:
        for _ in range(0, seconds, STEP_S):
            self.now += STEP_S * 1_000
            self.round()

    def crash(self, *, in_between: bool) -> None:
        if in_between:
            self.dispatch.advance(self.now)
        self.begin()


@settings(max_examples=40, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_no_story_leaves_an_incident_unnotified_or_publishes_it_twice(
    steps: list[tuple[str, str | int]], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), seed)
        for verb, what in steps:
            match what:
                case bool():
                    story.crash(in_between=what)
                case int():
                    story.wait(what)
                case _:
                    story.tell(verb, str(what))
        story.fails = 0.0
        story.wait(1_000)
    service = story.service
    assert service.twice == []
    alive = {
        service.groups[thread] for thread, phase in service.parents.items() if phase is not Phase.RESOLVED
    }
    assert alive == story.open
    living = [
        service.groups[thread] for thread, phase in service.parents.items() if phase is not Phase.RESOLVED
    ]
    assert len(living) == len(set(living))
    assert story.memory.engine.pending == set()
    assert {way[1][1][1][1] for way in story.memory.threads} == story.open


@settings(max_examples=20, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_the_memory_comes_back_from_its_file_as_it_was(steps: list[tuple[str, str | int]], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), seed)
        for verb, what in steps:
            if isinstance(what, str):
                story.tell(verb, what)
            elif not isinstance(what, bool):
                story.wait(what)
        story.file.save(story.memory)
        assert MemoryFile(Path(folder) / "memory.jsonl").load() == story.memory


@settings(max_examples=40, deadline=None)
@given(STEPS, st.data())
def test_how_findings_are_cut_into_batches_changes_no_incident(
    steps: list[tuple[str, str | int]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), 1)
        for verb, what in steps:
            if isinstance(what, str):
                story.tell(verb, what)
            elif not isinstance(what, bool):
                story.now += what * 1_000
        whole = Dispatch(PLAN, MemoryFile(Path(folder) / "none").load(), story.draw.random, AT)
        left = list(story.batches)
        while left:
            size = data.draw(st.integers(1, len(left)))
            whole.take(left[:size], story.now)
            left = left[size:]
    assert whole.memory.engine.alerts == story.memory.engine.alerts
