"""Verbs that look at a capture name members as the job of the same configuration does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import Metadata, write_capture
from rebalance_monitor.engine.outputs.identities import identities_of
from tests.cli.support.records import Records
from tests.coordinator.support.timeline import Client

if TYPE_CHECKING:
    from pathlib import Path

ALICE = Client("alice-laptop-1", (0, 1), "alice-laptop", "/10.9.8.7", "stateful-0")
BOB = Client("bob-host-1", (2, 3), "bob-host", "/10.9.8.6")
REAL = ("alice-laptop", "/10.9.8.7", "stateful-0", "bob-host", "/10.9.8.6")
VERBS = [
    ("replay", "-o", "jsonl"),
    ("replay",),
    ("explain", "g", "-o", "json"),
    ("explain", "g"),
    ("history", "g", "-o", "json"),
]


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """Bob dies, and then comes back again and again, with a long time between two commits."""
    records = Records()
    records.generation(0, 0, "g", 1, [ALICE, BOB])
    for at in range(500, 20_000, 500):
        if not 9_000 < at < 15_500:
            records.commit(0, at, "g", at)
        if at <= 8_000:
            key = b"\0\1\0\1g\0\6orders\0\0\0\2"
            records.add(0, at + 1, key, records.rows[-1]["value"])  # type: ignore[arg-type]
    alone = replace(ALICE, partitions=(0, 1, 2, 3))
    for number in range(5):
        again = replace(BOB, member_id=f"bob-host-{number + 2}")
        records.generation(0, 20_000 + number * 4_000, "g", 2 + 2 * number, [alone])
        records.generation(0, 22_000 + number * 4_000, "g", 3 + 2 * number, [ALICE, again])
    write_capture(tmp_path / "c", [records.batch()], Metadata(cluster_id="c", partitions=1))
    return str(tmp_path / "c")


def said(words: tuple[str, ...], capture: str, output: pytest.CaptureFixture[str], *settings: str) -> str:
    given = [word for setting in settings for word in ("--set", setting)]
    assert run([*words, "--capture", capture, *given]) == 0
    return output.readouterr().out


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_name_is_shown_that_the_job_hides(
    words: tuple[str, ...], capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = f"storage.path={tmp_path / 'none'}"
    plain = said(words, capture, capsys, storage)
    assert any(name in plain for name in REAL)
    for mode in ("hashed", "hidden"):
        told = said(words, capture, capsys, storage, f"outputs.identities={mode}")
        assert not [name for name in REAL if name in told]
        assert told.count("\n") == plain.count("\n")
    assert not (tmp_path / "none").exists()


def test_a_preview_of_alerts_shows_no_name_either(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", f"storage.path={tmp_path / 'none'}"]
    assert run(["alerts", "preview", capture, *settings]) == 0
    assert "bob-host" in capsys.readouterr().out
    assert run(["alerts", "preview", capture, *settings, "--set", "outputs.identities=hidden"]) == 0
    told = capsys.readouterr().out
    assert told
    assert not [name for name in REAL if name in told]


def test_hashes_are_those_of_the_jobs_own_tables(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = identities_of("hashed", tmp_path / "data" / "identity.key")
    settings = (f"storage.path={tmp_path / 'data'}", "outputs.identities=hashed")
    found = json.loads(said(("explain", "g", "-o", "json"), capture, capsys, *settings))
    assert {member["client_id"] for member in found["members"]} == {
        job.name("alice-laptop"),
        job.name("bob-host"),
    }
    assert found["leader"] == job.name("alice-laptop-1")
    (poll,) = (one for one in found["advice"] if "between two commits" in one["reason"])
    assert (poll["client_id"], poll["host"]) == (job.name("alice-laptop"), job.name("/10.9.8.7"))
    assert poll["reason"].startswith("6.5 s between two commits")
    lines = said(("replay", "-o", "jsonl"), capture, capsys, *settings).splitlines()
    named = {member["host"] for line in lines for member in json.loads(line)["members"]}
    assert named == {job.name("/10.9.8.7"), job.name("/10.9.8.6")}
