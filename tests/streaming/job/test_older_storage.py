"""Files of the storage folder that an earlier version wrote are read on, or refused with what to do.

`fixtures/storages`: what real jobs of 2026-11-23 (state of form 3) left when they were stopped: one that was
killed again and again with a receiver of alerts, one that watched an accuracy run.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_monitor.alerts.runtime.files import Files
from rebalance_monitor.checkpoints.ledger import Ledger, LedgerError
from rebalance_monitor.checkpoints.state.manifest import mismatches, read_manifest
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION, OLDEST_READ
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch
from rebalance_monitor.engine.driver.parts import Parts

STORAGES = Path(__file__).parents[2] / "fixtures" / "storages"
NAMES = sorted(path.name for path in STORAGES.iterdir())


def parts() -> Parts:
    return Parts(DetectionSettings(), "c1", list)


def keeps(was: object, now: object) -> bool:
    """Whether all that was there is there; what has its default may be left out by now."""
    if isinstance(was, dict) and isinstance(now, dict):
        return all(keeps(value, now[key]) if key in now else not value for key, value in was.items())
    return was == now


@pytest.mark.parametrize("name", NAMES)
def test_what_an_older_ledger_remembers_is_kept_and_goes_on(name: str) -> None:
    snapshot = Ledger(STORAGES / name / "ledger").load()
    assert snapshot.live["groups"]
    found = parts()
    found.restore(snapshot)
    after = found.into(snapshot)
    for part in ("live", "rollup", "health", "rebuilt"):
        assert keeps(getattr(snapshot, part), json.loads(json.dumps(getattr(after, part)))), part
    assert found.findings(Batch(now=snapshot.now), snapshot.now) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_older_manifest_fits_but_for_the_version_of_its_state(name: str) -> None:
    manifest = read_manifest(STORAGES / name / "manifest.json")
    assert manifest is not None
    identity = manifest.identity
    assert identity.codec_version < OLDEST_READ
    now = replace(identity, codec_version=CODEC_VERSION, product_version="9.9")
    (refused,) = mismatches(identity, now)
    assert f"reads formats from {OLDEST_READ} on" in refused.why
    assert "The version that wrote it" in refused.keep
    assert mismatches(replace(identity, codec_version=OLDEST_READ), now) == []


def test_what_an_older_dispatcher_remembers_is_kept(tmp_path: Path) -> None:
    folder = shutil.copytree(STORAGES / "killed" / "alerts", tmp_path / "alerts")
    memory = Files(folder).memory.load()
    assert memory.threads
    assert memory.batches
    again = Files(folder)
    again.memory.load()
    again.memory.save(memory)
    assert Files(folder).memory.load() == memory


def test_a_ledger_of_an_unknown_form_is_refused_with_a_remedy() -> None:
    snapshot = replace(Ledger(STORAGES / "killed" / "ledger").load(), live={"groups": {"g": {}}})
    with pytest.raises(LedgerError, match="run that version, restore"):
        parts().restore(snapshot)
