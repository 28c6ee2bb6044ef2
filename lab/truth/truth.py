"""The truth: what the broker's coordinator log says happened, as events (JSON lines).

Reads the wording of the Scala coordinator (2.8-3.9) and of the Java one (4.x), classic and KIP-848. What no
line says (a poll breach of a client that sends no reason) the members' own journals add. Unknown lines are
left out; a line that names no group is no event.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TRUTH = "truth.jsonl"
_LINE = re.compile(r"^(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z \w+ (?P<logger>\S+) (?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class Truth:
    """One event. `at` in ms; `generation` is the old generation of a start, the new one of an end, or -1.

    `what`: started, completed, synced, empty, expired, pending_expired, left, poll_left, join_deadline,
    sync_deadline, joined, static_replaced, static_swapped (the same outside Stable), static_left, fenced,
    epoch (bumped), computed (its assignment), loaded, unloaded, elected (a shard
    came to a broker, in this leader epoch), and poll_breach, which only a journal has.
    `members` are the ids it names, the
    old before the new one; `reason` is the log's wording, the type of a share or streams group, or for how
    many ms after a poll_breach it may show.
    """

    at: int
    group: str
    what: str
    generation: int = -1
    members: tuple[str, ...] = ()
    reason: str = ""
    source: str = "broker"


# Group names may hold spaces: only the fixed words anchor.
_G, _M, _N = r"(?P<g>.+?)", r"(?P<m>\S+)", r"(?P<n>\d+)"
_SHARD = r"(?: \(__consumer_offsets-\d+\))?"
_OF_EPOCHS = rf"\[GroupId {_G}\] "
_OF_STREAMS = rf"\[GroupId {_G}\]\[MemberId {_M}\] "
_EITHER = r"(?:Static m|M)ember "
_LEAVES = r"through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<r>.*))?$"
_STATIC = r"Static member with groupInstanceId=(?P<r>\S+) and unknown member id joins group "
_UNKNOWN = r"Dynamic [Mm]ember with unknown member id joins group "
_INSTANCE = r"with instance id (?P<r>\S+) "
_SWAP = r".*new member (?P<new>\S+) to replace the existing member (?P<m>\S+?)\.?$"
_MADE = rf"Created a new member id {_M} for this member and add"
_SOME = r"Some\((?P<r>.+?)\)"
_SWAPPED = rf"rejoins, assigning new member id (?P<new>\S+), while old member id {_M} will be removed"
_WHY = r"\(reason: (?P<r>.*?)\)\.?$"
# What happened -> the line that says so, first match wins: g group, m members, n generation, r reason.
PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(text))
    for what, text in (
        (
            "started",
            rf"Preparing to rebalance group {_G} in state \w+ with old generation {_N}{_SHARD} {_WHY}",
        ),
        ("completed", rf"Stabilized group {_G} generation {_N}{_SHARD} with \d+ members\.?$"),
        ("synced", rf"Assignment received from leader(?: {_M})? for group {_G} for generation {_N}\."),
        ("empty", rf"Group {_G} with generation {_N} is now empty{_SHARD}\.?$"),
        ("expired", rf"(?<!Pending )[Mm]ember {_M} in group {_G} has failed, removing it from the group\.?$"),
        ("pending_expired", rf"Pending member {_M} in group {_G} has been removed after session timeout"),
        ("left", rf"\[Group {_G}\] Member {_M} has left group {_LEAVES}"),
        # Before 3.0.
        ("left", rf"Member\[group\.instance\.id .*, member\.id {_M}\] in group {_G} has left, removing"),
        ("left", rf"Member MemberMetadata\(memberId=(?P<m>[^,]+), .*\) has left group {_G} {_LEAVES}"),
        ("join_deadline", rf"Group {_G} removed dynamic members who haven't joined: (?P<m>.*)$"),
        (
            "static_replaced",
            rf"{_STATIC}{_G} in Stable state\. Replacing previously mapped member (?P<m>\S+?) with this",
        ),
        (
            "static_swapped",
            rf"{_STATIC}{_G} in \w+ state\. Replacing previously mapped member (?P<m>\S+?) with this",
        ),
        ("joined", rf"{_STATIC}{_G} in \w+ state\. Created a new member id {_M} for this member and add"),
        ("joined", rf"(?:Pending d|D)ynamic member with id {_M} joins group {_G} in \w+ state\. Adding"),
        ("asked", rf"{_UNKNOWN}{_G} in \w+ state\. Created a new member id {_M} and requesting the"),
        # The Scala coordinator logs the join itself at DEBUG only; its request to rejoin must do.
        ("joined", rf"{_UNKNOWN}{_G} in \w+ state\. Created a new member id {_M} and (?:add|request the)"),
        # A client of JoinGroup before version 4 is not asked to join again.
        ("joined", rf"{_UNKNOWN}{_G} in state \w+\. Created a new member id {_M} and added"),
        # Before 3.0: static members that join and that come back.
        ("joined", rf"Static Member with unknown member id joins group {_G} in \w+ state\. {_MADE}"),
        (
            "static_replaced",
            rf"Static member {_SOME} of group {_G} with unknown member id {_SWAPPED}",
        ),
        # Streams groups name the member beside the group.
        ("joined", rf"{_OF_STREAMS}Member joins the (?P<t>streams) group"),
        ("left", rf"{_OF_STREAMS}Member \S+ left the (?P<t>streams) group"),
        ("epoch", rf"{_OF_STREAMS}Bumped streams group epoch to {_N}"),
        ("fenced", rf"{_OF_EPOCHS}(?:Streams m|M)ember {_M} fenced from the group because (?P<r>.*?)\.*$"),
        (
            "static_replaced",
            rf"{_OF_EPOCHS}Static member {_INSTANCE}re-joins {_SWAP}",
        ),
        ("static_left", rf"{_OF_EPOCHS}Static member {_M} {_INSTANCE}temporarily left the consumer group"),
        ("left", rf"{_OF_EPOCHS}{_EITHER}{_M} (?:{_INSTANCE})?left the (?:consumer|(?P<t>share)) group"),
        ("joined", rf"{_OF_EPOCHS}{_EITHER}{_M} (?:{_INSTANCE})?joins the (?:consumer|(?P<t>share)) group"),
        ("epoch", rf"{_OF_EPOCHS}Bumped group epoch to {_N}"),
        ("computed", rf"{_OF_EPOCHS}Computed a new target assignment for epoch {_N}"),
        # A shard is named as its partition, where a group would be.
        ("elected", rf"Scheduling loading of metadata from (?P<g>__consumer_offsets-\d+) with epoch {_N}"),
        ("elected", rf"Elected as the group coordinator for partition (?P<g>\d+) in epoch {_N}"),
        ("loaded", rf"Loaded classic group {_G} with \d+ members"),
        ("loaded", rf"Loading group metadata for {_G} with generation {_N}"),
        ("unloaded", rf"\[GroupId={_G}\] Unloading group metadata for generation {_N}"),
        ("unloaded", rf"Unloading group metadata for {_G} with generation {_N}"),
    )
)
_EPOCH_CAUSES = {
    "the member session expired": "expired",
    "the classic member failed to join within the rebalance timeout": "join_deadline",
    "the member failed to sync within timeout": "sync_deadline",
}
_SYNC = re.compile(r"Removing (?P<m>.+?) on pending sync request expiration")
_GOING = frozenset({"left", "poll_left", "expired", "join_deadline", "sync_deadline"})
_NEW = re.compile(rf"Adding new member {_M} with group instance id")
_POLL = "consumer poll timeout has expired"


def parse_line(line: str) -> Truth | None:
    """Give the event of one line of a coordinator log; None if it is none."""
    found = _LINE.match(line)
    if found is None:
        return None
    at = int(datetime.fromisoformat(found["at"]).replace(tzinfo=UTC).timestamp() * 1000 + 0.5)
    for what, pattern in PATTERNS:
        if match := pattern.search(found["text"]):
            return _event(at, what, match)
    return None


def _event(at: int, what: str, match: re.Match[str]) -> Truth:
    named = {"m": "", "n": "", "r": "", "t": "", **match.groupdict(default="")}
    text = f"{re.sub(r'^(?:Hash)?Set', '', named['m'])} {named.get('new', '')}"
    members = tuple(re.findall(r"[^\s,()\[\]{}]+", text))
    return Truth(
        at=at,
        group=named["g"],
        what=_refined(what, named["r"]),
        generation=int(named["n"] or -1),
        members=members,
        reason=named["r"] or named["t"],
    )


def _refined(what: str, reason: str) -> str:
    if what == "fenced":
        late = reason.startswith("it failed to transition")
        return _EPOCH_CAUSES.get(reason, "join_deadline" if late else "fenced")
    return "poll_left" if what == "left" and _POLL in reason else what


def parse_log(lines: Iterable[str]) -> Iterator[Truth]:
    """Give the events of one broker's coordinator log, in its order.

    After a broker has unloaded a group, its timers for that group still fire, and are logged. They remove no
    member.
    """
    known: set[str] = set()
    unloaded: set[str] = set()
    for line in lines:
        event = parse_line(line.rstrip("\n"))
        if event is None or (event.what in _GOING and event.group in unloaded):
            continue
        if event.what == "unloaded":
            unloaded.add(event.group)
        else:
            unloaded.discard(event.group)
        yield event
        if event.what == "joined":
            known |= set(event.members)
        # Before 3.0 the log shows a join only by what it starts.
        if event.what == "started" and (new := _NEW.match(event.reason)) and new["m"] not in known:
            known.add(new["m"])
            yield Truth(event.at, event.group, "joined", -1, (new["m"],))
        if event.what == "started" and (sync := _SYNC.search(event.reason)):
            members = tuple(re.findall(r"[^\s,()\[\]{}]+", sync["m"]))
            yield Truth(event.at, event.group, "sync_deadline", event.generation, members, event.reason)


def parse_journal(group: str, lines: Iterable[str]) -> Iterator[Truth]:
    """Give what a member's journal adds: when it processed for longer than its poll interval."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            # A killed worker may leave half a line.
            continue
        if event.get("event") != "processing" or not event.get("member"):
            continue
        # Clients without a poll interval have no limit in their journal.
        limit = int(event.get("limit_ms", 0))
        if limit and float(event["seconds"]) * 1000 > limit:
            at, name = int(event.get("polled", event["at"])) + limit, event.get("group", group)
            grace = str(event.get("grace_ms", ""))
            yield Truth(at, name, "poll_breach", -1, (event["member"],), grace, source="journal")


def parse_joins(group: str, lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Give when (ms) a member of which group was first given an assignment, as its journal says."""
    assigned: set[str] = set()
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        member = event.get("member")
        if event.get("event") == "assigned" and member and member not in assigned:
            assigned.add(member)
            yield event["at"], event.get("group", group), member


def _add_unlogged_joins(events: list[Truth], joins: Iterable[tuple[int, str, str]]) -> list[Truth]:
    """Add the members that joined without a line in the log.

    The Java coordinator of 3.9 only logs that it asked a member to join again, brokers before 3.0 nothing of
    which member joins a rebalance under way; then the members' journals must do.
    """
    known = {one for event in events if event.what == "joined" for one in event.members}
    gone = {one for event in events if event.what in _GOING for one in event.members}
    asked = {one: event for event in events if event.what == "asked" for one in event.members}
    found = [
        Truth(event.at, event.group, "joined", -1, (one,))
        for one, event in asked.items()
        if one not in known and (one in gone or any(one == member for _, _, member in joins))
    ]
    known |= {one for event in found for one in event.members}
    swapped = [(e.group, e.reason) for e in events if e.what.startswith("static_")]
    for at, group, member in joins:
        ends = [one.at for one in events if one.group == group and one.what == "completed" and one.at <= at]
        static = any(group == where and member.startswith(f"{instance}-") for where, instance in swapped)
        if ends and member not in known and not static:
            found.append(Truth(ends[-1] - 1, group, "joined", -1, (member,), source="journal"))
    return found


def write_truth(folder: Path) -> list[Truth]:
    """Read the logs and journals of a suite folder into its truth.jsonl, in order of time."""
    events: list[Truth] = []
    for log in sorted(folder.glob("coordinator-*.log")):
        with log.open(encoding="utf-8", errors="replace") as lines:
            events += parse_log(lines)
    joins: list[tuple[int, str, str]] = []
    for journal in sorted(folder.glob("runs/*/*.jsonl")):
        if journal.name != "steps.jsonl":
            text = journal.read_text(encoding="utf-8", errors="replace").splitlines()
            events += parse_journal(journal.parent.name, text)
            joins += parse_joins(journal.parent.name, text)
    events += _add_unlogged_joins(events, joins)
    events = [event for event in events if event.what != "asked"]
    events.sort(key=lambda event: event.at)
    with (folder / TRUTH).open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(event), separators=(",", ":")) + "\n" for event in events)
    return events


def read_truth(folder: Path) -> list[Truth]:
    """Read a suite folder's truth.jsonl."""
    with (folder / TRUTH).open(encoding="utf-8") as lines:
        bodies = [json.loads(line) for line in lines]
    return [Truth(**{**body, "members": tuple(body["members"])}) for body in bodies]
