import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.jars import release
from rebalance_monitor.lab.cluster.broker import DEFAULT_VERSION, STATE_FILE, LabBroker, down, running, up
from rebalance_monitor.lab.cluster.node import STOP_S, Node, free_ports, is_free, wait_until
from rebalance_monitor.lab.cluster.properties import Address, Shape, server_properties
from rebalance_monitor.lab.scenario.runner import Run, Together
from rebalance_monitor.lab.scenario.scenario import parse
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.truth.truth import parse_log
from rebalance_monitor.lab.workers.families import FAMILIES, why_not
from rebalance_monitor.lab.workers.flags import Flags
from rebalance_monitor.lab.workers.flags import parse as parse_flags


def test_a_node_listens_on_loopback_only() -> None:
    me = Address(1, 9092, 9093)
    text = server_properties(Shape((4, 1, 1)), me, [me], Path("/data"))
    listeners = next(line for line in text.splitlines() if line.startswith("listeners="))
    assert listeners == "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"


def test_properties_of_the_caller_win() -> None:
    me = Address(1, 9092, 9093)
    shape = Shape((4, 1, 1), extra={"num.io.threads": "1"})
    assert "num.io.threads=1\n" in server_properties(shape, me, [me], Path("/data"))


def test_a_paused_node_stands_still_until_it_is_resumed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        node = Node(tmp_path, "4.1.1", Address(1, 9092, 9093), child.pid, _child=child)
        try:
            assert wait_until(lambda: _state(child.pid) == "R", 60)
            node.pause()
            assert wait_until(lambda: _state(child.pid) == "T", 60)
            node.resume()
            assert wait_until(lambda: _state(child.pid) == "R", 60)
        finally:
            node.kill()
    assert not node.is_running()


def _state(pid: int) -> str:
    """The state of a process as ps gives it: R(unning), S(leeping), T (stopped)."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout[:1]


def test_a_worker_reads_back_the_flags_it_was_given() -> None:
    flags = Flags("127.0.0.1:1", "g", "a,b", client_id="c", session_ms=3000, processing_s=0.5)
    assert parse_flags(flags.arguments()) == flags


def test_a_family_that_cannot_run_is_skipped_with_a_reason() -> None:
    assert "4.0" in (why_not(FAMILIES["confluent-848"], (3, 9, 1)) or "")
    assert why_not(FAMILIES["confluent"], (2, 8, 2)) is None


def test_only_releases_with_two_coordinators_have_a_choice(tmp_path: Path) -> None:
    new = LabBroker("3.9.1+new", tmp_path)
    assert (new.version, new.name) == ("3.9.1", "3.9.1+new")
    me = Address(1, 9092, 9093)
    assert "group.coordinator.new.enable=true\n" in server_properties(new.shape, me, [me], tmp_path)
    for wrong in ("4.1.1+new", "3.9.1+old"):
        with pytest.raises(DependencyError, match="not a Kafka version of the lab"):
            LabBroker(wrong, tmp_path)


def test_a_port_in_use_is_named_before_anything_is_started(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(DependencyError, match=f"Port {port} is in use"):
            LabBroker(folder=tmp_path, port=port)._addresses()


def test_free_ports_differ_and_are_none_that_an_outgoing_connection_may_be_lent() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert max(found) < 32_768
    assert all(map(is_free, found))


def test_a_port_that_was_given_is_given_to_nobody_else_before_its_listener_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rebalance_monitor.lab.cluster.node.PORTS", range(20_000, 20_020))
    code = (
        "from rebalance_monitor.lab.cluster import node; node.PORTS = range(20_000, 20_020);"
        "print(node.free_ports(20))"
    )
    here = free_ports(8)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    elsewhere = json.loads(done.stdout)
    assert set(here).isdisjoint(elsewhere)
    assert set(here).isdisjoint(free_ports(12))


def test_a_state_file_of_a_dead_broker_blocks_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    node = {"node": 1, "port": 1, "controller_port": 2, "pid": ended.pid}
    (tmp_path / STATE_FILE).write_text(json.dumps({"version": "4.1.1", "nodes": [node]}))
    assert running(tmp_path) is None
    assert down(tmp_path) is False
    assert not (tmp_path / STATE_FILE).exists()


def test_a_process_number_used_again_is_not_mistaken_for_a_broker(tmp_path: Path) -> None:
    node = {"node": 1, "port": 1, "controller_port": 2, "pid": os.getpid()}
    (tmp_path / STATE_FILE).write_text(json.dumps({"version": "4.1.1", "nodes": [node]}))
    assert running(tmp_path) is None


@pytest.mark.broker
def test_a_detached_lab_is_found_again_survives_a_crash_and_goes_down(tmp_path: Path) -> None:
    first = up(LabBroker(folder=tmp_path))
    try:
        assert up(LabBroker(folder=tmp_path)).bootstrap == first.bootstrap
        assert first.nodes[0].pid is not None
        os.kill(first.nodes[0].pid, signal.SIGKILL)
        first.nodes[0].kill()
        assert running(tmp_path) is None
        second = up(LabBroker(folder=tmp_path))
        assert second.nodes[0].is_running()
    finally:
        assert down(tmp_path) is True
    assert wait_until(lambda: not second.nodes[0].is_running(), STOP_S), "reaped a moment after its end"
    assert running(tmp_path) is None


@pytest.mark.broker
def test_a_killed_member_is_expired_and_the_log_says_so(lab_broker: LabBroker, tmp_path: Path) -> None:
    raw = {
        "members": "a b",
        # So long that the other one lives through a pause of a loaded machine.
        "settings": {"session_ms": 6000, "poll_ms": 9000},
        "steps": [{"at": 0, "start": "all"}, {"at": 6, "kill": "b"}],
        "end": 16,
    }
    with Traffic(lab_broker.bootstrap) as traffic:
        run = Run(parse("killed", raw), FAMILIES["confluent"], lab_broker, traffic, tmp_path, "lab.killed")
        with Together([run]) as together:
            assert together.wait(60)
    kill = run.done[-1]
    lines = lab_broker.coordinator_logs[0].read_text().splitlines()
    expired = [event for event in parse_log(lines) if event.what == "expired" and event.group == "lab.killed"]
    assert [event.members for event in expired] == [kill.member_ids]
    journal = [json.loads(line) for line in (tmp_path / "lab.killed" / "a.jsonl").read_text().splitlines()]
    assert [entry["event"] for entry in journal][-1] == "closed"


@pytest.mark.broker
def test_a_cluster_id_may_begin_with_a_dash(tmp_path: Path) -> None:
    me = Address(1, *free_ports(2))
    node = Node(tmp_path, DEFAULT_VERSION, me)
    node.prepare(Shape(release(DEFAULT_VERSION)), [me], "-UuMHlexQBCNOnGmwr4Ckw")
    assert "cluster.id=-UuMHlexQBCNOnGmwr4Ckw" in (node.data / "meta.properties").read_text()
