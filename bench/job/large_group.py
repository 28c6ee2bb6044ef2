"""Rebalances of one very large group against the running job, beside a real group that rebalances too.

`python -m bench.job.large_group --members 60000 --engine embedded`: a generation of so many members, one that
has lost half of them, one in which these are back, and an Empty. Printed: the job's batches meanwhile, how
long it took to publish all of them, the size of the largest finding, and the most that the job's processes
had in memory. Exit code 1 where a batch took longer than `--most`, or a finding is missing or wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.job.births import Watched, watch
from bench.measure.stages import STAGES
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import Record, Rig, inject
from tests.coordinator.support.timeline import Client, metadata
from tests.decoders.encode import group_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding

PARTITIONS, GROUP, BESIDE = 8, "large", ("begins", "beside", "ends")
ROOM = {"message.max.bytes": "50000000"}
"""A broker refuses records of more than a megabyte by default: such a group needs more."""


def client(number: int) -> Client:
    """Return a member with one partition, and an id as long as Java's clients have them."""
    member_id = f"consumer-large-{number}-00000000-0000-0000-0000-{number:012}"
    host = f"/10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return Client(member_id, (number,), f"client-{number}", host, session=45_000, rebalance=300_000)


def missing(found: Sequence[Finding], members: int) -> list[str]:
    """Say which findings of the large group, and of those beside it, are not there as they should be."""
    large = [one for one in found if one.group == GROUP]
    left = [one.details.get("left") for one in large if one.kind == "rebalance"]
    said = [] if left == [0, members // 2, 0] else [f"the rebalances of {GROUP} lost {left}"]
    if not any(one.kind == "group_empty" and one.members_affected == members for one in large):
        said.append(f"{GROUP} is not reported as empty")
    for group in BESIDE:
        kinds = [one.kind.value for one in found if one.group == group]
        said += [f"{group}: {kinds}"] * (kinds != ["rebalance", "group_empty"])
    return said


def main(arguments: list[str]) -> int:
    """Run the measurement and print what it saw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=60_000)
    parser.add_argument("--engine", choices=STAGES, default="embedded")
    parser.add_argument("--most", type=float, default=10.0, help="seconds of a batch")
    parser.add_argument("--patience", type=float, default=200.0, help="seconds until all is published")
    chosen = parser.parse_args(arguments)
    everyone = [client(number) for number in range(chosen.members)]
    half = everyone[: chosen.members // 2]
    with (
        tempfile.TemporaryDirectory(prefix="large-") as folder,
        LabBroker(offsets_partitions=PARTITIONS, settings=ROOM) as broker,
    ):
        rig = Rig(broker.bootstrap, Path(folder), {"engine": chosen.engine})
        rig.pulse(BESIDE[0])
        with rig.job:
            rig.job.wait_ready()
            rig.completed(BESIDE[0])
            watched = Watched()
            watching = threading.Thread(target=watch, args=(rig, watched, STAGES[chosen.engine]), daemon=True)
            watching.start()
            began = time.monotonic()
            shard = coordinator_partition(GROUP, PARTITIONS)
            for number, members in enumerate((everyone, half, everyone, []), 1):
                now = time.time_ns() // 1_000_000
                inject(broker.bootstrap, [Record(shard, group_key(GROUP), metadata(number, members, now))])
                time.sleep(2.0)
            rig.pulse(*BESIDE[1:])
            wait_until(lambda: not missing(rig.told(), chosen.members), chosen.patience, 0.5)
            took = time.monotonic() - began
            watched.over.set()
            watching.join()
            rig.job.require()
            found = rig.told()
    wrong, longest = missing(found, chosen.members), watched.longest()
    count, spent = (sum(values) for values in zip(*watched.batches, strict=True))
    largest = max(len(to_json(one)) for one in found)
    print(f"{chosen.engine}, {chosen.members:,} members: all published {took:.0f} s after the first record")
    print(f"{count:.0f} batches, {spent / max(count, 1):.1f} s on average, the longest {longest:.1f} s")
    print(f"the largest finding has {largest:,} bytes")
    print("most memory, MB: " + ", ".join(f"{part} {mb:.0f}" for part, mb in watched.memory.items()))
    print("\n".join(wrong) or "nothing is missing")
    return 1 if wrong or longest > chosen.most else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
