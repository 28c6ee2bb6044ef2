"""The three forms of data on stdout."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.cli.output import Form, fitting, to_line, write_rows, write_table
from rebalance_monitor.cli.verbs.answers import groups, history

VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=3)
ROWS = st.lists(st.dictionaries(st.text(min_size=1), VALUES, max_size=4), max_size=4)


def written(rows: list[dict[str, object]], form: Form, columns: list[str] | None = None) -> str:
    stream = io.StringIO()
    write_rows(rows, form, columns, stream)
    return stream.getvalue()


@given(ROWS)
def test_json_lines_read_back_one_row_a_line(rows: list[dict[str, object]]) -> None:
    lines = written(rows, Form.JSONL).split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == rows


@given(ROWS)
def test_json_reads_back_as_one_document(rows: list[dict[str, object]]) -> None:
    assert json.loads(written(rows, Form.JSON)) == rows


def test_a_table_off_a_terminal_cuts_nothing_and_reads_no_markup() -> None:
    rows: list[dict[str, object]] = [{"group": "g" * 300, "members": ["[red]a"], "note": None}]
    printed = written(rows, Form.TABLE, ["group", "members", "note"])
    head, row = printed.splitlines()
    assert head.split() == ["group", "members", "note"]
    assert row.split() == ["g" * 300, '["[red]a"]']


def test_no_rows_make_a_table_with_a_head_only() -> None:
    assert written([], Form.TABLE, ["group"]).split() == ["group"]


@given(st.text(), st.sampled_from(Form))
def test_nothing_that_steers_a_terminal_leaves_raw(name: str, form: Form) -> None:
    printed = written([{"group": name + "\x1b[2J\u202eevil\u2066\u200f"}], form)
    assert printed.replace("\n", "").isprintable()


def test_escapes_of_json_read_back_as_the_same_name() -> None:
    row: dict[str, object] = {"group": "a\u202eb\U000e0001ü😀\x7f"}
    line = to_line(row)
    assert json.loads(line) == row
    assert "ü😀" in line


def test_a_terminal_folds_a_long_name_and_loses_no_character() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream, name = Terminal(), "".join(chr(ord("a") + n % 26) for n in range(700))
    write_rows([{"group": name, "state": "Stable"}], Form.TABLE, None, stream)
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).replace("Stable", "").replace("state", "")
    assert re.sub(r"\s", "", text).removeprefix("group") == name


@given(st.text("abc -;", max_size=300), st.integers(40, 200))
def test_prose_that_finds_no_room_beside_its_row_stands_below_it_whole(prose: str, columns: int) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    rows = [{"at": "11:21:00", "what": "rebalance", "causes": prose}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        write_table(rows, None, out, below=("causes",))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert all(len(re.sub(r"\x1b\[\d*m", "", line)) <= columns for line in lines)
    row = next(line for line in lines if line.startswith("11:21:00"))
    # Beside the row or below it, and in no column of a few characters.
    told = row.removeprefix("11:21:00  rebalance") + "".join(lines[lines.index(row) + 1 :])
    assert re.sub(r"\s", "", told) == re.sub(r"\s", "", prose)
    assert row.startswith("11:21:00  rebalance")


def test_a_name_longer_than_any_terminal_is_whole_off_a_terminal() -> None:
    assert "x" * 32_000 in written([{"group": "x" * 32_000}], Form.TABLE)


def test_a_name_with_colons_stays_the_name_it_is() -> None:
    out = io.StringIO()
    write_rows([{"group": "orders:x:eu"}], Form.TABLE, stream=out)
    assert "orders:x:eu" in out.getvalue()


@given(
    st.lists(st.text(alphabet="abcde", min_size=1, max_size=9), min_size=1, max_size=6, unique=True),
    st.data(),
    st.integers(20, 140),
)
def test_a_narrow_terminal_leaves_out_the_least_of_the_optional_columns(
    names: list[str], data: st.DataObject, width: int
) -> None:
    rows = [{name: "x" * data.draw(st.integers(0, 40)) for name in names}]
    optional = data.draw(st.lists(st.sampled_from(names), unique=True))
    kept = fitting(names, rows, width, optional)
    assert [name for name in names if name in kept] == kept
    gone = [name for name in optional if name not in kept]
    assert gone == optional[len(optional) - len(gone) :]
    room = {name: max(len(name), len(rows[0][name])) + 2 for name in names}
    assert sum(room[name] for name in kept) - 2 <= width or len(gone) == len(optional)
    if gone:
        assert sum(room[name] for name in [*kept, gone[0]]) - 2 > width


@pytest.mark.parametrize("width", [80, 120])
def test_the_groups_of_a_usual_cluster_fit_the_terminal(width: int) -> None:
    rows = [
        dict.fromkeys(groups.COLUMNS, "")
        | {
            "group": "payments-api-consumer-v2",
            "trouble": "consumption stalled",
            "state": "PreparingRebalance",
        }
        | {
            "last cause": "poll interval exceeded 97%",
            "last rebalance": "2026-11-25T20:17:00Z",
            "lag": "1,204,377",
        }
    ]
    kept = fitting(groups.COLUMNS, rows, width, groups.OPTIONAL)
    assert sum(max(len(name), len(str(rows[0][name]))) + 2 for name in kept) - 2 <= width
    assert {"group", "trouble", "members", "lag"} <= set(kept)


@pytest.mark.parametrize("width", [80, 120])
def test_the_history_of_several_groups_fits_the_terminal(width: int) -> None:
    columns = ["at", "group", *history.COLUMNS[1:]]
    rows = [
        dict.fromkeys(columns, "")
        | {"at": "2026-11-25 20:17:00", "group": "payments-api-consumer-v2", "generation": 1_204}
        | {"finding": "rebalance in progress resolved", "severity": "critical"}
        | {"why": "poll interval exceeded 97%", "who": "payments-api-3"}
    ]
    kept = fitting(columns, rows, width, history.OPTIONAL)
    assert sum(max(len(name), len(str(rows[0][name]))) + 2 for name in kept) - 2 <= width
    assert {"at", "group", "finding"} <= set(kept)
    assert ("why" in kept) == (width > 80)
