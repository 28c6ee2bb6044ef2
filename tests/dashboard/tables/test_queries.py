"""The questions, asked of tables made of real captures, by DuckDB and by Spark, against the findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.alerts.messages.lead import waited_of
from rebalance_monitor.cli.main import run
from rebalance_monitor.config.teams import team_of
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard import queries
from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.dashboard.tables.groups_table import GroupsTable
from rebalance_monitor.dashboard.view.snapshot import Known
from rebalance_monitor.dashboard.web.views.events import event_row, events_of
from rebalance_monitor.dashboard.web.views.timeline import timeline
from tests.coordinator.lag.world import STEP, World
from tests.coordinator.lag.world import finding as made_finding
from tests.dashboard.support.played import all_findings
from tests.dashboard.support.tables import QUERY, write_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


Rows = list[dict[str, Any]]
TEAMS = {"crash-[a-l]*": "it's ours", "s?*": "\\"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("it's a job")


@pytest.fixture(scope="module")
def known(root: Path) -> Known:
    return write_tables(root)


@pytest.fixture(scope="module")
def duck(root: Path, known: Known) -> duckdb.DuckDBPyConnection:
    assert known.groups
    connection = duckdb.connect()
    connection.execute(queries.views("duckdb", root / "findings", root / "groups", TEAMS))
    return connection


def asked(duck: duckdb.DuckDBPyConnection, name: str) -> Rows:
    result = duck.execute(queries.query(name))
    columns = [column[0] for column in result.description]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def test_there_are_eleven_questions_and_each_says_what_it_answers() -> None:
    assert len(queries.names()) == 11
    assert all(queries.question(name).endswith(("?", ".")) for name in queries.names())


def test_rebalances_per_day_and_cause(duck: duckdb.DuckDBPyConnection) -> None:
    expected = Counter((f.group, f.causes[0].cause.value) for f in all_findings() if f.kind is Kind.REBALANCE)
    found: Counter[tuple[str | None, str]] = Counter()
    for row in asked(duck, "01_rebalances_per_day"):
        found[row["group_name"], row["cause"]] += row["rebalances"]
        assert 0 <= row["unsure"] <= row["rebalances"]
    assert found == expected


def test_worst_offenders(duck: duckdb.DuckDBPyConnection) -> None:
    rows = asked(duck, "02_worst_offenders")
    counts = Counter(f.group for f in all_findings() if f.kind is Kind.REBALANCE)
    assert {row["group_name"]: row["rebalances"] for row in rows if row["rebalances"]} == counts
    storms = Counter(f.group for f in all_findings() if f.kind is Kind.STORM and f.phase == "opened")
    assert {row["group_name"]: row["storms"] for row in rows if row["storms"]} == storms
    scores = [row["rebalances"] + 2 * row["failed_generations"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert any(row["failed_generations"] for row in rows)
    assert all(row["main_cause_rebalances"] for row in rows if row["rebalances"])


def test_time_lost(duck: duckdb.DuckDBPyConnection) -> None:
    rows = asked(duck, "03_time_lost")
    least = sum(f.stopped_ms_min or 0 for f in all_findings() if f.kind is Kind.REBALANCE)
    assert sum(row["stopped_s_at_least"] or 0 for row in rows) == pytest.approx(least / 1000)
    assert least > 0
    assert all((row["stopped_s_at_least"] or 0) <= (row["stopped_s_at_most"] or 0) for row in rows)


def test_what_rebalances_cost_adds_up_and_is_the_same_on_the_page_and_in_messages(tmp_path: Path) -> None:
    world, told = World(), []
    for stop in (2, 6):
        world.run(20)
        world.run(stop, reads=(), rebalancing=True)
        at = made_finding(Kind.REBALANCE, world.at, None, stopped_ms_min=1_000, stopped_ms_max=stop * STEP)
        told += world.lag.priced([replace(at, id=f"{stop}")])
        world.run(3)
    costs = world.of(Kind.REBALANCE_COST)
    assert len(costs) == 2
    write_findings(tmp_path / "findings", [*told, *costs], QUERY, 1)
    GroupsTable(tmp_path / "groups").write(Known(cluster="c1"), at=world.at)
    connection = duckdb.connect()
    connection.execute(queries.views("duckdb", tmp_path / "findings", tmp_path / "groups"))
    (row,) = asked(connection, "03_time_lost")
    assert (row["rebalances"], row["stopped_s_at_most"]) == (2, 8 * STEP / 1000)
    assert row["records_arrived"] == 8 * 4 * 10
    assert row["most_waiting"] == max(one.details["waiting_peak"] for one in costs)
    assert row["partition_seconds"] == 8 * 4 * STEP / 1000
    assert row["catching_up_s"] == sum(int(one.details["caught_up_ms"]) for one in costs) / 1000
    columns = timeline([*told, *costs])["columns"]
    assert sum(one["arrived"] or 0 for one in columns) == row["records_arrived"]
    assert max(one["waiting_peak"] or 0 for one in columns) == row["most_waiting"]
    assert sum(one["caught_up_ms"] or 0 for one in columns) == 1000 * row["catching_up_s"]
    assert sum(one["partition_seconds"] or 0 for one in columns) == row["partition_seconds"]
    events = [event_row(one) for one in events_of([*told, *costs])]
    assert [(one["kind"], one["waiting"]) for one in events] == [
        ("rebalance", one.details["waiting_peak"]) for one in costs[::-1]
    ]
    said = [waited_of(one) for one in costs]
    assert [text.split()[0] for text in said] == [f"{one.details['waiting_peak']:,}" for one in costs]


names_of_groups = st.text("abz-]!^\\'.", min_size=1, max_size=6)
patterns = st.lists(
    st.sampled_from(["*", "?", "[ab]*", "[!a]?", "a-*", "b", "z.", "'*"]), max_size=4, unique=True
)


@given(st.lists(names_of_groups, min_size=1, max_size=6, unique=True), patterns)
def test_a_group_s_team_is_that_of_the_first_pattern_that_matches(
    groups: list[str], drawn: list[str]
) -> None:
    """Held to the function that labels findings."""
    teams = {pattern: f"team '{number}'" for number, pattern in enumerate(drawn)}
    connection = duckdb.connect()
    connection.execute('CREATE TABLE named ("group" VARCHAR)')
    connection.executemany("INSERT INTO named VALUES (?)", [[group] for group in groups])
    sql = queries.team_sql("duckdb", teams)
    found = dict(connection.execute(f'SELECT "group", {sql} FROM named').fetchall())  # noqa: S608 - ours
    assert found == {group: team_of(group, teams) for group in groups}


def test_costs_add_up_by_team(tmp_path: Path) -> None:
    world = World()
    world.run(20)
    world.run(2, reads=(), rebalancing=True)
    made = made_finding(Kind.REBALANCE, world.at, None, stopped_ms_min=1_000, stopped_ms_max=2 * STEP)
    told = world.lag.priced([made])
    world.run(3)
    (cost,) = world.of(Kind.REBALANCE_COST)
    old = replace(cost, id="old", at=cost.at - 7 * 86_400_000)
    others = [replace(one, id=f"{one.id}2", group="other") for one in (*told, cost)]
    write_findings(tmp_path / "findings", [*told, cost, old, *others], QUERY, 1)
    GroupsTable(tmp_path / "groups").write(Known(cluster="c1"), at=world.at)
    connection = duckdb.connect()
    teams = {"g*": "payments"}
    connection.execute(queries.views("duckdb", tmp_path / "findings", tmp_path / "groups", teams))
    rows = {row["team"]: row for row in asked(connection, "11_cost_by_team")}
    assert rows.keys() == {"payments", ""}
    for row in rows.values():
        assert (row["groups_hit"], row["rebalances"], row["records_arrived"]) == (1, 1, 2 * 4 * 10)
        assert row["stopped_s_at_most"] == 2 * STEP / 1000


def test_flapping_members(duck: duckdb.DuckDBPyConnection) -> None:
    came: defaultdict[tuple[str | None, str], Counter[str]] = defaultdict(Counter)
    for finding in all_findings():
        for member in finding.members if finding.kind is Kind.REBALANCE else ():
            came[finding.group, member.client_id][member.role] += 1
    rows = asked(duck, "04_flapping_members")
    worst = rows[0]
    roles = came[worst["group_name"], worst["client_id"]]
    assert (worst["joined"], worst["left_group"]) == (roles["joined"], roles["left"])
    assert worst["group_name"].startswith("crash-loop")


def test_deployments_storms_and_timeouts(duck: duckdb.DuckDBPyConnection) -> None:
    findings = all_findings()
    restarts = [f for f in findings if f.kind is Kind.ROLLING_RESTART and f.scope.value == "group"]
    rows = asked(duck, "05_deployments")
    assert sorted(row["group_name"] for row in rows) == sorted(f.group or "" for f in restarts)
    assert all(row["rebalances"] >= 1 and row["took_s"] > 0 for row in rows)
    storms = {f.incident for f in findings if f.kind is Kind.STORM}
    rows = asked(duck, "06_storms")
    assert {row["incident"] for row in rows} == storms
    assert all(row["generations"] for row in rows)
    kinds = {Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED}
    # What many groups have in common is published once more of the cluster: that counts nobody twice.
    timeouts = [f for f in findings if f.kind in kinds and f.group]
    assert len(timeouts) < len([f for f in findings if f.kind in kinds])
    rows = asked(duck, "07_timeouts")
    assert sum(row["times"] for row in rows) == len(timeouts)
    assert any(row["longest_silence_ms"] for row in rows)


def test_empty_groups_and_trouble_now(duck: duckdb.DuckDBPyConnection, known: Known) -> None:
    empty = {f.incident for f in all_findings() if f.kind is Kind.GROUP_EMPTY}
    rows = asked(duck, "08_unattended")
    assert {row["incident"] for row in rows} == empty
    assert any(row["empty_s"] for row in rows)
    rows = asked(duck, "09_trouble_now")
    still = [one for one in known.incidents.open.values() if one.group in known.groups]
    assert len(rows) == len(still)
    assert rows[0]["severity"] == "critical"
    (as_of,) = {row["as_of"].replace(tzinfo=UTC).timestamp() * 1000 for row in rows}
    assert as_of == known.health.now


def test_the_monitors_own_pace(duck: duckdb.DuckDBPyConnection) -> None:
    rows = asked(duck, "10_monitor")
    assert sum(row["findings"] for row in rows) == len(all_findings())
    assert all(0 <= row["median_delay_s"] <= row["p99_delay_s"] for row in rows)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_answers_as_duckdb_does(
    spark: SparkSession, duck: duckdb.DuckDBPyConnection, root: Path
) -> None:
    for statement in queries.views("spark", root / "findings", root / "groups", TEAMS).split(";\n"):
        if statement.strip():
            spark.sql(statement)
    for name in queries.names():
        found = [row.asDict() for row in spark.sql(queries.query(name)).collect()]
        assert [plain(row) for row in found] == [plain(row) for row in asked(duck, name)], name


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers as floats: the engines' decimals differ in type; times without zone."""
    return {
        name: round(float(value), 6)
        if isinstance(value, int | float) or hasattr(value, "as_tuple")
        else value
        for name, value in row.items()
    }


@pytest.mark.usefixtures("known")
def test_the_verb_prints_sql_that_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = root.parent / "home"
    (home / "tables").mkdir(parents=True)
    for table in ("findings", "groups"):
        (home / "tables" / table).symlink_to(root / table)
    assert run(["table", "sql"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in queries.names())
    assert run(["table", "sql", "02_worst_offenders", "--set", f"storage.path={home}"]) == 0
    assert duckdb.connect().execute(capsys.readouterr().out).fetchall()
    assert run(["table", "sql", "nonsense"]) == 2
