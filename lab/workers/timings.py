"""Timings as production has them: what each group of a herd is run with, drawn by seed.

The lab's own time-outs (6 s, 8 s, 1 s) make runs short; these make them real. Every family gets each session
timeout and each way of committing in turn; heartbeat, commit and poll intervals are drawn beside them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS_S = (10, 30, 45, 60)
HEARTBEATS_S = (3, 5, 10, 15, 20)
COMMITS_S = (1, 5, 10, 15, 30, 60)
POLLS_S = (30, 60, 90, 120, 300)
WAYS = ("auto", "manual", "timer", "record")
# A client that commits less often than its session lasts is never found silent in time: some are, most not.
SELDOM = 0.15


@dataclass(frozen=True, slots=True)
class Timing:
    """The settings of one group's members, in ms, and how they commit (`Flags.commit`)."""

    session_ms: int
    heartbeat_ms: int
    commit_ms: int
    poll_ms: int
    way: str

    def __str__(self) -> str:
        return f"{self.session_ms}/{self.heartbeat_ms}/{self.commit_ms}/{self.poll_ms}/{self.way}"

    @classmethod
    def read(cls, text: str) -> Timing:
        """Read what `str` gives."""
        session, heartbeat, commit, poll, way = text.split("/")
        return cls(int(session), int(heartbeat), int(commit), int(poll), way)

    @property
    def processing_s(self) -> float:
        """How long a batch takes: a client that commits after each poll commits as often as that."""
        return min(self.commit_ms, self.poll_ms / 3) / 1000 if self.way == "manual" else 0.0


def drawn(count: int, salt: str) -> Iterator[Timing]:
    """Draw `count` timings; the same for the same salt."""
    chance = random.Random(f"timings/{salt}")  # noqa: S311 - variation, not secrecy
    shift = chance.randrange(len(WAYS))
    for number in range(count):
        session = SESSIONS_S[number % len(SESSIONS_S)]
        way = WAYS[(number + number // len(SESSIONS_S) + shift) % len(WAYS)]
        yield _beside(session, way, chance)


def _beside(session: int, way: str, chance: random.Random) -> Timing:
    heartbeat = chance.choice([one for one in HEARTBEATS_S if 3 * one <= session])
    seldom = chance.random() < SELDOM
    commit = chance.choice([one for one in COMMITS_S if seldom or one < session])
    # librdkafka refuses a poll interval below its session timeout.
    poll = chance.choice([one for one in POLLS_S if one >= session])
    return Timing(session * 1000, heartbeat * 1000, commit * 1000, poll * 1000, way)


def classes(timing: Timing) -> dict[str, str]:
    """Name the margins that a group with this timing counts in."""
    often = timing.commit_ms <= timing.session_ms
    return {
        "session timeout": f"{timing.session_ms // 1000} s",
        "poll interval": f"{timing.poll_ms // 1000} s",
        "the two": "equal" if timing.poll_ms == timing.session_ms else "apart",
        "heartbeat": f"{timing.heartbeat_ms // 1000} s",
        "commits": timing.way,
        "commits come": "within the session" if often else "more seldom",
    }
