"""Hides the identity of clients in all that leaves the job: hashed under the job's own key, or emptied.

Client ids, hosts, member and instance ids are names of machines and often of people. Detection compares the
real ones, so checkpoints and ledger hold them. Files, tables, page, metrics and messages get the hidden ones,
and so do the verbs that read a capture or a broker (`replay`, `explain`, `alerts preview`, `--capture`).
Names are in fields of their own (for `details` in `NAMES_IN_DETAILS`); sentences hold none.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.coordinator.findings.finding import CauseEntry, MemberEntry
from rebalance_monitor.coordinator.findings.kind_table import NAMES_IN_DETAILS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.tables.quarantine_table import Unreadable
    from rebalance_monitor.engine.batch.batches import Batch

Entry = TypeVar("Entry", CauseEntry, MemberEntry)
Mode = Literal["shown", "hashed", "hidden"]
IDENTIFYING = ("member_id", "client_id", "host", "instance_id")
LEADERS = ("leader", "previous_leader")
WAITED_FOR, SEVERAL, NOBODY = frozenset({"waits_for", "waits_for_one_of"}), ", ", "…"
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
        leaders: dict[str, Any] = {name: self._maybe(getattr(found, name)) for name in LEADERS}
        return replace(
            found,
            causes=tuple(map(self._entry, found.causes)),
            members=tuple(map(self._entry, found.members)),
            details={name: self._detail(name, value) for name, value in found.details.items()},
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

    def explanation(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what `explain` says without real identities."""
        if self._mode == "shown":
            return found
        events = [
            {
                **one,
                "held_by": one["held_by"] and self._detail("waits_for", one["held_by"]),
                "causes": list(map(self._member, one["causes"])),
            }
            for one in found["rebalances"]
        ]
        return {
            **found,
            "leader": self._maybe(found["leader"]),
            "members": [self._member(member) for member in found["members"]],
            "rebalances": events,
            "advice": list(map(self._member, found["advice"])),
        }

    def _maybe(self, real: str | None) -> str | None:
        return None if real is None else self.name(real)

    def _entry(self, entry: Entry) -> Entry:
        names: dict[str, Any] = {name: self._maybe(getattr(entry, name)) for name in IDENTIFYING}
        return replace(entry, **names)

    def _member(self, member: Mapping[str, Any]) -> dict[str, Any]:
        return {**member, **{name: self._maybe(member[name]) for name in IDENTIFYING if name in member}}

    def _detail(self, name: str, value: str | float) -> str | float:
        if name in WAITED_FOR:
            names = (self.name(one) or NOBODY for one in str(value).split(SEVERAL))
            return SEVERAL.join(dict.fromkeys(names))
        return (self.name(str(value)) or NOBODY) if name in NAMES_IN_DETAILS and value else value


SHOWN = Identities("shown")
"""Hides nothing."""


def identities_of(mode: Mode, key_file: Place) -> Identities:
    """Return the identities of a job; its key is made at the first use. Raises OSError."""
    if mode != "hashed":
        return Identities(mode)
    if not key_file.exists():
        make_folder(key_file.parent)
        replace_file(key_file, secrets.token_bytes(KEY_BYTES), mode=0o600)
    return Identities(mode, key_file.read_bytes())


def known_identities(key_file: Place) -> Identities:
    """Return the hashes that a job uses, for readers: nothing is written.

    If no job has run, hashes are of a temporary key: equal names are equal in one output only.
    Raises OSError.
    """
    return Identities(
        "hashed", key_file.read_bytes() if key_file.exists() else secrets.token_bytes(KEY_BYTES)
    )


def _bare(record: Unreadable) -> Unreadable:
    return replace(record, key=None, value=None)
