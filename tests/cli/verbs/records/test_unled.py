"""What the verbs answer, each by itself, while one broker is away that alone has some partitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.wording import ranges
from rebalance_monitor.decoders import coordinator_partition
from tests.chaos.support.rig import Rig
from tests.engine.support.halves import OFFSETS, PARTITIONS, Halves, halves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]
HERE, AWAY = "led-group", "away-group"


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halves]:
    with halves() as found:
        rig = Rig(found.cluster.bootstrap, tmp_path_factory.mktemp("rig"), copies=3)
        rig.pulse(found.group(HERE, there=False), found.group(AWAY, there=True))
        found.kill()
        yield found


def lacks(half: Halves) -> str:
    return f"no broker led {len(half.partitions)} partitions of {OFFSETS} ({ranges(half.partitions)})"


def test_a_group_whose_partition_is_led_is_explained_and_of_another_one_is_said_that_it_has_no_coordinator(
    half: Halves, capsys: pytest.CaptureFixture[str]
) -> None:
    here, away = half.group(HERE, there=False), half.group(AWAY, there=True)
    assert run(["explain", here, "--bootstrap", half.cluster.bootstrap, "-o", "json"]) == ExitCode.FINE
    assert json.loads(capsys.readouterr().out)["group"] == here
    assert run(["explain", away, "--bootstrap", half.cluster.bootstrap]) == ExitCode.UNREACHABLE
    said = capsys.readouterr().err
    shard = coordinator_partition(away, PARTITIONS)
    assert f"No broker leads partition {shard} of {OFFSETS}, so the group {away!r} has no coordinator" in said


def test_a_capture_has_what_is_led_and_says_wherever_it_is_read_what_it_lacks(
    half: Halves, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, away, path = half.group(HERE, there=False), half.group(AWAY, there=True), tmp_path / "capture"
    copied = run(["capture", str(path), "--bootstrap", half.cluster.bootstrap, "--until-end"])
    assert copied == ExitCode.PROBLEMS
    assert f"{path} is not complete: {lacks(half)}" in capsys.readouterr().err
    metadata = read_capture(path).metadata
    assert (metadata.partitions, metadata.unled) == (PARTITIONS, half.partitions)
    assert run(["replay", "--capture", str(path), "-o", "jsonl"]) == ExitCode.FINE
    replayed = capsys.readouterr()
    assert here in replayed.out
    assert f"nothing is known of their groups: {lacks(half)}" in replayed.err
    assert run(["explain", here, "--capture", str(path)]) == ExitCode.FINE
    assert run(["explain", away, "--capture", str(path)]) == ExitCode.USAGE
    assert f"lacks partition {coordinator_partition(away, PARTITIONS)}" in capsys.readouterr().err
    assert run(["decode", "--capture", str(path)]) == ExitCode.PROBLEMS


def test_records_are_decoded_and_partitions_that_were_wanted_and_are_not_led_are_named(
    half: Halves, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap, here = half.cluster.bootstrap, half.group(HERE, there=False)
    assert run(["decode", "--bootstrap", bootstrap]) == ExitCode.PROBLEMS
    decoded = capsys.readouterr()
    assert here in decoded.out
    assert f"Not all records were read: {lacks(half)}." in decoded.err
    only = str(coordinator_partition(here, PARTITIONS))
    assert run(["decode", "--bootstrap", bootstrap, "--partition", only]) == ExitCode.FINE


def test_doctor_names_the_partitions_and_reads_another_one(
    half: Halves, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", f"storage.path={tmp_path}", "--set", "engine=embedded"]
    bootstrap = ["--set", f"kafka.bootstrap_servers={half.cluster.bootstrap}"]
    assert run(["doctor", *settings, *bootstrap, "-o", "json"]) == ExitCode.PROBLEMS
    checks = {one["check"]: one for one in json.loads(capsys.readouterr().out)}
    assert lacks(half) in checks["topic"]["found"]
    assert "delivers up to offset" in checks["reading"]["found"], checks["reading"]
