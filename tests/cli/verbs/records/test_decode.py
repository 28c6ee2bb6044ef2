"""Decode: one line per record in the file's order, whatever is in it."""

import base64
import json
from pathlib import Path

import pytest

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import Metadata, write_capture
from tests.cli.support.records import CLIENTS, Records


def lines_of(
    records: Records, folder: Path, capsys: pytest.CaptureFixture[str], *flags: str
) -> tuple[int, list[dict[str, object]], str]:
    write_capture(folder / "c", [records.batch()], Metadata())
    code = run(["decode", "--capture", str(folder / "c"), *flags])
    told = capsys.readouterr()
    return code, [json.loads(line) for line in told.out.splitlines()], told.err


def test_every_record_is_one_line_in_order_with_the_promised_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    records.generation(1, 0, "g", 1, CLIENTS)
    records.commit(1, 5, "g", 12)
    records.add(0, 9, b"\0\2\0\1h", None)
    code, lines, _ = lines_of(records, tmp_path, capsys)
    assert code == 0
    assert [(line["partition"], line["offset"]) for line in lines] == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert all(list(line) == ["partition", "offset", "timestamp", "key", "value", "error"] for line in lines)
    assert lines[0]["key"] == {"type": 2, "data": {"group": "h"}}
    assert lines[0]["value"] is None
    assert [line["timestamp"] for line in lines[1:]] == [
        records.rows[0]["timestamp"],
        *[records.rows[1]["timestamp"]] * 2,
    ]


def test_what_is_asked_for_is_a_selection_of_all_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    for partition, group in enumerate(("orders-api", "orders-mail", "search")):
        records.generation(partition, 0, group, 1, CLIENTS)
        records.commit(partition, 5, group, 12)
    records.add(2, 9, b"\0\2\0\1", None)
    # As of Kafka's oldest format.
    records.rows[0]["timestamp"] = -1
    _, every, _ = lines_of(records, tmp_path, capsys)
    assert len(every) == len(records.rows)

    def group(line: dict[str, object]) -> str:
        data = (line["key"] or {}).get("data") or {}  # type: ignore[attr-defined] # an object
        return str(data.get("group", ""))

    for number, (flags, wanted) in enumerate(
        (
            (("--group", "orders-*"), [line for line in every if group(line).startswith("orders-")]),
            (("--partition", "2", "--partition", "0"), [line for line in every if line["partition"] != 1]),
            (("--group", "*mail", "--partition", "0"), []),
            (("--since", "2100-01-01"), []),
            (("--since", "1970-01-01"), [line for line in every if line["timestamp"] != -1]),
        )
    ):
        (folder := tmp_path / str(number)).mkdir()
        assert lines_of(records, folder, capsys, *flags)[1] == wanted, flags


def test_records_of_every_type_of_group_are_found_by_their_groups_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    capture = str(Path(__file__).parents[3] / "fixtures" / "scenarios" / "java-4.1.1" / "capture")
    assert run(["decode", "--capture", capture, "--group", "sigkill.*"]) == 0
    lines = [json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()]
    assert {line["type"] for line in lines} >= {1, 2, 3, 5, 6, 7, 8}
    assert all(name.startswith("sigkill.") for line in lines for name in [*line["data"].values()][:1])


def test_a_selection_without_any_record_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = Records()
    records.generation(1, 0, "g", 1, CLIENTS)
    code, lines, told = lines_of(records, tmp_path, capsys, "--group", "ordres-*")
    assert (code, lines, told) == (0, [], "nothing to print in 1 record\n")


def test_unreadable_records_are_lines_with_their_bytes_and_end_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    records.add(0, 0, b"\0\2\0\1g", b"\0\3\0")
    records.commit(0, 1, "g", 1, count=1)
    code, lines, told = lines_of(records, tmp_path, capsys)
    assert code == 1
    assert lines[0]["raw"] == {
        "key": base64.b64encode(b"\0\2\0\1g").decode(),
        "value": base64.b64encode(b"\0\3\0").decode(),
    }
    assert lines[1]["error"] is None
    assert "1 record could not be read" in told


def test_a_type_from_the_future_is_counted_apart_and_no_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records()
    records.add(0, 0, b"\0\x63abc", b"x")
    code, lines, told = lines_of(records, tmp_path, capsys)
    assert code == 0
    assert lines[0]["key"] == {"type": 99, "data": None}
    assert "unknown_type" in told


def test_expand_opens_what_clients_embed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = Records()
    records.generation(0, 0, "g", 1, CLIENTS)
    _, lines, _ = lines_of(records, tmp_path, capsys, "--expand")
    members = lines[0]["expanded"]["members"]  # type: ignore[index, call-overload]
    assert [member["subscription"]["topics"] for member in members] == [["orders"], ["orders"]]
