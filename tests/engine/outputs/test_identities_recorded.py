"""Of real recordings no name of a client leaves the job where names are hidden, and nothing else changes.

The names are those of the records themselves. Group and topics are told; so is what detection wrote.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.cli.verbs.records.decode import records
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.kind_table import NAMES_IN_DETAILS
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.decoders.json_form import record_json
from rebalance_monitor.engine.outputs.identities import Identities, Mode
from rebalance_monitor.engine.replay.replaying import replay_capture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.batch.batches import Batch

RECORDED = Path(__file__).parents[2] / "fixtures" / "scenarios"
NAMES = sorted(path.name for path in RECORDED.iterdir() if (path / "capture").is_dir())
OF_CLIENTS = {"memberId", "groupInstanceId", "instanceId", "clientId", "clientHost", "leader"}
TOLD = {"group", "groups", "topics", "unowned_topics"}


def leaves(
    tree: Any,  # noqa: ANN401 - JSON
    *,
    of: AbstractSet[str] | None = None,
    but: AbstractSet[str] = frozenset(),
) -> Iterator[str]:
    """The strings in a JSON tree: all but those under `but`, or only those under `of`."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if key in but:
            continue
        if isinstance(value, str):
            if of is None or key in of:
                yield value
        elif isinstance(value, (dict, list)):
            yield from leaves(value, of=of, but=but)


@cache
def real(name: str) -> frozenset[str]:
    """Every name of a client that the records hold."""
    batches = read_capture(RECORDED / name / "capture").batches()
    lines = (record_json(*record) for batch in batches for record in records(batch))
    return frozenset(name for line in lines for name in leaves(line, of=OF_CLIENTS) if name)


@cache
def told(name: str) -> tuple[list[Finding], list[dict[str, Any]]]:
    """Findings and summaries of a recording."""
    summaries: list[dict[str, Any]] = []

    def watch(_: int, batch: Batch, __: list[Finding]) -> None:
        summaries.extend(batch.groups.values())

    found = list(replay_capture(RECORDED / name / "capture", DetectionSettings(), watch=watch))
    return found, summaries


def named(name: str, trees: list[Any]) -> set[str]:
    """The real names that stand in any string of these, or are part of one."""
    texts = {text for tree in trees for text in leaves(tree, but=TOLD)}
    return {one for one in real(name) for text in texts if one in text}


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_record_is_in_what_is_published_and_all_else_is_as_it_was(name: str) -> None:
    findings, summaries = told(name)
    shown = [json.loads(to_json(finding)) for finding in findings]
    assert named(name, shown)
    for mode in ("hashed", "hidden"):
        who = Identities(mode, b"key")
        hidden = [json.loads(to_json(who.finding(finding))) for finding in findings]
        assert named(name, [*hidden, *map(who.summary, summaries)]) == set()
        for before, after in zip(shown, hidden, strict=True):
            assert list(sentences(after)) == list(sentences(before))
            assert numbers(after) == numbers(before)
            kept = before["details"].keys() - NAMES_IN_DETAILS - {"waits_for"}
            assert {key: after["details"][key] for key in kept} == {
                key: before["details"][key] for key in kept
            }


def sentences(finding: dict[str, Any]) -> Iterator[str]:
    return (cause["why"] for cause in finding["causes"])


def numbers(finding: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in finding.items() if isinstance(value, int | float)}


@pytest.mark.parametrize("mode", ["hashed", "hidden"])
def test_that_is_waited_for_is_hidden_name_by_name(mode: Mode) -> None:
    found = replace(told("python-4.1.1")[0][0], details={"waits_for": "alice, bob, alice", "sightings": 7})
    who = Identities(mode, b"key")
    alice, bob = who.name("alice"), who.name("bob")
    expected = {"waits_for": "…" if mode == "hidden" else f"{alice}, {bob}", "sightings": 7}
    assert who.finding(found).details == expected
