"""`groups`, `history` and `top`: over a running monitor, over tables, over a replay; as table and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rebalance_monitor.alerts.messages.text import moment
from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run
from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.dashboard.tables.groups_table import FILE, GroupsTable
from rebalance_monitor.dashboard.tables.parquet import parquet_bytes
from rebalance_monitor.engine.storage import storage_at
from tests.alerts.support.fakes import Answer, Fake
from tests.alerts.support.findings import finding
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rebalance_monitor.engine.storage import Storage


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(known.snapshot_of(known.replayed()), live=False) as client:
        yield str(client.base_url)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage")
    storage = storage_at(folder)
    told = [finding for view in known.replayed().groups.values() for finding in view.recent]
    write_findings(storage.findings, [*told, *known.replayed().others], "0b31a4ad", 1)
    GroupsTable(storage.groups).write(known.replayed(), known.T0)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == ExitCode.FINE
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in printed(capsys, *arguments, "-o", "jsonl").splitlines()]


def test_groups_are_the_same_from_monitor_and_tables(
    capsys: pytest.CaptureFixture[str], url: str, tables: Path
) -> None:
    live = rows(capsys, "groups", "--url", url)
    kept = rows(capsys, "groups", "--tables", str(tables))
    assert live[0]["trouble"] == "storm"
    assert {row["group"]: (row["state"], row["generation"]) for row in live} == {
        row["group"]: (row["state"], row["generation"]) for row in kept
    }
    assert [
        row["group"] for row in rows(capsys, "groups", "sigkill", "--url", url, "--sort", "group")
    ] == sorted(str(row["group"]) for row in live if "sigkill" in str(row["group"]))


def test_history_lists_generations_causes_and_members(
    capsys: pytest.CaptureFixture[str], url: str, tables: Path
) -> None:
    over_http = rows(capsys, "history", known.STORMY, "--url", url)
    assert over_http == rows(capsys, "history", known.STORMY, "--tables", str(tables))
    # What concerns many groups names it among them.
    assert all(row["group"] == known.STORMY or known.STORMY in str(row["groups"]) for row in over_http)
    table = printed(capsys, "history", known.STORMY, "--url", url, "--kind", "session_timeout")
    assert "session timeout 97%" in table
    assert f"{known.STORMY}-d" in table


def test_history_of_a_pattern_is_that_of_every_group_like_it(
    capsys: pytest.CaptureFixture[str], url: str, tables: Path
) -> None:
    pattern = f"{known.STORMY[:-3]}*"
    over_http = rows(capsys, "history", pattern, "--url", url)
    assert over_http == rows(capsys, "history", pattern, "--tables", str(tables))
    one = rows(capsys, "history", known.STORMY, "--url", url)
    assert {str(row["id"]) for row in one} <= {str(row["id"]) for row in over_http}
    every = rows(capsys, "history", "*", "--url", url, "--limit", "1000")
    assert {str(row["id"]) for row in over_http} < {str(row["id"]) for row in every}
    assert "group" in printed(capsys, "history", pattern, "--url", url).splitlines()[0]


def test_an_hour_ago_is_counted_from_the_last_that_is_known(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    every = rows(capsys, "history", "*", "--url", url, "--limit", "1000")
    newest = max(int(str(row["at"])) for row in every)
    since = rows(capsys, "history", "*", "--url", url, "--limit", "1000", "--since", "20s")
    assert 0 < len(since) < len(every)
    assert [row for row in every if int(str(row["at"])) >= newest - 20_000][: len(since)] == since
    assert run(["history", "*", "--url", url, "--since", "yesterday"]) == ExitCode.USAGE
    capsys.readouterr()
    assert run(["history", "*", "--url", url, "--since", "5"]) == ExitCode.USAGE
    assert "'5' has no unit; write 5s, 5m, 5h or ms since epoch" in capsys.readouterr().err


def test_groups_of_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "groups", "crash", "--capture", str(known.CAPTURE), "-o", "json"))
    assert {row["group"] for row in found} == {name for name in known.replayed().groups if "crash" in name}


def test_nothing_known_is_exit_code_one(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert run(["history", "nobody\x1b[2J", "--url", url]) == ExitCode.PROBLEMS
    assert "\x1b" not in capsys.readouterr().err


def test_no_answer_is_exit_code_three(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["groups", "--url", "http://127.0.0.1:9"]) == ExitCode.UNREACHABLE
    assert run(["groups", "--tables", str(tmp_path)]) == ExitCode.UNREACHABLE
    missing = ["--set", "web.port=9", "--set", f"storage.path={tmp_path / 'none'}"]
    assert run(["history", "g", *missing]) == ExitCode.UNREACHABLE
    assert "no monitor answers at http://127.0.0.1:9" in capsys.readouterr().err


def damaged_groups(storage: Storage) -> None:
    storage.groups.mkdir(parents=True)
    (storage.groups / FILE).write_bytes(b"PAR1 no longer PAR1")


def damaged_findings(storage: Storage) -> None:
    (path,) = write_findings(storage.findings, [finding()], "0b31a4ad", 1)
    path.write_bytes(b"")


def foreign_findings(storage: Storage) -> None:
    (path,) = write_findings(storage.findings, [finding()], "0b31a4ad", 1)
    replace_file(path, parquet_bytes(pa.table({"somebody": ["else's"]})))


@pytest.mark.parametrize("break_", [damaged_groups, damaged_findings, foreign_findings])
def test_tables_that_cannot_be_read_are_reported_by_their_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, break_: Callable[[Storage], None]
) -> None:
    break_(storage_at(tmp_path))
    assert run(["groups", "--tables", str(tmp_path)]) == ExitCode.UNREACHABLE
    assert str(tmp_path) in capsys.readouterr().err


def test_a_proxy_that_answers_in_the_place_of_the_monitor_is_reported_by_its_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Fake() as proxy:
        proxy.script.append(Answer(502, b'["bad gateway"]'))
        assert run(["groups", "--url", proxy.url]) == ExitCode.UNREACHABLE
    assert "Bad Gateway" in capsys.readouterr().err


def test_the_tables_of_the_configuration_answer_when_the_monitor_is_down(
    capsys: pytest.CaptureFixture[str], tables: Path
) -> None:
    found = rows(capsys, "groups", "--set", "web.port=9", "--set", f"storage.path={tables}")
    assert len(found) == len(known.replayed().groups)


def test_groups_of_tables_say_as_of_when_they_are(capsys: pytest.CaptureFixture[str], tables: Path) -> None:
    assert run(["groups", "--tables", str(tables)]) == ExitCode.FINE
    assert f"from {tables} (groups as of {moment(known.T0)})" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["groups", "--url", "http://127.0.0.1:9", "--tables", "."],
        ["history"],
        ["top", "--every", "0"],
        ["top", "--pace", "1"],
    ],
)
def test_misuse_is_exit_code_two(arguments: list[str]) -> None:
    assert run(arguments) == ExitCode.USAGE
