"""Names as long as the protocol allows, beside groups that are judged rightly: nothing grows with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest

pytest.importorskip("pyspark")

import httpx

from rebalance_monitor.coordinator.findings.names import short
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.broker import LabBroker
from tests.chaos.support.rig import Record, Rig, inject, of_faults
from tests.coordinator.support.timeline import Client, metadata, text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = of_faults(1_200)
PARTITIONS = 8
GROUPS, LONG = 500, 32_000
BESIDE = [f"beside-{number}" for number in range(4)]
MB = 1024 * 1024


def named(number: int) -> list[Record]:
    """Two generations of a group whose every name is long."""
    group = f"{number}-".ljust(LONG, "x")
    members = [Client(f"{letter * LONG}", (0,), letter * LONG, letter * LONG) for letter in "abc"]
    now = time.time_ns() // 1_000_000
    shard, key = coordinator_partition(group, PARTITIONS), b"\0\2" + text(group)
    made = [metadata(generation, members[:count], now) for generation, count in ((1, 2), (2, 3))]
    return [Record(shard, key, value) for value in made]


def test_names_of_32_kb_grow_neither_findings_nor_ledger_nor_metrics(tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=PARTITIONS) as broker:
        rig = Rig(broker.bootstrap, tmp_path)
        rig.pulse(BESIDE[0])
        with rig.job:
            rig.job.wait_ready()
            inject(broker.bootstrap, [record for number in range(GROUPS) for record in named(number)])
            rig.pulse(*BESIDE[1:])
            for group in BESIDE:
                rig.completed(group)
            last = short(f"{GROUPS - 1}-".ljust(LONG, "x"))
            rig.await_told(lambda finding: finding.group == last and finding.generation == 2)
            rig.require_truth()
            rig.job.require()
            page = rig.job.page() or ""
            assert len(httpx.get(urljoin(page, "metrics"), timeout=60).content) < 30 * MB
            for path in ("groups?limit=500", "findings?limit=500", f"group?group={last}"):
                assert len(httpx.get(urljoin(page, f"api/v1/{path}"), timeout=60).content) < 5 * MB
            storage = Storage(rig.job.storage)
            assert sum(file.stat().st_size for file in storage.ledger.rglob("*")) < 12 * MB
            assert max(map(len, storage.jsonl.read_text().splitlines())) < 40_000
