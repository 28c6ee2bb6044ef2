"""Names of a bounded length: a client chooses the names in a record, each up to 32 KB long.

State holds names as they are, because records are matched by them. Outputs of a coordinator and probe samples
hold short names, cut by one rule. Ledger, tables, metrics, alerts and page match by the short names, so
nothing in them grows with a name.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import MEASURED, from_dict, to_dict

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry

MAX_BYTES = 500
"""UTF-8 bytes of a name: longer than any that means something to people."""

MAX_SENTENCE_BYTES = 2_000
"""UTF-8 bytes of a sentence, or of a detail, which may list names."""

DIGEST = 12
_UTF8_BYTES = 4


def short(text: str, limit: int = MAX_BYTES) -> str:
    """Return the text, cut to `limit` bytes where it is long; a digest keeps apart what was different."""
    if _fits(text, limit):
        return text
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) <= limit:
        return text
    head = encoded[: limit - DIGEST - len("…".encode())].decode(errors="ignore")
    return f"{head}…{sha256(encoded).hexdigest()[:DIGEST]}"


def bounded(finding: Finding) -> Finding:
    """Return the finding with its long texts cut."""
    if _all_fit(_names(finding), MAX_BYTES) and _all_fit(_sentences(finding), MAX_SENTENCE_BYTES):
        return finding
    return from_dict(_cut(to_dict(finding)))


def _fits(text: str, limit: int = MAX_BYTES) -> bool:
    """Whether the text is short however many bytes its characters take; one that does not may be, too."""
    return len(text) * _UTF8_BYTES <= limit or (len(text) <= limit and text.isascii())


def _all_fit(texts: list[str], limit: int) -> bool:
    # Without a call for each: hardly any is long.
    longest = max(map(len, texts), default=0)
    return longest * _UTF8_BYTES <= limit or all(_fits(text, limit) for text in texts)


def _names(finding: Finding) -> list[str]:
    """Return every name of a finding that a record, a client or an administrator chose."""
    names = [finding.group, finding.protocol_type, finding.protocol, finding.state, finding.leader]
    names += (finding.previous_leader, *finding.groups, *finding.topics)
    entries: tuple[CauseEntry | MemberEntry, ...] = (*finding.causes, *finding.members)
    for entry in entries:
        names += (entry.member_id, entry.client_id, entry.host, entry.instance_id)
    return list(filter(None, names))


def _sentences(finding: Finding) -> list[str]:
    said = [value for name, value in finding.details.items() if isinstance(value, str) and name != MEASURED]
    return [*said, *(cause.why for cause in finding.causes)]


def _cut(content: Any, limit: int = MAX_BYTES) -> Any:  # noqa: ANN401 - JSON
    if isinstance(content, str):
        return short(content, limit)
    if isinstance(content, dict):
        return {
            name: value if name == MEASURED else _cut(value, _LIMITS.get(name, limit))
            for name, value in content.items()
        }
    return [_cut(value) for value in content] if isinstance(content, list | tuple) else content


_LIMITS = {"details": MAX_SENTENCE_BYTES, "why": MAX_SENTENCE_BYTES}
