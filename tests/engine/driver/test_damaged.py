"""A start on a folder with a damaged file ends with exit code 2 and a sentence that names file and cure."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cli.exit_codes import ExitCode, exit_code_of
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.engine.driver.job import Options, run_job
from rebalance_monitor.engine.embedded.engine import EmbeddedKind
from tests.checkpoints.state.test_inspection import DAMAGES, LOG, ONCE, STATE, whole_folder
from tests.engine.driver.test_plan import plan

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

CURES = ("--rebuild-state", "restore it from a backup")
SPARKS = ("manifest.json", "ledger/snapshot.json", *LOG, STATE, *ONCE)
# Of one engine's own log alone a part is of use: what was damaged at its end runs again.
EMBEDDED = ("manifest.json", "ledger/snapshot.json", "alerts/memory.jsonl", "state/1/changelog-*")
SPARED = ("leaders.json", "tables/groups/*.parquet")


def damaged(root: Path, name: str, damage: str) -> list[Path]:
    """Damage the files of that name, and return them."""
    found = list(root.glob(name))
    assert found, sorted(root.rglob("*"))
    for path in found:
        content = DAMAGES[damage](path.read_bytes())
        if name in LOG and damage == "changed":
            # In stores without checksums what is no JSON any more is noticed.
            content = content.replace(b"{", b"(")
        path.write_bytes(content)
    return found


def require_sentence(error: Exception, path: Path) -> None:
    assert exit_code_of(error) == ExitCode.USAGE
    assert any(name in str(error) for name in (str(path), str(path.parent))), error
    assert any(cure in str(error) for cure in CURES), error


def test_a_start_goes_on_with_what_is_whole(tmp_path: Path) -> None:
    whole_folder(tmp_path)
    assert plan(tmp_path).manifest.generation == 2


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", SPARKS)
def test_a_start_of_spark_refuses_a_damaged_file(tmp_path: Path, name: str, damage: str) -> None:
    whole_folder(tmp_path)
    (path,) = damaged(tmp_path, name, damage)
    with pytest.raises(ConfigError) as raised:
        plan(tmp_path)
    require_sentence(raised.value, path)
    if "ledger" not in name:
        assert "--rebuild-state" in str(raised.value)
        assert plan(tmp_path, rebuild=True).manifest.generation == 3


def run(bootstrap: str, root: Path, *, rebuild: bool = False) -> None:
    """Run the embedded job on the folder until it has read what there is."""
    settings = load(
        flags={
            "kafka.bootstrap_servers": bootstrap,
            "engine": "embedded",
            "storage.path": str(root),
            "web.enabled": "false",
            "alerts": {
                "receivers": [{"name": "a", "webhook": {"url": "http://127.0.0.1:1/x", "timeout": "1s"}}],
                "route": {"receiver": "a"},
            },
        }
    )
    options = Options(rebuild, available_now=True)
    run_job(EmbeddedKind(settings, options), settings, options, threading.Event())


@pytest.fixture(scope="module")
def kept(lab_broker: LabBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has read a commit."""
    client = {"bootstrap.servers": lab_broker.bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("damaged", 1, 1)])["damaged"].result()
    consumer = Consumer({**client, "group.id": "damaged"})
    consumer.commit(offsets=[TopicPartition("damaged", 0, 1)], asynchronous=False)
    consumer.close()
    run(lab_broker.bootstrap, root := tmp_path_factory.mktemp("kept") / "data")
    return root


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("damage", ["emptied", "no text", "nested"])
@pytest.mark.parametrize("name", EMBEDDED)
def test_a_start_of_the_embedded_engine_refuses_a_damaged_file(
    lab_broker: LabBroker, kept: Path, tmp_path: Path, name: str, damage: str
) -> None:
    root = shutil.copytree(kept, tmp_path / "data")
    (path,) = damaged(root, name, damage)
    with pytest.raises(ConfigError) as raised:
        run(lab_broker.bootstrap, root)
    require_sentence(raised.value, path)
    if "manifest" in name or "changelog" in name:
        assert "--rebuild-state" in str(raised.value)
        run(lab_broker.bootstrap, root, rebuild=True)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("damage", ["emptied", "no text"])
@pytest.mark.parametrize("name", SPARED)
def test_a_start_goes_on_without_a_file_that_it_can_make_anew(
    lab_broker: LabBroker, kept: Path, tmp_path: Path, name: str, damage: str
) -> None:
    root = shutil.copytree(kept, tmp_path / "data")
    damaged(root, name, damage)
    run(lab_broker.bootstrap, root)
