"""An outage of a broker is one event, whatever it does to its groups once the broker is back.

A broker that was paused, or cut off, expires the members of all of its groups within milliseconds when it
goes on: every session has run out. The evidence is probe samples without its answer, and then the loss of
members that have been silent since before, in groups that it coordinates. That is one finding about the
broker, with its groups. No member is blamed beside it.

A group is back with the generation that has as many members as before. Groups that are not back after a
session and a rebalance timeout are named. The finding is critical while they are more than a tenth of the
groups. It ends when all groups are back, at the broker's next absence, or after an hour, because a group may
stay smaller.

A commit, or a generation with members, in the midst of an absence shows that clients reached the broker and
only the monitor did not. Such an absence explains nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.causes import LOSSES, Cause
from rebalance_monitor.coordinator.findings.finding import MAX_GROUPS, CauseEntry, make
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.massed import BESIDE, before
from rebalance_monitor.coordinator.findings.wording import counted, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Details, Finding, MemberEntry
    from rebalance_monitor.coordinator.probe.sample import ProbeSample
    from rebalance_monitor.coordinator.settings import DetectionSettings

LEAST_LOOKS = 2
"""One sample may fail for reasons of the monitor's own."""

PAUSE_MS = 15_000
"""After so long without a sample of any kind, ms, the monitor was away: when a broker answered is unknown."""

REACH_MS, SETTLE_MS = 15_000, 3_000
"""For so long after its return a broker expires members, ms. The finding waits until none follows."""

GIVEN_UP_MS = 3_600_000
"""So long after the broker's return, or the last loss, an outage is over even if groups are not back, ms."""

USUAL_MS = 345_000
"""Session and rebalance timeout of members of which none is known: Java's defaults."""

_TENTH, _SURE = 10, 0.85
_EVENTS = frozenset({Kind.REBALANCE, Kind.GROUP_EMPTY})


class Away(msgspec.Struct):
    """One outage of a broker; times in ms.

    `heard`: its last answer before, or `since`, if the monitor was away then. `since`, `last`, `looks`: the
    first and last sample without its answer, and how many there were. `reached`: when a client first reached
    it meanwhile, -1 for never. `back`: its first answer after, -1 until then. `groups`: group -> members
    before, -1 unknown. `waiting`: groups that are not back. `patience`: how long they may take. `hit`: when
    the last group lost members. `reported`: how many groups are published, `named`: how many of them as not
    back.
    """

    heard: int
    since: int
    looks: int = 1
    last: int = -1
    reached: int = -1
    back: int = -1
    groups: dict[str, int] = msgspec.field(default_factory=dict)
    waiting: list[str] = msgspec.field(default_factory=list)
    patience: int = -1
    hit: int = -1
    incident: str = ""
    reported: int = msgspec.field(default=0, name="told")
    named: int = 0
    updates: int = 0


class Outages:
    """Outages by broker; `state` is what `snapshot` returned."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: Mapping[str, Any] | None = None
    ) -> None:
        memory = state or {}
        self._settings, self._cluster = settings, cluster
        self._heard: dict[str, int] = dict(memory.get("heard", {}))
        self._asked: int = int(memory.get("asked", -1))
        self._away = msgspec.convert(memory.get("away", {}), dict[str, Away])

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {"heard": self._heard, "asked": self._asked, "away": msgspec.to_builtins(self._away)}

    def on_sample(self, look: ProbeSample) -> list[Finding]:
        """Take a sample; return the findings about brokers that follow from it."""
        answers = {str(broker): answered for broker, answered in look.brokers if broker >= 0}
        if not any(answers.values()):
            # No broker answered, so the sample does not even name the brokers.
            answers = dict.fromkeys(self._heard, False)
        found: list[Finding] = []
        paused, self._asked = look.at - self._asked > PAUSE_MS, look.at
        for broker, answered in answers.items():
            if paused and broker in self._heard:
                self._heard[broker] = look.at
            found += self._note(broker, look.at, answered=answered)
        return found + [one for broker in list(self._away) for one in self._outage_findings(broker, look.at)]

    def learn(self, finding: Finding, broker: int | None) -> None:
        """Take a generation of a group of `broker`: one with members shows that clients were served."""
        if finding.kind is Kind.REBALANCE and finding.members_total:
            self.serve(broker, finding.at)

    def serve(self, broker: int | None, at: int) -> None:
        """Note that clients reached `broker` at `at` (ms)."""
        outage = self._away.get(str(broker))
        if outage is not None and at >= outage.since + SETTLE_MS:
            outage.reached = at if outage.reached < 0 else min(outage.reached, at)

    def woke(self, finding: Finding, broker: int | None) -> int:
        """Return when (ms) `broker` went on after an absence that explains the losses, -1 for none."""
        outage = self._away.get(str(broker))
        if outage is None or finding.history or not _explains(outage, finding) or self._was_reached(outage):
            return -1
        return _until(outage, finding.at)

    def take(self, finding: Finding, broker: int | None) -> Finding | None:
        """Return a finding of a group of `broker` as its outage leaves it, None where it blames a member."""
        outage = self._away.get(str(broker))
        if outage is None or finding.history or finding.group is None:
            return finding
        if finding.kind is Kind.REBALANCE:
            _refill(outage, finding)
        if not _explains(outage, finding) or self._was_reached(outage):
            return finding
        if finding.kind in BESIDE and _lost(outage, finding):
            return None
        if finding.kind not in _EVENTS or finding.phase == "resolved":
            return finding
        return self._hit(outage, finding, broker)

    def _was_reached(self, outage: Away) -> bool:
        """Whether clients reached the broker meanwhile; or any broker, where all were away as one."""
        absences = [self._away.get(one) for one in self._heard]
        together = [one for one in absences if one and (one.since, one.back) == (outage.since, outage.back)]
        asked = together if len(together) == len(absences) else [outage]
        return any(is_in_the_midst(one.reached, one.since, one.last) for one in asked)

    def _note(self, broker: str, at: int, *, answered: bool) -> list[Finding]:
        """Take one broker's answer, or none; a new absence ends what is open of the one before."""
        outage, found = self._away.get(broker), []
        if answered:
            self._heard[broker] = at
            if outage is not None and outage.back < 0:
                outage.back = at
                if outage.looks < LEAST_LOOKS:
                    del self._away[broker]
        elif outage is not None and outage.back < 0:
            outage.looks, outage.last = outage.looks + 1, at
        elif broker in self._heard and (outage is None or not _may_reach(outage, at)):
            if outage is not None and outage.incident:
                found.append(self._found(broker, outage, at, "resolved"))
            self._away[broker] = Away(self._heard[broker], at)
        return found

    def _hit(self, outage: Away, finding: Finding, broker: int | None) -> Finding:
        """Count the group, and say in its finding what the expiries of its members come from."""
        group, lost = finding.group or "", _lost(outage, finding)
        if not lost:
            return finding
        if group not in outage.groups:
            outage.groups[group] = -1 if (was := before(finding)) is None else was
            outage.waiting.append(group)
        outage.hit = max(outage.hit, finding.at)
        outage.patience = max(outage.patience, *(_patience(finding, one) for one in lost))
        silent = seconds(_until(outage, finding.at) - outage.since)
        why = f"broker {broker} did not respond for {silent}, so no heartbeat reached it"
        # That sessions expired stays as sure as the model is: the broker's absence is why they did.
        sure = max(_SURE, *(one.confidence for one in finding.causes if one.cause in LOSSES), 0.0)
        calm = self._settings.is_always_on(group)
        severity = finding.severity if calm else KINDS[finding.kind].severity
        return replace(
            finding, causes=(CauseEntry(Cause.BROKER_AWAY, sure, why), *finding.causes), severity=severity
        )

    def _outage_findings(self, broker: str, at: int) -> list[Finding]:
        outage = self._away[broker]
        reached = outage.back >= 0 and not _may_reach(outage, at)
        if reached and not outage.groups:
            del self._away[broker]
        if not outage.groups or at < outage.hit + SETTLE_MS:
            return []
        given_up = at > max(outage.back, outage.hit) + GIVEN_UP_MS
        over = given_up or (reached and not outage.waiting)
        if not outage.incident:
            phase = "opened"
        elif over:
            phase = "resolved"
            del self._away[broker]
        elif len(outage.groups) > outage.reported or len(self._late(outage, at)) != outage.named:
            phase, outage.updates = "updated", outage.updates + 1
        else:
            return []
        return [self._found(broker, outage, at, phase)]

    def _late(self, outage: Away, at: int) -> list[str]:
        """Return the groups that should be back by `at` (ms) and are not."""
        patience = outage.patience if outage.patience > 0 else USUAL_MS
        return sorted(outage.waiting) if outage.back >= 0 and at >= outage.back + patience else []

    def _found(self, broker: str, outage: Away, at: int, phase: str) -> Finding:
        late, groups = self._late(outage, at), sorted(outage.groups)
        outage.reported, outage.named = len(groups), len(late)
        anchor = f"broker/{broker}/{outage.since}"
        silent = (at if outage.back < 0 else outage.back) - outage.since
        why = f"broker {broker} did not respond for {seconds(silent)}; "
        why += f"then members of {counted(len(groups), 'group')} expired"
        details: Details = {"broker": int(broker), "silent_ms": silent, "not_back": len(late)}
        if late:
            why += f"; {len(late)} of them not recovered"
            details["missing"] = late[0]
        loud = len(late) * _TENTH > len(groups)
        found = make(
            Kind.BROKER_AWAY,
            cluster=self._cluster,
            anchor=anchor,
            severity=Severity.CRITICAL if loud else None,
            phase=phase,
            sequence=outage.updates,
            evidence="read",
            groups=tuple([*late, *(name for name in groups if name not in late)][:MAX_GROUPS]),
            groups_total=len(groups),
            at=at,
            causes=(CauseEntry(Cause.BROKER_AWAY, _SURE, why),),
            opened_at=outage.since,
            resolution=("expired" if outage.waiting else "completed") if phase == "resolved" else None,
            details=details,
        )
        outage.incident = found.incident or ""
        return found


def is_in_the_midst(at: int, since: int, last: int) -> bool:
    """Whether `at` lies in the midst of an absence that was seen from `since` to `last`, all in ms.

    In its last third the broker may be back, and the probe not know it yet.
    """
    return since + SETTLE_MS <= at and (at - since) * 3 <= (last - since) * 2


def _explains(outage: Away, finding: Finding) -> bool:
    """Whether an expiry was found while the broker was away, or as soon as it was back.

    A client sends at least three heartbeats a session timeout: none expires of a shorter absence than two
    thirds of it, such as one of the monitor's own network.
    """
    if outage.looks < LEAST_LOOKS or not outage.heard < finding.at or not _may_reach(outage, finding.at):
        return False
    sessions = [one.session_timeout_ms for one in finding.members if one.role == "left"]
    known = [one for one in sessions if one is not None]
    return bool(known) and (_until(outage, finding.at) - outage.heard) * 3 >= min(known) * 2


def _may_reach(outage: Away, at: int) -> bool:
    """Whether a loss at `at` (ms) may still come of the outage."""
    return outage.back < 0 or at <= outage.back + REACH_MS


def _until(outage: Away, at: int) -> int:
    """Return until when (ms) the broker had been away at `at`."""
    return at if outage.back < 0 else min(outage.back, at)


def _lost(outage: Away, finding: Finding) -> list[MemberEntry]:
    """Return the departed members without a sign of life since the last answer before the outage."""
    least = finding.at - outage.since - (outage.since - outage.heard)
    return [one for one in finding.members if one.role == "left" and (one.silence_ms or 0) >= least]


def _patience(finding: Finding, member: MemberEntry) -> int:
    """Return how long (ms) after the broker's return a group should be whole again that lost this member."""
    session, rebalance = member.session_timeout_ms, member.rebalance_timeout_ms
    if finding.group_type == "share":
        rebalance = 0
    return USUAL_MS if session is None or rebalance is None else session + rebalance


def _refill(outage: Away, finding: Finding) -> None:
    group = finding.group or ""
    if group in outage.waiting and (finding.members_total or 0) >= max(outage.groups[group], 1):
        outage.waiting.remove(group)
