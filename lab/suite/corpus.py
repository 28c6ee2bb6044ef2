"""What `make fit` is made from: simulated and recorded departures, and a digest that tells when they change.

The corpus is simulations of fixed seeds and the checked-in recordings of real brokers. The digest has four
parts. A few of the simulations stand for all, with what the model says of them by the first values, so that
it is quick; recordings count by their files.

`python -m rebalance_monitor.lab.suite.corpus NAME-VERSION FOLDER` keeps the departures of a recording that is
too large to be checked in.
"""

from __future__ import annotations

import gzip
import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import Evidence
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.fitted import Fitted, Rejoining
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.lab.simulator.plans.setup import SHAKEN
from rebalance_monitor.lab.suite import rejoined
from rebalance_monitor.lab.suite.departures import LEAST_SHARE, Life, Seen, is_of, recorded, simulated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


START = Fitted()
"""The first values: the defaults of the type."""

SIMULATED = {
    "production": range(260),
    "fast": range(500_000, 500_080),
    "healthy": range(900_000, 900_300),
}
"""Profile -> seeds of simulations: groups with faults at either timings, and healthy ones that are closed."""

OUTAGES = range(700_000, 700_150)
"""Seeds of groups with faults amid an outage of the broker, of which only samples tell."""

RECORDINGS = Path(__file__).parents[2] / "tests" / "fixtures" / "scenarios"
VERSION = "version"
_SAMPLED = {"production": 9, "fast": 3, "healthy": 9}
_FEW_OUTAGES = 3
_LOOKS = 3
_DIGITS = 4
_SUFFIX = ".json.gz"
_DECODER = msgspec.json.Decoder(list[list[tuple[Evidence, tuple[Way | None, ...], Evidence | None]]])


KEPT = RECORDINGS.parent / "departures"
"""Departures of recordings at production timings, which are too large to be checked in whole."""


class Corpus(NamedTuple):
    """Groups with the truth of their departures. By records alone, either part weighs the same as a whole.

    `outages`: simulations too, of which only what samples complete counts.
    """

    simulated: list[Life]
    recorded: list[Life]
    outages: list[Life]


class Case(NamedTuple):
    """One rebalance with what its group had learned by then, and the true ways of its departed members.

    `completed`: its evidence is.
    """

    evidence: Evidence
    ways: tuple[Way | None, ...]
    completed: bool = False
    weight: float = 1.0


def corpus(without: str = "") -> Corpus:
    """Return the groups that the constants are fitted on; `without`: as `is_of`, or of a Kafka `version`."""
    kind, _, value = without.partition("=")
    real: list[Life] = []
    for path in (*sorted(RECORDINGS.iterdir()), *sorted(KEPT.iterdir())):
        if not (kind == VERSION and path.name.removesuffix(_SUFFIX).endswith(f"-{value}")):
            real += recorded(path, sampled=True) if path.is_dir() else read(path)
    parts = _made(SIMULATED), real, _shaken(OUTAGES)
    if kind in {"", VERSION}:
        return Corpus(*parts)
    return Corpus(*([life for life in lives if not is_of(life, kind, value)] for lives in parts))


def _made(seeds: Mapping[str, Iterable[int]]) -> list[Life]:
    return [life for profile, some in seeds.items() for life in simulated(some, profile)]


def _shaken(seeds: Iterable[int]) -> list[Life]:
    return simulated(seeds, SHAKEN, sampled=True)


def read(path: Path) -> list[Life]:
    """Read the departures that `kept` wrote."""
    found = _DECODER.decode(gzip.decompress(path.read_bytes()))
    return [[Seen(*seen) for seen in life] for life in found]


def kept(lives: Sequence[Life]) -> bytes:
    """Return the rebalances of groups of which a truth is known, as a file."""
    some = [life for life in lives if any(any_known(seen.ways) for seen in life)]
    return gzip.compress(msgspec.json.encode([list(map(_unlearned, life)) for life in some]), mtime=0)


def _unlearned(seen: Seen) -> Seen:
    """Return a rebalance without what its group had learned, which is by the constants in use."""
    return seen._replace(evidence=replace(seen.evidence, beats=(), ways=()))


def weighed(found: Corpus, by: Fitted) -> list[Case]:
    """Return the rebalances of which a truth is known, each with what its group had learned by `by`."""
    made, real, shaken = (settled(lives, by) for lives in found)
    here, there = (known(case for case in some if not case.completed) for some in (made, real))
    weight = here / max(there, 1)
    made += [case for case in shaken if case.completed]
    return made + [case._replace(weight=weight) for case in real]


def known(cases: Iterable[Case]) -> int:
    """Return how many departures have a known truth."""
    return sum(way is not None for case in cases for way in case.ways)


def settled(lives: Iterable[Life], by: Fitted) -> list[Case]:
    """Return the rebalances of which a truth is known, each with what its group had learned by `by`."""
    return [case for life in lives for case in _settled(life, by)]


def _settled(life: Life, by: Fitted) -> Iterator[Case]:
    beats: tuple[float, ...] = ()
    ways: tuple[float, ...] = ()
    last = max((place for place, seen in enumerate(life) if any_known(seen.ways)), default=-1)
    for seen in life[: last + 1]:
        evidence = replace(seen.evidence, beats=beats, ways=ways)
        if any_known(seen.ways):
            yield Case(evidence, seen.ways)
            if seen.completed is not None:
                yield Case(replace(seen.completed, beats=beats, ways=ways), seen.ways, completed=True)
        found = explain(evidence, by)
        beats, ways = found.beats, found.group_ways


def any_known(ways: Sequence[Way | None]) -> bool:
    """Whether the truth of any member is known."""
    return any(way is not None for way in ways)


def surprise(case: Case, by: Fitted) -> float:
    """Return the sum of -log(what the model gives the truth): the less, the better."""
    return -case.weight * sum(math.log(max(share, LEAST_SHARE)) for share in given(case, by))


def given(case: Case, by: Fitted) -> list[float]:
    """Return what the model gives each known truth."""
    each = zip(explain(case.evidence, by).ways, case.ways, strict=True)
    return [shares[true] for shares, true in each if true is not None]


def inputs(settings: object) -> dict[str, str]:
    """Return what a fit is made from, as digests; `settings`: those of the fit itself."""
    sampled = _made({profile: seeds[: _SAMPLED[profile]] for profile, seeds in SIMULATED.items()})
    sampled += _shaken(OUTAGES[:_FEW_OUTAGES])
    cases = settled(sampled, START)
    drawn = [msgspec.json.encode(list(map(_unlearned, life))) for life in sampled]
    drawn += [repr(look).encode() for look in rejoined.looks(rejoined.SEEDS[:_LOOKS])]
    said = (ways for case in cases for ways in explain(case.evidence, START).ways)
    answers = [[round(share, _DIGITS) for share in ways] for ways in said]
    first = START._asdict(), Rejoining()._asdict()
    fixed = *first, SIMULATED, OUTAGES, rejoined.SEEDS, settings
    return {
        "recordings": _digest(_files()),
        "simulations": _digest(drawn),
        "likelihoods": _digest([repr(answers).encode()]),
        "settings": _digest([repr(fixed).encode()]),
    }


def _files() -> Iterator[bytes]:
    for path in (*sorted(RECORDINGS.rglob("*")), *sorted(KEPT.iterdir())):
        if path.is_file():
            yield path.relative_to(RECORDINGS.parent).as_posix().encode()
            yield path.read_bytes()


def _digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:12]


@click.command()
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
def main(name: str, folder: Path) -> None:
    """Keep the departures of a recording as a part of the corpus."""
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}{_SUFFIX}").write_bytes(kept(recorded(folder, sampled=True)))


if __name__ == "__main__":
    main()
