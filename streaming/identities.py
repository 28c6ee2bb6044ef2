"""Hides who the clients are in all that leaves the job: hashed under a key of the job's own, or emptied.

Client ids, hosts, member and instance ids are names of machines and often of people. Detection compares the
real ones, so checkpoints and ledger hold them; files, tables, page, metrics and messages get what this gives,
and so do the verbs that look at a capture or a broker (`replay`, `explain`, `alerts preview`, `--capture`).
Sentences of findings name members too, so every name of the finding is replaced in them.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rebalance_monitor.checkpoints.files import replace_file
from rebalance_monitor.coordinator.findings import CauseEntry, MemberEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rebalance_monitor.checkpoints.places import Place
    from rebalance_monitor.coordinator.findings import Details, Finding
    from rebalance_monitor.dashboard.quarantine_table import Unreadable
    from rebalance_monitor.streaming.batches import Batch

Entry = TypeVar("Entry", CauseEntry, MemberEntry)
Mode = Literal["shown", "hashed", "hidden"]
IDENTIFYING = ("member_id", "client_id", "host", "instance_id")
LEADERS = ("leader", "previous_leader")
KEY_BYTES = 32
DIGITS = 12


class Identities:
    """Replaces identities; `key` is needed for `hashed` only."""

    def __init__(self, mode: Mode, key: bytes = b"") -> None:
        self._mode = mode
        self._key = key

    def name(self, real: str) -> str:
        """Return what stands for `real`; nothing stands for nothing."""
        if self._mode == "shown" or not real:
            return real
        if self._mode == "hidden":
            return ""
        return hmac.new(self._key, real.encode(errors="surrogatepass"), sha256).hexdigest()[:DIGITS]

    def finding(self, found: Finding) -> Finding:
        """Return the finding without real identities."""
        if self._mode == "shown":
            return found
        text = self._text(_names(found))
        leaders: dict[str, Any] = {name: self._maybe(getattr(found, name)) for name in LEADERS}
        return replace(
            found,
            causes=tuple(replace(self._entry(cause), why=text(cause.why)) for cause in found.causes),
            members=tuple(self._entry(member) for member in found.members),
            details=_told(found.details, text),
            **leaders,
        )

    def batch(self, batch: Batch) -> Batch:
        """Return the batch as sinks may have it: summaries renamed, raw bytes of records left out."""
        if self._mode == "shown":
            return batch
        groups = {group: self.summary(summary) for group, summary in batch.groups.items()}
        return replace(batch, findings=[], groups=groups, unreadable=[_bare(one) for one in batch.unreadable])

    def summary(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Return a group's summary without real identities."""
        if self._mode == "shown":
            return dict(summary)
        members = [self._member(member) for member in summary.get("member_list", ())]
        leader = self._maybe(summary.get("leader"))
        return {**summary, "leader": leader, "member_list": members}

    def explanation(self, found: dict[str, Any], findings: Iterable[Finding]) -> dict[str, Any]:
        """Return what `explain` says without real identities; `findings`: all that its sentences speak of."""
        if self._mode == "shown":
            return found
        names = {member[name] for member in found["members"] for name in IDENTIFYING}
        text = self._text(names.union(*map(_names, findings)))
        rebalances = [
            {**one, "causes": [{**self._member(cause), "why": text(cause["why"])} for cause in one["causes"]]}
            for one in found["rebalances"]
        ]
        return {
            **found,
            "leader": self._maybe(found["leader"]),
            "members": [self._member(member) for member in found["members"]],
            "rebalances": rebalances,
            "advice": [
                {**one, "advice": text(one["advice"]), "reason": text(one["reason"])}
                for one in found["advice"]
            ],
        }

    def _maybe(self, real: str | None) -> str | None:
        return None if real is None else self.name(real)

    def _entry(self, entry: Entry) -> Entry:
        names: dict[str, Any] = {name: self._maybe(getattr(entry, name)) for name in IDENTIFYING}
        return replace(entry, **names)

    def _member(self, member: dict[str, Any]) -> dict[str, Any]:
        return {**member, **{name: self._maybe(member.get(name)) for name in IDENTIFYING}}

    def _text(self, real: Iterable[str | None]) -> Callable[[str], str]:
        """Return a function that replaces these identities in a sentence, the longest first."""
        names = sorted((name for name in real if name), key=len, reverse=True)
        if not names:
            return lambda text: text
        pattern = re.compile("|".join(re.escape(name) for name in names))
        return lambda text: pattern.sub(lambda match: self.name(match[0]) or "…", text)


SHOWN = Identities("shown")
"""Hides nothing."""


def identities_of(mode: Mode, key_file: Place) -> Identities:
    """Return the identities of a job; its key is made at the first use. Raises OSError."""
    if mode != "hashed":
        return Identities(mode)
    if not key_file.exists():
        key_file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(key_file, secrets.token_bytes(KEY_BYTES), mode=0o600)
    return Identities(mode, key_file.read_bytes())


def known_identities(key_file: Place) -> Identities:
    """Return the hashes that a job gave, for one who only looks: nothing is written.

    Where no job has run, hashes are of a key that nobody keeps: equal names are equal in one output only.
    Raises OSError.
    """
    return Identities(
        "hashed", key_file.read_bytes() if key_file.exists() else secrets.token_bytes(KEY_BYTES)
    )


def _names(found: Finding) -> set[str | None]:
    """Return every identity in a finding."""
    entries = (*found.causes, *found.members)
    return {getattr(entry, name) for entry in entries for name in IDENTIFYING} | {
        found.leader,
        found.previous_leader,
    }


def _told(details: Details, text: Callable[[str], str]) -> Details:
    return {name: text(value) if isinstance(value, str) else value for name, value in details.items()}


def _bare(record: Unreadable) -> Unreadable:
    return replace(record, key=None, value=None)
