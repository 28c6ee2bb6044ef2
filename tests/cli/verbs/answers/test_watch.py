"""`watch` on a real broker: what it says, what it shows, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer
from time import sleep
from typing import TYPE_CHECKING
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run
from rebalance_monitor.cli.verbs.answers.watch import NOT_YET
from rebalance_monitor.coordinator.findings.wording import ranges
from rebalance_monitor.engine.embedded.watching import KEEPS_NOTHING, NOWHERE
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import Rig
from tests.cli.verbs.records.test_capture import come_and_go
from tests.engine.support.halves import PARTITIONS, halves

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

pytestmark = pytest.mark.broker
TOPIC = "capture-tests"
GROWS, GOES = "grows-under-watch", "goes-under-watch"
PROGRAM = str(Path(sys.executable).with_name("rebalance-monitor"))
PATIENCE_S = 180


@pytest.fixture(scope="module")
def servers(lab_broker: LabBroker) -> str:
    client = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    if TOPIC not in client.list_topics(timeout=30).topics:
        client.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result()
    come_and_go(lab_broker.bootstrap, "before-the-watch")
    return lab_broker.bootstrap


def test_history_is_counted_what_comes_is_shown_and_nothing_is_written(servers: str, tmp_path: Path) -> None:
    shown, said, home = tmp_path / "shown", tmp_path / "said", tmp_path / "home"
    home.mkdir()
    command = [PROGRAM, "watch", "--bootstrap", servers, "-o", "jsonl"]
    with (
        shown.open("w") as out,
        said.open("w") as err,
        subprocess.Popen(command, cwd=home, stdout=out, stderr=err) as process,
    ):
        try:
            assert wait_until(lambda: "50 partitions" in said.read_text(), PATIENCE_S), said.read_text()
            come_and_go(servers, "during-the-watch")
            assert wait_until(lambda: '"during-the-watch"' in shown.read_text(), PATIENCE_S)
        finally:
            process.send_signal(signal.SIGINT)
            ended = process.wait(PATIENCE_S)
    assert ended == 0
    groups = {json.loads(line)["group"] for line in shown.read_text().splitlines()}
    assert "before-the-watch" not in groups
    assert "reading __consumer_offsets to its end: up to" in said.read_text()
    assert "findings of" in said.read_text() or "finding of" in said.read_text()
    assert list(home.iterdir()) == []
    assert not list(NOWHERE.glob(f"{KEEPS_NOTHING}*"))


def test_it_needs_no_file_that_may_be_written(servers: str) -> None:
    # As on a full disk, or in a container whose file system is read-only.
    command = [PROGRAM, "watch", "--bootstrap", servers, "--for", "3s"]
    ended = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert ended.returncode == 0, ended.stderr
    assert "50 partitions" in ended.stderr


def test_a_pattern_leaves_the_other_groups_out(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    comes = _thread(lambda: come_and_go(servers, "another-watch"), after_s=4)
    assert run(["watch", "--bootstrap", servers, "--for", "15s", "--group", "nobody-*", "-o", "jsonl"]) == 0
    comes.join()
    shown = capsys.readouterr()
    assert all(json.loads(line)["group"] is None for line in shown.out.splitlines())
    assert "; 0 like the pattern of `--group`" in shown.err
    # It is off while history is read.
    assert gc.isenabled()


def test_the_page_is_served_while_it_lasts_and_ctrl_c_ends_with_a_summary(servers: str) -> None:
    command = [PROGRAM, "watch", "--bootstrap", servers, "--page", "--set", "web.port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "the page is at" in line)
        address = said.rpartition(" ")[2].strip()
        with urlopen(urljoin(address, "api/v1/groups"), timeout=30) as answer:  # noqa: S310 - its own
            listed = json.load(answer)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "before-the-watch" in json.dumps(listed)
    assert "records read; " in rest


def test_it_ends_when_nobody_reads_it_any_more(servers: str) -> None:
    command = [PROGRAM, "watch", "--bootstrap", servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        next(line for line in process.stderr if "50 partitions" in line)
        process.stdout.close()
        rest = process.stderr.read()
    assert (process.returncode, rest) == (0, "")


def test_a_full_disk_below_its_findings_ends_it_with_the_reason(servers: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [PROGRAM, "watch", "--bootstrap", servers]
        with subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            next(line for line in process.stderr if "50 partitions" in line)
            come_and_go(servers, "on-a-full-disk")
            rest = process.stderr.read()
    assert process.returncode == ExitCode.UNREACHABLE
    assert "No space left on device" in rest


def test_a_full_disk_below_what_it_says_leaves_findings_and_exit_codes_as_they_are(
    servers: str, tmp_path: Path
) -> None:
    shown = tmp_path / "shown"
    with shown.open("w") as out, Path("/dev/full").open("w") as full:
        command = [PROGRAM, "watch", "--bootstrap", servers, "-o", "jsonl"]
        with subprocess.Popen(command, stdout=out, stderr=full) as process:

            def is_shown() -> bool:
                # It does not say when it watches.
                come_and_go(servers, "said-on-a-full-disk")
                return "said-on-a-full-disk" in shown.read_text()

            assert wait_until(is_shown, PATIENCE_S, 1.0)
            process.send_signal(signal.SIGINT)
        assert process.returncode == ExitCode.FINE
        nobody = [PROGRAM, "watch", "--bootstrap", "127.0.0.1:1"]
        ended = subprocess.run(nobody, check=False, stdout=out, stderr=full, timeout=PATIENCE_S)
    assert ended.returncode == ExitCode.UNREACHABLE


def test_a_topic_that_does_not_exist_yet_is_said_and_awaited(
    servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["watch", "--bootstrap", servers, "--set", "source.topic=not-there-yet", "--for", "4s"]
    assert run(command) == 0
    said = capsys.readouterr().err
    assert "waiting: not-there-yet does not exist" in said
    assert f"0 records read; {NOT_YET}" in said


def _ended_by(servers: str, topic: str, change: Callable[[AdminClient], Future[None]]) -> tuple[int, str]:
    """Change a topic of two partitions while it is watched; return the code and what is said after."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    of_topic = ["--set", f"source.topic={topic}", "--set", "source.refresh=1s"]
    command = [PROGRAM, "watch", "--bootstrap", servers, *of_topic]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "2 partitions" in line)
        change(admin).result()
        rest = process.stderr.read()
    return process.returncode, rest


def test_a_topic_that_gets_more_partitions_ends_it_with_a_sentence(servers: str) -> None:
    code, rest = _ended_by(servers, GROWS, lambda a: a.create_partitions([NewPartitions(GROWS, 3)])[GROWS])
    assert code == ExitCode.UNREACHABLE
    assert f"{GROWS} has 3 partitions now, and had 2." in rest


def test_a_topic_that_is_deleted_ends_it_with_a_sentence(servers: str) -> None:
    code, rest = _ended_by(servers, GOES, lambda a: a.delete_topics([GOES])[GOES])
    assert code == ExitCode.UNREACHABLE
    assert f"{GOES} does not exist any more." in rest


@pytest.mark.slow
def test_partitions_that_no_broker_leads_are_said_and_watched_as_soon_as_one_does(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with halves() as half:
        group, rig = half.group("away", there=True), Rig(half.cluster.bootstrap, tmp_path, copies=3)
        rig.pulse(group)
        half.kill()
        command = [
            PROGRAM,
            "watch",
            "--bootstrap",
            rig.bootstrap,
            "-o",
            "jsonl",
            "--set",
            "source.refresh=1s",
        ]
        with (
            shown.open("w") as out,
            subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as process,
        ):
            assert process.stderr is not None
            assert f"({ranges(half.partitions)})" in next(process.stderr)
            next(line for line in process.stderr if "6 partitions, " in line)
            half.start()
            assert f"({ranges(half.partitions)})" in next(
                line for line in process.stderr if "a broker leads" in line
            )
            for generations in ([3], [3, 5]):
                rig.pulse(group)
                # What was there before is history, which is not shown.
                assert wait_until(lambda: _generations(shown, group) == generations, PATIENCE_S)  # noqa: B023
                # The topic is asked for again meanwhile.
                sleep(2.5)
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
        assert process.returncode == ExitCode.FINE, told


@pytest.mark.slow
def test_partitions_that_lose_their_leader_are_said_until_they_have_one_again(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with halves() as half:
        group, rig = half.group("stays-away", there=True), Rig(half.cluster.bootstrap, tmp_path, copies=3)
        rig.pulse(group)
        command = [PROGRAM, "watch", "--bootstrap", rig.bootstrap, "-o", "jsonl"]
        with (
            shown.open("w") as out,
            subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as process,
        ):
            assert process.stderr is not None
            next(line for line in process.stderr if f"{PARTITIONS} partitions, " in line)
            half.kill()
            assert wait_until(lambda: _blind(shown) == ["opened"], PATIENCE_S)
            half.start()
            assert wait_until(lambda: _blind(shown) == ["opened", "resolved"], PATIENCE_S)
            rig.pulse(group)
            assert wait_until(lambda: _generations(shown, group) == [3], PATIENCE_S)
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
        assert process.returncode == ExitCode.FINE, told
        which = f"{len(half.partitions)} partitions of __consumer_offsets ({ranges(half.partitions)})"
        assert f"no broker leads {which}" in shown.read_text()


@pytest.mark.slow
def test_brokers_that_are_away_are_said_where_no_probe_says_it_and_that_they_are_back(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with LabBroker(offsets_partitions=2) as broker:
        Rig(broker.bootstrap, tmp_path).pulse("before")
        options = ["-o", "jsonl", "--set", "probe.enabled=false", "--set", "ends.enabled=false"]
        command = [PROGRAM, "watch", "--bootstrap", broker.bootstrap, *options]
        with (
            shown.open("w") as out,
            subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as process,
        ):
            assert process.stderr is not None
            next(line for line in process.stderr if "2 partitions, " in line)
            broker.nodes[0].kill()
            assert wait_until(lambda: _blind(shown) == ["opened"], PATIENCE_S)
            broker.nodes[0].start()
            assert wait_until(lambda: _blind(shown) == ["opened", "resolved"], PATIENCE_S)
            Rig(broker.bootstrap, tmp_path).pulse("after")
            assert wait_until(lambda: _generations(shown, "after") == [1], PATIENCE_S)
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
        assert process.returncode == ExitCode.FINE, told
        assert "No broker has said for" in shown.read_text()


def _blind(shown: Path) -> list[str]:
    found = map(json.loads, shown.read_text().splitlines())
    return [one["phase"] for one in found if one["details"].get("cause") == "blind"]


def _generations(shown: Path, group: str) -> list[int]:
    found = map(json.loads, shown.read_text().splitlines())
    return [one["generation"] for one in found if one["kind"] == "rebalance" and one["group"] == group]


def _thread(call: Callable[[], None], after_s: float) -> Timer:
    timer = Timer(after_s, call)
    timer.start()
    return timer
