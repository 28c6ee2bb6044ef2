"""Every field whose value may say "not known" is listed in docs/measurements/unknown.md."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace
from rebalance_monitor.coordinator.probe.broker_outages import Away
from rebalance_monitor.coordinator.probe.observed_group import Watched
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.state import group_state
from rebalance_monitor.coordinator.state.shard_state import ShardState

PAGE = Path(__file__).parents[3] / "docs" / "measurements" / "unknown.md"
UNKNOWN = (-1, "", None, (), (-1, -1))
STRUCTS = [
    one
    for one in vars(group_state).values()
    if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == group_state.__name__
]
HOLDERS: list[type] = [*STRUCTS, ShardState, Trace, Departed, Evidence, Watched, Away, ProbeSample]


def fields(holder: type) -> Iterator[str]:
    """Yield the fields that begin as unknown: -1, "", none, or an empty collection."""
    if dataclasses.is_dataclass(holder):
        for one in dataclasses.fields(holder):
            if one.default_factory in {list, dict} or one.default in UNKNOWN:
                yield one.name
        return
    for known in msgspec.structs.fields(holder):
        if known.default_factory in {list, dict} or known.default in UNKNOWN:
            yield known.name


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda one: one.__name__)
def test_every_field_that_may_be_unknown_is_listed_with_what_is_done_then(holder: type) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {holder.__name__}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    listed = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", found[1] if found else "", re.MULTILINE)))
    )
    assert set(fields(holder)) <= listed
    known = dataclasses.fields(holder) if dataclasses.is_dataclass(holder) else msgspec.structs.fields(holder)
    assert listed - {"fields"} <= {one.name for one in known}
