"""The dispatcher's memory as entries of text, by a key each, and back.

An entry is made anew only if its content has changed. `witness` is what it was made of, compared by equality;
for values that are never changed in place that is a comparison of identities.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.dispatch.plan import Memory
from rebalance_monitor.alerts.dispatch.retry import Pace
from rebalance_monitor.alerts.dispatch.threads import Thread
from rebalance_monitor.alerts.engine.decision import Entry
from rebalance_monitor.alerts.engine.types import AlertGroup, State
from rebalance_monitor.alerts.incidents.alert import Alert, Alerts
from rebalance_monitor.alerts.incidents.tally import Tally
from rebalance_monitor.coordinator.findings.finding import from_dict, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rebalance_monitor.alerts.engine.types import Key
    from rebalance_monitor.coordinator.findings.finding import Finding

Json = dict[str, Any]


@dataclass(slots=True)
class MemoryLines:
    """Makes the entries of one memory again and again: key -> value, both JSON."""

    _numbers: dict[int, tuple[Finding, int]] = field(default_factory=dict)
    _next: int = 0
    _made: dict[Any, tuple[Any, str, str]] = field(default_factory=dict)
    _used: dict[int, tuple[Finding, int]] = field(default_factory=dict)
    _kept: dict[Any, tuple[Any, str, str]] = field(default_factory=dict)

    def of(self, memory: Memory) -> dict[str, str]:
        """Return all entries as they are now."""
        self._used, self._kept = {}, {}
        engine = memory.engine
        self._one(("state",), (engine.collected_at, engine.refused, dict(memory.batches)), _state)
        for name, pace in memory.paces.items():
            self._one(("pace", name), asdict(pace), lambda plain: plain)
        for alert in engine.alerts.values():
            numbered = (alert, self._number(alert.finding))
            self._one(("alert", alert.fingerprint), numbered, lambda numbered: _alert(*numbered))
        for key, group in engine.groups.items():
            looks = (group.next_look, group.looked, frozenset(group.alerts), frozenset(group.former))
            self._one(("group", key), looks, _group)
        for (way, key), entry in engine.log.items():
            self._one(("log", way, key), entry, _entry)
        for way, key in sorted(engine.pending):
            self._one(("pending", way, key), 1, lambda plain: plain)
        for (way, key), thread in memory.threads.items():
            news = [self._number(finding) for finding in thread.news]
            numbers = [self._number(alert.finding) for alert in thread.last_alerts]
            self._one(("thread", way, key), (*_plain(thread), news, thread.last_alerts, numbers), _thread)
        for finding, number in self._used.values():
            self._one(("finding", number), finding, None)
        self._numbers, self._made = self._used, self._kept
        return {key: value for _, key, value in self._kept.values()}

    def _one(self, key: tuple[Any, ...], witness: Any, body: Callable[[Any], Any] | None) -> None:  # noqa: ANN401 - of each kind its own
        known = self._made.get(key)
        if known is None or not (known[0] is witness or known[0] == witness):
            name = _dumps(key) if known is None else known[1]
            value = to_json(witness) if body is None else _dumps(body(witness))
            known = (witness, name, value)
        self._kept[key] = known

    def _number(self, finding: Finding) -> int:
        identity = id(finding)
        known = self._used.get(identity) or self._numbers.get(identity)
        if known is None:
            known = (finding, self._next)
            self._next += 1
        self._used[identity] = known
        return known[1]


_PLAIN = ("id", "opened_at", "notified_at", "sequence", "attempts", "uncertain", "acknowledged", "state")


def _plain(thread: Thread) -> tuple[Any, ...]:
    plain = [getattr(thread, name) for name in _PLAIN]
    return (*plain, thread.tally, frozenset(thread.groups))


def _alert(alert: Alert, finding: int) -> list[Any]:
    return [alert.labels, alert.starts_at, alert.ends_at, finding, alert.quiet]


def _thread(witness: tuple[Any, ...]) -> list[Any]:
    *plain, tally, groups, news, sent, numbers = witness
    alerts = [
        [alert.fingerprint, *_alert(alert, number)] for alert, number in zip(sent, numbers, strict=True)
    ]
    return [*plain, asdict(tally), sorted(groups), news, alerts]


def _dumps(body: object) -> str:
    return json.dumps(body, separators=(",", ":"))


def _state(state: tuple[int, int, dict[str, int]]) -> list[Any]:
    return list(state)


def _group(group: tuple[int, bool, frozenset[str], frozenset[str]]) -> list[Any]:
    next_look, looked, alerts, former = group
    return [next_look, looked, sorted(alerts), sorted(former)]


def _entry(entry: Entry) -> list[Any]:
    return [entry.at, sorted(entry.firing), sorted(entry.resolved), dict(entry.said)]


def memory_of(entries: Iterable[tuple[list[Any], Any]]) -> Memory:
    """Return the memory in these entries. Raises ValueError, KeyError, TypeError for others."""
    kinds: dict[str, list[tuple[list[Any], Any]]] = {}
    for (kind, *key), value in entries:
        kinds.setdefault(kind, []).append((key, value))
    findings = {number: from_dict(value) for (number,), value in kinds.pop("finding", ())}
    ((_, (collected_at, refused, batches)),) = kinds.pop("state")
    engine = State(
        alerts=Alerts(_read_alert(name, value, findings) for (name,), value in kinds.pop("alert", ())),
        groups={
            _read_key(key): AlertGroup(next_look, looked, set(alerts), set(former))
            for (key,), (next_look, looked, alerts, former) in kinds.pop("group", ())
        },
        log={
            (way, _read_key(key)): Entry(at, frozenset(firing), frozenset(resolved), said)
            for (way, key), (at, firing, resolved, said) in kinds.pop("log", ())
        },
        pending={(way, _read_key(key)) for (way, key), _ in kinds.pop("pending", ())},
        collected_at=collected_at,
        refused=refused,
    )
    memory = Memory(
        engine=engine,
        threads={
            (way, _read_key(key)): _read_thread(value, findings)
            for (way, key), value in kinds.pop("thread", ())
        },
        paces={name: Pace(**pace) for (name,), pace in kinds.pop("pace", ())},
        batches=batches,
    )
    if kinds:
        raise ValueError(f"unknown entries: {', '.join(sorted(kinds))}")
    return memory


def _read_key(key: list[Any]) -> Key:
    path, labels = key
    return path, tuple((label, value) for label, value in labels)


def _read_alert(name: str, value: list[Any], findings: dict[int, Finding]) -> Alert:
    labels, starts_at, ends_at, finding, quiet = value
    return Alert(name, labels, starts_at, ends_at, findings[finding], quiet)


def _read_thread(value: list[Any], findings: dict[int, Finding]) -> Thread:
    *plain, tally, groups, news, last_alerts = value
    offenders = tuple((name, count) for name, count in tally["offenders"])
    return Thread(
        **dict(zip(_PLAIN, plain, strict=True)),
        tally=Tally(**{**tally, "offenders": offenders}),
        news=[findings[number] for number in news],
        groups=set(groups),
        last_alerts=[_read_alert(name, rest, findings) for name, *rest in last_alerts],
    )
