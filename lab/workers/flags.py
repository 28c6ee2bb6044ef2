"""The flags that every worker takes, whatever its client library; the Java worker takes the same."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Flags:
    """One worker's settings. Times in ms, `processing_s` and `lifetime_s` in seconds (0 = for ever).

    `topics` is comma-separated; one that begins with `^` is a pattern. `commit` is auto, manual or none;
    `delay_ms` is for how long Kafka Connect waits for a lost worker. `mode` is subscribe or, for confluent,
    assign (a simple consumer: it commits without being a member); the raw worker has modes of its own, and
    may be a member of many `groups`.
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

    def arguments(self) -> list[str]:
        """Give the command line that `parse` reads back; what is empty is left out."""
        pairs = ((f"--{one.name.replace('_', '-')}", getattr(self, one.name)) for one in fields(self))
        return [text for flag, value in pairs if value != "" for text in (flag, str(value))]

    @property
    def topic_list(self) -> list[str]:
        """The topics as a list."""
        return self.topics.split(",")


def parse(arguments: Sequence[str] | None = None) -> Flags:
    """Read a worker's command line; exits with a usage message on anything unknown."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = {"int": int, "float": float, "str": str}
    for one in fields(Flags):
        name = f"--{one.name.replace('_', '-')}"
        required = one.name in {"bootstrap", "group", "topics"}
        default = None if required else one.default
        parser.add_argument(name, type=kinds[str(one.type)], required=required, default=default)
    return Flags(**vars(parser.parse_args(arguments)))
