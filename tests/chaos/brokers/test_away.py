"""Brokers that die, a network that stalls: the job says so, waits, and loses and doubles nothing."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports, wait_until
from tests.chaos.support.rig import ENGINE, PATIENCE_S, Proxy, Rig, of_faults

if TYPE_CHECKING:
    from pathlib import Path

# How long brokers stay away and a network stalls; CHAOS_AWAY_S=300 for five minutes.
AWAY_S = float(os.environ.get("CHAOS_AWAY_S", "40"))
pytestmark = of_faults(1_200 + 2 * AWAY_S)
PARTITIONS = 8
# What is said of the job while brokers are away; that the probe sees nobody comes with it.
AWAY, STALLED = {"blind", "behind"}, {"behind", "probe_partial"}
if ENGINE == "embedded":
    # It has no batch once no broker has said for 10 s where the topic ends.
    STALLED |= {"blind"}


def test_a_broker_that_dies_and_returns_is_waited_for(tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=PARTITIONS, folder=tmp_path / "broker") as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job")
        rig.pulse("away-a")
        with rig.job:
            rig.job.wait_ready()
            broker.nodes[0].kill()
            away_until = time.monotonic() + AWAY_S
            rig.await_told(lambda f: f.phase == "opened" and f.details.get("cause") in AWAY)
            time.sleep(max(0.0, away_until - time.monotonic()))
            told = rig.causes()
            broker.nodes[0].start()
            broker.wait_ready()
            rig.pulse("away-b")
            rig.completed("away-b")
            rig.require_truth()
            rig.job.require()
            assert wait_until(rig.is_well, PATIENCE_S), rig.health()
            # Shown with -s.
            sys.stdout.write(f"told while it was away: {sorted(told)}; in all: {rig.health()}\n")
            assert AWAY & told
            assert rig.causes() <= AWAY | {"probe_partial"}


def test_a_network_that_stalls_is_published_and_caught_up_with(tmp_path: Path) -> None:
    plain, behind, front, controller = free_ports(4)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},VIA://127.0.0.1"
    settings = {
        "listeners": f"{listeners}:{behind},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{listeners}:{front}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,VIA:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    proxy = Proxy(("127.0.0.1", behind), front)
    with LabBroker(
        offsets_partitions=PARTITIONS, folder=tmp_path / "broker", port=plain, settings=settings
    ) as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job", seen_at=f"127.0.0.1:{front}")
        rig.pulse("stall-a")
        with rig.job:
            rig.job.wait_ready()
            rig.completed("stall-a")
            proxy.flows.clear()
            rig.pulse("stall-b")
            rig.await_told(lambda f: f.phase == "opened" and f.details.get("cause") in STALLED)
            time.sleep(AWAY_S / 2)
            told = rig.causes()
            assert not [finding for finding in rig.told() if finding.group == "stall-b"]
            proxy.flows.set()
            rig.completed("stall-b")
            rig.require_truth()
            rig.job.require()
            assert wait_until(rig.is_well, PATIENCE_S), rig.health()
            sys.stdout.write(f"told while it stalled: {sorted(told)}; in all: {rig.health()}\n")
            assert told <= STALLED
            assert rig.causes() <= STALLED
    proxy.close()
