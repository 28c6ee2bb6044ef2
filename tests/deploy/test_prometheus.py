"""Rules and dashboards ask for what there is; a real Prometheus over the real endpoint has an answer."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from rebalance_monitor.config.teams import team_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.metrics.collector import SnapshotCollector, exposition, registry_of
from rebalance_monitor.dashboard.metrics.definitions import METRICS
from rebalance_monitor.dashboard.metrics.lag_series import Wanted
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.dashboard.web.http.app import make_app
from rebalance_monitor.dashboard.web.http.server import Server
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from rebalance_monitor.lab.cluster.node import free_ports
from tests.dashboard.support.lags import lag
from tests.dashboard.support.played import all_updates
from tests.dashboard.view.test_snapshot import about
from tests.programs import installed
from tools import dashboards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rebalance_monitor.coordinator.findings.finding import Finding

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus"
ALERTS = yaml.safe_load((RULES / "alerting.rules.yml").read_text(encoding="utf-8"))
RECORDS = yaml.safe_load((RULES / "recording.rules.yml").read_text(encoding="utf-8"))
CASES = yaml.safe_load((RULES / "tests" / "alerts_test.yml").read_text(encoding="utf-8"))
GROUP = "crash-loop.aiokafka"
TEAM = "payments"
FILTERED = 'team=~"$team"'
STORM = "RebalanceStorm"
PATIENCE_S = 180
IN_PROGRESS = ("overview", "In progress")
# Panels that have data in these captures, which says that nothing is wrong.
WELL = {
    ("overview", "Stuck"),
    ("group", "Skew"),
    ("group", "Committed offsets by partition"),
    ("monitor", "Partitions reading history"),
}
NAME = re.compile(r"(?<![\w:])(?:rebalance_monitor_\w+|[a-z_]+:[a-z_]+:\w+|[a-z_]+:rebalance_monitor_\w+)")


def rules(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in body["groups"] for rule in group["rules"]]


def panels() -> list[tuple[str, str, str]]:
    """(dashboard, panel, PromQL)."""
    return [
        (name, panel.title, query["expr"])
        for name, board in dashboards.boards().items()
        for _, of_row in board.rows
        for panel in of_row
        for query in panel.queries
    ]


def known_names() -> set[str]:
    suffixes = {
        metric.sample: ("_bucket", "_sum", "_count") if metric.buckets else ("",)
        for metric in METRICS.values()
    }
    return {name + suffix for name, several in suffixes.items() for suffix in several} | {
        rule["record"] for rule in rules(RECORDS)
    }


@pytest.mark.parametrize("name", list(dashboards.boards()))
def test_the_committed_dashboard_is_the_generated_one(name: str) -> None:
    committed = (ROOT / "deploy" / "grafana" / f"{name}.json").read_text(encoding="utf-8")
    assert committed == dashboards.as_json(dashboards.boards()[name])


@pytest.mark.parametrize("name", list(dashboards.boards()))
def test_boards_lead_to_boards_that_exist_and_to_parameters_that_the_page_has(name: str) -> None:
    board = json.loads(dashboards.as_json(dashboards.boards()[name]))
    assert {link["title"] for link in board["links"]} == {"Boards", "Live page"}
    assert set(board["links"][0]["tags"]) <= set(board["tags"])
    links = [link["url"] for panel in board["panels"] for link in _data_links(panel)]
    assert links
    for url in links:
        where, _, query = url.partition("?")
        asked = {part.partition("=")[0] for part in query.split("&")}
        if where.startswith("/d/"):
            assert where.removeprefix("/d/") in {one.uid for one in dashboards.boards().values()}
        else:
            assert where == "${page}/"
            assert asked <= {"group", "at", "view"}


def test_a_team_is_chosen_among_those_of_groups_and_a_group_among_those_of_the_team() -> None:
    tops = {
        name: json.loads(dashboards.as_json(board))["templating"]["list"]
        for name, board in dashboards.boards().items()
    }
    asked = {name: [one["name"] for one in top] for name, top in tops.items()}
    assert asked == {
        "overview": ["datasource", "cluster", "team", "page"],
        "group": ["datasource", "cluster", "team", "group", "page"],
        "monitor": ["datasource", "cluster", "page"],
    }
    team = next(one for one in tops["overview"] if one["name"] == "team")
    # Not all teams one by one: a group may be of none.
    assert (team["includeAll"], team["allValue"]) == (True, ".*")
    group = next(one for one in tops["group"] if one["name"] == "group")
    assert FILTERED in group["query"]["query"]


def test_every_panel_of_the_overview_that_asks_groups_asks_those_of_the_team() -> None:
    asked = [
        query for name, _, query in panels() if name == "overview" and "rebalance_monitor_group_" in query
    ]
    assert len(asked) > 10
    assert [query for query in asked if FILTERED not in query] == []


def _data_links(panel: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = panel.get("fieldConfig", {}).get("defaults", {}).get("links", [])
    return found


def test_rules_and_dashboards_name_only_metrics_that_exist() -> None:
    asked = [rule["expr"] for body in (ALERTS, RECORDS) for rule in rules(body)]
    asked += [query for _, _, query in panels()]
    names = {name for query in asked for name in NAME.findall(query)}
    assert names <= known_names()


def test_every_metric_is_shown_on_a_dashboard() -> None:
    shown = " ".join(query for _, _, query in panels())
    hidden = {metric.name for metric in METRICS.values() if metric.sample not in shown}
    # Of use while history is read only; the last batch's age is made from its time.
    assert hidden == {"history_findings"}


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert headings
    for rule in rules(ALERTS):
        said = rule["annotations"]
        assert {"summary", "description", "runbook_url"} == set(said)
        assert said["runbook_url"].rpartition("#")[2] in headings
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_every_alert_stands_on_the_page_with_its_severity() -> None:
    page = (ROOT / "docs" / "grafana.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` \| (critical|warning|info) \|", page, re.MULTILINE)
    assert found == [(rule["alert"], rule["labels"]["severity"]) for rule in rules(ALERTS)]


def test_no_alert_but_a_storm_asks_for_the_sum_of_groups_without_series() -> None:
    named = [rule for rule in rules(ALERTS) if "$labels.group" in str(rule["annotations"])]
    asking = [rule["alert"] for rule in named if 'group!="(other)"' not in rule["expr"]]
    assert asking == ["RebalanceStorm", "RebalanceStuck"]


def test_every_alert_has_a_case() -> None:
    assert [case["name"] for case in CASES["tests"]] == [rule["alert"] for rule in rules(ALERTS)]


def asked_now(query: str, group: str = GROUP, team: str = ".*") -> str:
    """The query with Grafana's variables filled in, for a run of half a minute."""
    chosen = {"$cluster": ".*", "$group": group, "$team": team}
    filled = {**chosen, "$__rate_interval": "8s", "$__range": "1m"}
    for name, value in filled.items():
        query = query.replace(name, value)
    return query


@pytest.mark.slow
def test_promtool_takes_every_rule_and_query_and_every_case_holds(tmp_path: Path) -> None:
    promtool = installed("promtool")
    made = [{"record": f"q{n}", "expr": asked_now(query)} for n, (_, _, query) in enumerate(panels())]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": made}]}))
    files = [*RULES.glob("*.rules.yml"), tmp_path / "panels.yml"]
    subprocess.run([promtool, "check", "rules", *files], check=True, capture_output=True)
    subprocess.run([promtool, "check", "config", RULES / "prometheus.yml"], check=True, capture_output=True)
    cases = RULES / "tests" / "alerts_test.yml"
    done = subprocess.run(
        [promtool, "test", "rules", cases], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Run:
    """The monitor's real endpoint, fed with real findings a few times a second."""

    def __init__(self) -> None:
        self.snapshot, self.tallies = Snapshot("lab"), Tallies(Limits())
        self.snapshot.listen(self.tallies.on_update)
        build = {"version": "1", "python": "3", "spark": "4"}
        wanted = Wanted(partitions=("*",), most=100)
        of_group = partial(team_of, teams={GROUP: TEAM})
        registry = registry_of(
            SnapshotCollector(self.snapshot, self.tallies, build, time.time, wanted, of_group)
        )
        api = Api(self.snapshot, MemoryPast(self.snapshot))
        self.app, self.stream = make_app(api, Access(), partial(exposition, registry))

    def feed(self, seconds: float, shown: Callable[[], bool]) -> None:
        """Apply all updates; a group that rebalances does so until it is `shown`."""
        updates = list(all_updates())
        why = (CauseEntry(Cause.BEHIND, 1.0, "the batch began 9 s ago"),)
        behind = about(Kind.MONITOR_DEGRADED, 1, None, phase="opened", incident="m", causes=why)
        self.snapshot.apply(Update(findings=[behind]))
        step, waited = -(-len(updates) // round(seconds * 4)), False
        for first in range(0, len(updates), step):
            for update in updates[first : first + step]:
                self._apply(update)
                if not waited and any(begins_rebalancing(finding) for finding in update.findings):
                    # It ends with the next update.
                    wait_for(shown)
                    waited = True
            time.sleep(0.25)

    def _apply(self, update: Update) -> None:
        now = time.time_ns() // 1_000_000
        findings = [replace(f, detected_at=f.at + 700) for f in update.findings]
        kept = [group for group in update.removed if group != GROUP]
        told = replace(update, findings=findings, removed=kept, now=now, wall=now)
        self.snapshot.apply(
            replace(told, unreadable={"truncated": 1}, lags={GROUP: lag(orders=7, dark=None)})
        )
        stages = {"addBatch": 0.3, "walCommit": 0.02, "triggerExecution": 0.4}
        self.snapshot.measured(stages=stages, lag_records=3)
        self.tallies.measured(stages)
        for finding in findings:
            self.tallies.sent("slack", "failed" if finding.kind is Kind.STORM else "ok")
        self.tallies.audited({"records": 0, "findings": 1, "groups": 0}, now - 2_000)


def begins_rebalancing(finding: Finding) -> bool:
    return finding.kind is Kind.REBALANCE_IN_PROGRESS and finding.phase == "opened"


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A Prometheus of its own over the committed rules, scraping `target` every second."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    config = yaml.safe_load((RULES / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"].update(scrape_interval="1s", evaluation_interval="1s")
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    config["rule_files"] = []
    for path in RULES.glob("*.rules.yml"):
        body = path.read_text(encoding="utf-8").replace("interval: 15s", "interval: 1s")
        (folder / path.name).write_text(body, encoding="utf-8")
        config["rule_files"].append(path.name)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [installed("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield f"http://{address}"
        finally:
            os.kill(process.pid, signal.SIGTERM)


def answer(
    client: httpx.Client, query: str, began: float, group: str = GROUP, team: str = ".*"
) -> list[dict[str, Any]]:
    given = {"query": asked_now(query, group, team), "start": began, "end": time.time(), "step": 1}
    body = json.loads(client.get("/api/v1/query_range", params=given).text)
    assert body["status"] == "success", body
    return list(body["data"]["result"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_panel_is_without_data_and_rules_work_on_a_real_run(tmp_path: Path) -> None:
    """Half a minute of real findings through the real endpoint into a real Prometheus."""
    installed("prometheus")
    list(all_updates())
    run = Run()
    with (
        Server(run.app, run.stream, "127.0.0.1", 0) as server,
        prometheus(tmp_path, f"127.0.0.1:{server.port}") as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        wait_for(lambda: is_ready(client))
        began = time.time()
        progress = next(query for board, panel, query in panels() if (board, panel) == IN_PROGRESS)
        run.feed(20.0, lambda: not all_zero(answer(client, progress, began)))
        wait_for(lambda: STORM in firing(client) and all(answers(client, began).values()))
        answered = answers(client, began)
        of_team = {
            place: answer(client, place[2], began, team=TEAM) for place in answered if FILTERED in place[2]
        }
        of_nobody = [answer(client, query, began, team="nobody") for _, _, query in of_team]
        evaluated = json.loads(client.get("/api/v1/rules").text)["data"]["groups"]
        alerts = firing(client)
    assert [place for place, found in answered.items() if not found] == []
    alive = {(board, panel) for (board, panel, _), found in answered.items() if not all_zero(found)}
    zero = {(board, panel) for board, panel, _ in answered} - alive
    assert zero == WELL
    broken = [(r["name"], r["lastError"]) for g in evaluated for r in g["rules"] if r["health"] != "ok"]
    assert broken == []
    assert STORM in alerts
    # What is shown of a team is its own groups' and less than everybody's.
    assert {series["metric"].get("group", GROUP) for found in of_team.values() for series in found} == {GROUP}
    assert any(of_team[place] != answered[place] for place in of_team)
    assert all(map(all_zero, of_nobody))


def answers(client: httpx.Client, began: float) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    return {(board, panel, query): answer(client, query, began) for board, panel, query in panels()}


def firing(client: httpx.Client) -> set[str]:
    alerts = json.loads(client.get("/api/v1/alerts").text)["data"]["alerts"]
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def all_zero(found: list[dict[str, Any]]) -> bool:
    return all(float(value) == 0 for series in found for _, value in series["values"])


def is_ready(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/-/ready").status_code == httpx.codes.OK
    return False


def wait_for(shown: Callable[[], bool]) -> None:
    """Wait for what a busy machine scrapes and evaluates late; the assertions find what never comes."""
    deadline = time.monotonic() + PATIENCE_S
    while not shown() and time.monotonic() < deadline:
        time.sleep(0.2)
