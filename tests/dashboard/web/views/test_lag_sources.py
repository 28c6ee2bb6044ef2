"""A row says where its lag comes from, and nothing of a group without lag."""

from dataclasses import replace

from rebalance_monitor.coordinator.lag.measured import Source
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.views.board import Board
from tests.dashboard.support.lags import AT, lag


def test_a_row_says_where_offsets_and_ends_come_from() -> None:
    measured = replace(lag(orders=7), as_of=AT, asked_at=AT, source=Source.BROKERS)
    lags = {"measured": measured, "fresh": replace(lag(orders=7), as_of=AT - 1_000, asked_at=AT)}
    snapshot = Snapshot("c")
    snapshot.apply(Update(groups={name: {"members": 1} for name in (*lags, "dark")}, lags=lags))
    board = Board(snapshot.known, AT)
    rows = {entry.name: board.row(entry) for entry in board.entries}
    said = {name: (row["lag_offsets"], row["lag_ends"]) for name, row in rows.items()}
    assert said == {"measured": ("brokers", "brokers"), "fresh": ("topic", "interpolated"), "dark": ("", "")}
