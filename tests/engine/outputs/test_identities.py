"""Identities that are to be hidden appear nowhere in what leaves the job, and stay the same under one key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.outputs import FindingOut, GroupOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.engine.batch.batches import Batch
from rebalance_monitor.engine.outputs.identities import DIGITS, Identities, Mode, identities_of
from tests.coordinator.support.timeline import Client, Topic

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

REAL = ("alice-laptop-1", "alice-laptop", "/10.9.8.7", "stateful-0", "bob-host-1", "bob-host", "/10.9.8.6")


def outputs() -> tuple[list[Finding], dict[str, dict[str, object]]]:
    topic = Topic(group="orders", shard=0)
    alice = Client("alice-laptop-1", (0, 1), "alice-laptop", "/10.9.8.7", "stateful-0")
    bob = Client("bob-host-1", (2, 3), "bob-host", "/10.9.8.6")
    topic.generation(0, 1, [alice, bob])
    for at in range(1_000, 9_000, 1_000):
        topic.commit(at, {0: 1, 1: 1} | ({2: 1, 3: 1} if at < 3_000 else {}))
    topic.generation(10_000, 2, [replace(alice, partitions=(0, 1, 2, 3))])
    coordinator = ShardCoordinator(new_shard_state(0, 0, None), DetectionSettings(), "c")
    found = [out for row in topic.rows for out in coordinator.on_row(row)]
    found += coordinator.on_clock(topic.rows[-1].record_ts + 60_000)
    return (
        [out.finding for out in found if isinstance(out, FindingOut)],
        {out.group: out.summary for out in found if isinstance(out, GroupOut)},
    )


@pytest.mark.parametrize("mode", ["hashed", "hidden"])
def test_no_identity_leaves_the_job(mode: Mode) -> None:
    findings, groups = outputs()
    assert any(name in to_json(finding) for finding in findings for name in REAL)
    who = Identities(mode, b"key")
    told = [to_json(who.finding(finding)) for finding in findings]
    summaries = str(who.batch(Batch(findings=findings, groups=groups)))
    assert not [name for name in REAL for text in (*told, summaries) if name in text]
    assert [who.finding(finding).id for finding in findings] == [finding.id for finding in findings]


def test_shown_changes_nothing() -> None:
    findings, groups = outputs()
    batch = Batch(findings=findings, groups=groups)
    assert Identities("shown").batch(batch) is batch
    assert [Identities("shown").finding(finding) for finding in findings] == findings


@given(st.text(min_size=1), st.text(min_size=1), st.binary(min_size=1), st.binary(min_size=1))
def test_a_hash_is_the_same_for_one_name_under_one_key_only(one: str, other: str, a: bytes, b: bytes) -> None:
    name = Identities("hashed", a).name
    assert len(name(one)) == DIGITS
    assert (name(one) == name(other)) == (one == other)
    padded = [key.ljust(64, b"\0") if len(key) <= 64 else key for key in (a, b)]
    assert padded[0] == padded[1] or Identities("hashed", b).name(one) != name(one)


def test_the_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "identity.key"
    first = identities_of("hashed", path).name("x")
    assert path.stat().st_mode & 0o777 == 0o600
    assert identities_of("hashed", path).name("x") == first
    identities_of("hidden", tmp_path / "none")
    assert not (tmp_path / "none").exists()
