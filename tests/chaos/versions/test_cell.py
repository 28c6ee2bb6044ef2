"""One cell of the matrix: this Python with its Spark on one broker (tools/matrix.py runs it in each).

A recorded topic is written into the broker, record by record as it was: what the job tells of it must be what
the coordinator alone tells, and the same in every cell. Then a living group loses a member.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.decoders import Failure, decode_record
from rebalance_monitor.lab.cluster.broker import DEFAULT_VERSION, LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Record, Rig, inject, needs_spark, of_faults
from tests.streaming.support.undisturbed import record_driven
from tests.streaming.test_end_to_end import Members

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [*of_faults(1_200 + 4 * PATIENCE_S), needs_spark]
BROKER = os.environ.get("CELL_BROKER", DEFAULT_VERSION)
PACKAGES = [name for name in os.environ.get("CELL_PACKAGES", "").split(",") if name]
RECORDED = Path(__file__).parents[2] / "fixtures" / "scenarios" / "faults-4.1.1" / "capture"
PARTITIONS = 50
# Ids hold the cluster's: one and the same for every broker of the matrix.
CLUSTER = "cmViYWxhbmNlLW1vbml0bw"
GROUP = "cell"
# No record follows its storm: only the clock, which the comparison does without, tells that it is over.
ENDED_BY_CLOCK = {"storm-unwritten.raw"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LabBroker]:
    # Recorded records are old: compaction would take them from under the comparison.
    settings = {"log.cleaner.enable": "false"}
    with LabBroker(
        BROKER,
        tmp_path / "broker",
        offsets_partitions=PARTITIONS,
        settings=settings,
        cluster_id=CLUSTER,
    ) as found:
        yield found


def recorded() -> list[Record]:
    """The records of the recording, in its order."""
    columns = ["partition", "key", "value", "timestamp"]
    rows = pq.ParquetFile(RECORDED / "records.parquet").read(columns).to_pylist()
    return [
        Record(r["partition"], r["key"], r["value"], int(r["timestamp"].timestamp() * 1000)) for r in rows
    ]


def groups_of(records: list[Record]) -> set[str]:
    found = [decode_record(record.key, record.value) for record in records]
    return {d.key.group for d in found if not isinstance(d, Failure)}


def test_what_is_published_depends_on_no_version(broker: LabBroker, tmp_path: Path) -> None:
    rig = Rig(broker.bootstrap, tmp_path / "job", {"packages": PACKAGES})
    records = recorded()
    with ExitStack() as stack, rig.job:
        rig.job.wait_ready()
        inject(broker.bootstrap, records)
        rig.groups |= groups_of(records) - ENDED_BY_CLOCK
        rig.require_truth()
        digest = hashlib.sha256(repr(record_driven(rig.told(), rig.groups)).encode()).hexdigest()[:12]
        number = len(record_driven(rig.told(), rig.groups))
        assert number > 100
        members = Members(broker.bootstrap, GROUP, tmp_path / "workers", stack)
        members.start("stays")
        victim = members.start("dies")
        rig.await_told(lambda f: f.group == GROUP and f.kind == "rebalance" and f.members_total == 2)
        time.sleep(3)
        victim.send(signal.SIGKILL)
        found = rig.await_told(lambda f: f.group == GROUP and f.kind == "session_timeout")
        assert found.causes[0].client_id == "dies"
        rig.groups |= {GROUP}
        rig.require_truth()
        rig.job._process.terminate()
        assert wait_until(lambda: not rig.job.alive, PATIENCE_S)
        assert rig.job._process.returncode == 0
    if path := os.environ.get("CELL_DIGEST"):
        Path(path).write_text(f"{digest} ({number})")
