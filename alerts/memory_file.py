"""The dispatcher's memory as a file: one line with everything, then one line per finding that it refers to.

Replaced as a whole, so a reader sees the old or the new one. Findings are most of it and hardly change, so
their lines are kept between two saves. No option of a way out is in it, so no secret is. Refuses another
format: guessing what has been told would tell it twice or never.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.alert import Alert
from rebalance_monitor.alerts.board import AlertGroup, State
from rebalance_monitor.alerts.decision import Entry
from rebalance_monitor.alerts.pacing import Pace
from rebalance_monitor.alerts.plan import Memory
from rebalance_monitor.alerts.tally import Tally
from rebalance_monitor.alerts.threads import Thread
from rebalance_monitor.checkpoints.files import replace_file
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings import from_json, to_json

if TYPE_CHECKING:
    from rebalance_monitor.alerts.board import Key
    from rebalance_monitor.checkpoints.places import Place
    from rebalance_monitor.coordinator.findings import Finding

FORMAT = 1
Json = dict[str, Any]


class MemoryFileError(ConfigError):
    """The file cannot be read; the message says what to do."""


class MemoryFile:
    """Loads and saves the memory at `path`. One process at a time (`checkpoints.files.locked`)."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._lines: dict[int, tuple[Finding, str]] = {}

    def load(self) -> Memory:
        """Return what was saved last, an empty memory at the first start. Raises MemoryFileError."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return Memory()
        try:
            head, *lines = content.decode().rstrip("\n").split("\n")
            return _memory(json.loads(head), [from_json(line) for line in lines])
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise MemoryFileError(
                f"{self._path} cannot be read ({error}). It was written by another version or is damaged: "
                "restore it from a backup, or move it away; open incidents are then told once more."
            ) from error

    def save(self, memory: Memory) -> None:
        """Make `memory` the last one, durably. Blocks for the disk; raises OSError."""
        writing = _Writing(self._lines)
        head = json.dumps(_document(memory, writing), separators=(",", ":"))
        self._lines = writing.kept
        text = "\n".join([head, *(line for _, line in writing.kept.values())]) + "\n"
        replace_file(self._path, text.encode(errors="replace"))


class _Writing:
    """Numbers the findings of one save in the order of their lines."""

    def __init__(self, lines: dict[int, tuple[Finding, str]]) -> None:
        self._before = lines
        self._numbers: dict[int, int] = {}
        self.kept: dict[int, tuple[Finding, str]] = {}

    def number(self, finding: Finding) -> int:
        """Return the number of the finding's line."""
        identity = id(finding)
        if identity not in self.kept:
            known = self._before.get(identity)
            self.kept[identity] = known or (finding, to_json(finding))
            self._numbers[identity] = len(self._numbers)
        return self._numbers[identity]


def _document(memory: Memory, writing: _Writing) -> Json:
    engine = memory.engine
    return {
        "format": FORMAT,
        "batches": memory.batches,
        "alerts": [_alert(alert, writing) for alert in engine.alerts.values()],
        "groups": [
            [*_key(key), group.next_look, group.looked, sorted(group.alerts), sorted(group.former)]
            for key, group in engine.groups.items()
        ],
        "log": [
            [way, *_key(key), entry.at, sorted(entry.firing), sorted(entry.resolved), dict(entry.said)]
            for (way, key), entry in engine.log.items()
        ],
        "pending": [[way, *_key(key)] for way, key in sorted(engine.pending)],
        "collected_at": engine.collected_at,
        "refused": engine.refused,
        "threads": [
            [way, *_key(key), _thread(thread, writing)] for (way, key), thread in memory.threads.items()
        ],
        "paces": {name: asdict(pace) for name, pace in memory.paces.items()},
    }


def _key(key: Key) -> tuple[str, list[list[str]]]:
    return key[0], [list(pair) for pair in key[1]]


def _alert(alert: Alert, writing: _Writing) -> list[Any]:
    finding = writing.number(alert.finding)
    return [alert.fingerprint, alert.labels, alert.starts_at, alert.ends_at, finding, alert.quiet]


def _thread(thread: Thread, writing: _Writing) -> Json:
    return {
        "id": thread.id,
        "opened_at": thread.opened_at,
        "told_at": thread.told_at,
        "sequence": thread.sequence,
        "attempts": thread.attempts,
        "uncertain": thread.uncertain,
        "acknowledged": thread.acknowledged,
        "state": thread.state,
        "tally": asdict(thread.tally),
        "news": [writing.number(finding) for finding in thread.news],
        "groups": sorted(thread.groups),
        "told": [_alert(alert, writing) for alert in thread.told],
    }


def _memory(head: Json, findings: list[Finding]) -> Memory:
    if head["format"] != FORMAT:
        raise ValueError("unknown format")
    engine = State(
        alerts={entry[0]: _read_alert(entry, findings) for entry in head["alerts"]},
        groups={
            _read_key(path, labels): AlertGroup(next_look, looked, set(alerts), set(former))
            for path, labels, next_look, looked, alerts, former in head["groups"]
        },
        log={
            (way, _read_key(path, labels)): Entry(at, frozenset(firing), frozenset(resolved), said)
            for way, path, labels, at, firing, resolved, said in head["log"]
        },
        pending={(way, _read_key(path, labels)) for way, path, labels in head["pending"]},
        collected_at=head["collected_at"],
        refused=head["refused"],
    )
    return Memory(
        engine=engine,
        threads={
            (way, _read_key(path, labels)): _read_thread(body, findings)
            for way, path, labels, body in head["threads"]
        },
        paces={name: Pace(**pace) for name, pace in head["paces"].items()},
        batches=head["batches"],
    )


def _read_key(path: str, labels: list[list[str]]) -> Key:
    return path, tuple((label, value) for label, value in labels)


def _read_alert(entry: list[Any], findings: list[Finding]) -> Alert:
    name, labels, starts_at, ends_at, finding, quiet = entry
    return Alert(name, labels, starts_at, ends_at, findings[finding], quiet)


def _read_thread(body: Json, findings: list[Finding]) -> Thread:
    tally = body["tally"]
    offenders = tuple((name, count) for name, count in tally["offenders"])
    read = {
        "tally": Tally(**{**tally, "offenders": offenders}),
        "news": [findings[number] for number in body["news"]],
        "groups": set(body["groups"]),
        "told": [_read_alert(entry, findings) for entry in body["told"]],
    }
    return Thread(**{**body, **read})
