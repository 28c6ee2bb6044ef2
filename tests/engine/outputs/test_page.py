"""The page of a running job: served over what the job commits, and never a reason for the job to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rebalance_monitor.alerts.runtime.silences import SilenceFiles
from rebalance_monitor.checkpoints.ledger import Snapshot as Committed
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.coordinator.findings.outputs import StatOut
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.outputs.serving import Serving
from rebalance_monitor.engine.outputs.sinks import FindingsTable, Publication
from rebalance_monitor.engine.outputs.upkeep import ParquetFindings
from rebalance_monitor.engine.storage import Storage
from tests.dashboard.web import known

if TYPE_CHECKING:
    from pathlib import Path

Flag = Any


def serving_at(storage: Storage, **flags: Flag) -> Serving:
    settings = load(
        flags={"web.port": 0, **{name.replace("__", "."): value for name, value in flags.items()}}
    )
    return Serving(settings, storage, "cluster-id", Notices(), ParquetFindings(storage))


def tell(serving: Serving, storage: Storage, number: int) -> None:
    """Tell one batch as the writer does: write, then commit."""
    found = [known.rebalance("payments", number, known.T0 + number * 1_000)]
    shard = StatOut("shard", {**known.shard(), "records": 1, "commits": 1})
    batch = Batch(groups={"payments": known.summary("payments", number)}, stats=[(0, shard)], now=known.T0)
    publication, key = Publication(found, batch, known.T0), BatchKey("0b31a4ad", number)
    FindingsTable(storage.findings).write(key, publication)
    serving.write(key, publication)
    serving.committed(key)


def test_the_page_api_metrics_and_history_of_a_job(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    with serving_at(storage) as serving, httpx.Client(base_url=str(serving.url)) as client:
        serving.start(Committed())
        assert client.get("/readyz").status_code == 503
        tell(serving, storage, 1)
        assert client.get("/readyz").status_code == 200
        assert client.get("/api/v1/groups").json()["rows"][0]["group"] == "payments"
        history = client.get("/api/v1/findings").json()
        assert (history["source"], [row["generation"] for row in history["rows"]]) == ("table", [1])
        metrics = client.get("/metrics").text
        assert 'rebalance_monitor_group_generation{cluster="cluster-id",group="payments"} 1.0' in metrics
        wanted = ("rebalance_monitor_batches_total", "rebalance_monitor_group_members", "unknown")
        some = client.get("/metrics", params={"name[]": wanted}).text
        assert {line.partition("{")[0] for line in some.splitlines() if line[0] != "#"} == set(wanted[:2])
        assert client.get("/").headers["content-type"].startswith("text/html")
    assert serving.url is not None
    with pytest.raises(httpx.ConnectError):
        httpx.get(serving.url)


def test_the_page_of_a_job_knows_teams_and_keeps_silences_in_the_jobs_folder(tmp_path: Path) -> None:
    token = "t" * 20
    flags: dict[str, Flag] = {
        "web__token": token,
        "detection__groups": [{"pattern": "pay*", "team": "money"}],
        "alerts__receivers": [{"name": "sre", "webhook": {"url": "http://127.0.0.1:9/"}}],
        "alerts__route": {"receiver": "sre"},
    }
    storage, bearer = Storage(tmp_path), {"authorization": f"Bearer {token}"}
    with (
        serving_at(storage, **flags) as serving,
        httpx.Client(base_url=str(serving.url), headers=bearer) as client,
    ):
        tell(serving, storage, 1)
        assert client.get("/api/v1/groups", params={"team": "money"}).json()["matched"] == 1
        wanted = {"matchers": 'team="money"', "lasts": "1h", "comment": "", "created_by": ""}
        assert client.post("/api/v1/silences", json=wanted).status_code == 201
    (silence,) = SilenceFiles(storage.alerts).read()[0]
    assert silence.matchers == ('team="money"',)


def test_a_port_that_is_taken_is_warned_of_and_nothing_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_at(Storage(tmp_path / "a")) as first:
        port = int(str(first.url).rpartition(":")[2])
        with serving_at(Storage(tmp_path / "b"), web__port=port) as second:
            assert second.url is None
    said = capsys.readouterr()
    assert "the page is not served" in said.out + said.err
    assert "set web.host and web.port" in said.out + said.err


def test_a_page_that_is_switched_off_takes_no_port(tmp_path: Path) -> None:
    with serving_at(Storage(tmp_path), web__enabled=False) as serving:
        assert serving.url is None


def test_a_token_file_that_is_gone_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token_file"):
        serving_at(Storage(tmp_path), web__token_file=str(tmp_path / "gone"))
