"""The flags that every worker takes, whatever its client library; the Java worker takes the same."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.lab.workers.timings import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# After each poll, after each record, by a timer of the application's own.
BY_HAND = frozenset({"manual", "record", "timer"})
# Of a herd the first group's time-outs are this much of what the flags say, the last one's that much.
SPREAD = (0.85, 1.15)
# And its clients commit every so many commit intervals, in turn.
CADENCES = (0.5, 0.8, 1.0, 1.2)


@dataclass(frozen=True, slots=True)
class Flags:
    """One worker's settings. Times in ms, `processing_s` and `lifetime_s` in seconds (0 = for ever).

    `topics` is comma-separated; one that begins with `^` is a pattern. `commit` is auto (the client's own),
    manual (after each poll), record (after each record), timer (the application's, every `commit_ms`) or
    none. `delay_ms` is for how long Kafka Connect waits for a lost worker. `mode` is subscribe; assign for
    confluent (a simple consumer: it commits without being a member); deaf for the Go and Node clients (while
    they are busy they heartbeat and do not rejoin); apart for Kafka Connect (the worker has a config topic of
    its own); the raw worker has modes of its own. One with many `groups` has a client in each, named after
    the group with a number; one with many `clients` has so many in its group. `timings` of a herd, each as
    `session/heartbeat/commit/poll/way` (lab/workers/timings.py), go to its groups in turn. `fetch_ms` is for
    how long a broker may wait for records, 0 for the client's own default; `wait_ms` for how long a poll
    waits; `metadata_ms` is how often topics are asked for anew. Where `rest_s` is set, clients of Go and
    Python come and go: each lives for about `lifetime_s`, rests for about so long, and begins anew.
    """

    bootstrap: str
    group: str
    topics: str
    client_id: str = ""
    instance_id: str = ""
    protocol: str = "classic"
    assignor: str = "range"
    session_ms: int = 6_000
    poll_ms: int = 8_000
    heartbeat_ms: int = 1_000
    commit: str = "auto"
    commit_ms: int = 1_000
    processing_s: float = 0.0
    lifetime_s: float = 0.0
    mode: str = "subscribe"
    delay_ms: int = 8_000
    groups: int = 1
    clients: int = 1
    timings: str = ""
    fetch_ms: int = 0
    wait_ms: int = 200
    metadata_ms: int = 5_000
    rest_s: float = 0.0

    def arguments(self) -> list[str]:
        """Give the command line that `parse` reads back; what is empty is left out."""
        pairs = ((f"--{one.name.replace('_', '-')}", getattr(self, one.name)) for one in fields(self))
        return [text for flag, value in pairs if value != "" for text in (flag, str(value))]

    def spelled_out(self) -> list[str]:
        """Give the command line of a worker of a herd: `--each` says how its groups differ."""
        if self.groups == self.clients == 1 and not self.timings:
            return self.arguments()
        differing = (
            "group",
            "session_ms",
            "poll_ms",
            "heartbeat_ms",
            "commit_ms",
            "commit",
            "processing_s",
            *(("client_id",) if self.clients > 1 else ()),
        )
        each = (
            " ".join(f"{name.replace('_', '-')}={getattr(one, name)}" for name in differing)
            for one in self.each()
        )
        return [*self.arguments(), "--each", ";".join(each)]

    def each(self) -> Iterator[Flags]:
        """Give the flags of every client; those of a herd's groups differ in time-outs and commits.

        No poll interval comes nearer to a session timeout that is the broker's, and so the same for all.
        """
        if self.timings:
            yield from self._timed()
            return
        if self.groups == 1:
            yield from self._crowd()
            return
        for number, name in enumerate(group_names(self)):
            slower = SPREAD[0] + (SPREAD[1] - SPREAD[0]) * number / (self.groups - 1)
            yield replace(
                self,
                group=name,
                groups=1,
                session_ms=round(self.session_ms * slower),
                poll_ms=round(self.poll_ms * (max(slower, 1.0) if self.protocol == "consumer" else slower)),
                commit_ms=round(self.commit_ms * CADENCES[number % len(CADENCES)]),
            )

    def _crowd(self) -> Iterator[Flags]:
        if self.clients == 1:
            yield self
            return
        for number in range(self.clients):
            yield replace(self, clients=1, client_id=f"{self.client_id}-{number:03d}")

    def _timed(self) -> Iterator[Flags]:
        timings = [Timing.read(text) for text in self.timings.split(",")]
        for number, name in enumerate(group_names(self)):
            timing = timings[number % len(timings)]
            yield replace(
                self,
                group=name,
                groups=1,
                timings="",
                session_ms=timing.session_ms,
                heartbeat_ms=timing.heartbeat_ms,
                commit_ms=timing.commit_ms,
                poll_ms=timing.poll_ms,
                commit=timing.way,
                processing_s=timing.processing_s or self.processing_s,
            )

    @property
    def topic_list(self) -> list[str]:
        """The topics as a list."""
        return self.topics.split(",")


_KINDS: Mapping[str, Callable[[str], Any]] = {
    one.name: {"int": int, "float": float}.get(str(one.type), str) for one in fields(Flags)
}


def group_names(flags: Flags) -> Iterator[str]:
    """Give the group, or the names of a herd of groups."""
    if flags.groups == 1:
        yield flags.group
        return
    for number in range(flags.groups):
        yield f"{flags.group}.{number:03d}"


def herd_of(group: str) -> str:
    """Give what the names of a herd's groups begin with; a group that is no herd's is its own."""
    return re.sub(r"\.\d+$", "", group)


def typed(values: Mapping[str, str]) -> dict[str, Any]:
    """Give the values of flags, by name, with the types that `Flags` has."""
    return {key: _KINDS[key](value) for key, value in values.items()}


def parse(arguments: Sequence[str] | None = None) -> Flags:
    """Read a worker's command line; exits with a usage message on anything unknown."""
    parser = argparse.ArgumentParser(description=__doc__)
    for one in fields(Flags):
        name = f"--{one.name.replace('_', '-')}"
        required = one.name in {"bootstrap", "group", "topics"}
        default = None if required else one.default
        parser.add_argument(name, type=_KINDS[one.name], required=required, default=default)
    return Flags(**vars(parser.parse_args(arguments)))
