"""What lanes hand over is taken whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.engine.batch.step import OutRow
from rebalance_monitor.streaming.rows import handover
from rebalance_monitor.streaming.rows.handover import (
    Handed,
    Handover,
    HandoverLimitError,
    IncompleteBatchError,
)
from rebalance_monitor.streaming.rows.lanes import Lanes

LANES = Lanes(7, 2, 3)
ROWS = st.lists(
    st.builds(
        OutRow,
        st.sampled_from(["finding", "group", "removed", "stat"]),
        st.integers(0, 49),
        st.text(max_size=20),
        st.text(max_size=80),
    ),
    max_size=12,
)


def handed(key: int, rows: list[OutRow], cut: int) -> list[Handed]:
    """What a lane gives; its rows come from its coordinators in portions of `cut`."""
    lane = Handover(key)
    portions = [rows[at : at + cut] for at in range(0, len(rows), cut)]
    return [one for portion in portions for one in lane.add(portion)] + list(lane.end())


@given(
    given_rows=st.lists(ROWS, min_size=3, max_size=3),
    cut=st.integers(1, 5),
    pack_rows=st.integers(1, 4),
    data=st.data(),
)
def test_a_batch_is_taken_only_with_everything_that_each_lane_gave(
    given_rows: list[list[OutRow]], cut: int, pack_rows: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handover, "PACK_ROWS", pack_rows)
        lanes = [handed(key, rows, cut) for key, rows in zip(LANES.keys, given_rows, strict=True)]
    whole = [one for number in data.draw(st.permutations(range(3))) for one in lanes[number]]
    assert sorted(handover.unpacked(whole, LANES)) == sorted(row for rows in given_rows for row in rows)
    # Whatever is lost, at the end as where a socket closes, or anywhere.
    kept = data.draw(st.sets(st.integers(0, len(whole) - 1), max_size=len(whole) - 1))
    with pytest.raises(IncompleteBatchError):
        handover.unpacked([whole[at] for at in sorted(kept)], LANES)
    with pytest.raises(IncompleteBatchError):
        handover.unpacked(whole + data.draw(st.lists(st.sampled_from(whole), min_size=1)), LANES)


def test_an_incomplete_batch_is_said_by_lane_and_partitions() -> None:
    lanes = [handed(key, [OutRow("stat", 0, "", "{}")], 1) for key in LANES.keys]
    cut = [*lanes[0], *lanes[1][:1], *lanes[2][1:]]
    with pytest.raises(IncompleteBatchError) as refused:
        handover.unpacked(cut, LANES)
    assert str(refused.value) == (
        "lane 1 (partitions 0, 2, 3, 5, 6): 1 rows came, the lane gave no end marker; "
        "lane 2 (partitions 1, 2, 4, 5): 0 rows came, the lane gave 1"
    )


def test_rows_of_a_lane_stay_in_order_and_long_ones_lie_in_packs_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "PACK_CHARS", 100)
    rows = [OutRow("finding", 1, f"g{n}", "x" * (n % 3) * 60) for n in range(20)]
    lanes = Lanes(1, 1, 1)
    given_packs = handed(lanes.keys[0], rows, 7)
    assert handover.unpacked(given_packs, lanes) == rows
    assert len(given_packs) > len(rows) // 3


def test_a_lane_hands_over_no_more_than_its_share_of_the_heap() -> None:
    limit = handover.lane_limit(8 << 20, Lanes(2, 1, 2))
    assert limit == 512 << 10
    lane = Handover(0, limit)
    noise = "".join(chr(n * 7919 % 50_000 + 32) for n in range(99_999))
    rows = [OutRow("finding", 0, "", noise[at:]) for at in range(99)]
    with pytest.raises(HandoverLimitError, match=r"more than 0\.5 MB .* `spark\.driver\.memory`"):
        list(lane.add([row for _ in range(99) for row in rows]))


def test_json_shrinks_to_a_fraction_on_its_way() -> None:
    body = '{"schema":1,"kind":"rebalance","members":[%s]}'
    rows = [
        OutRow("finding", 0, f"g{n}", body % ",".join(f'{{"member_id":"c-{n}-{m}"}}' for m in range(50)))
        for n in range(200)
    ]
    packs = handed(0, rows, 200)
    assert sum(len(one.pack) for one in packs) < sum(len(row.body) for row in rows) / 8
