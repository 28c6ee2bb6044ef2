"""The kernel and the readable fold give the same rows, whatever the records and however they are laid out."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders import ROW_SCHEMA, Row, decode_batch, pieces, rows
from rebalance_monitor.decoders.batches import batch as under_test
from tests.decoders.encode import (
    TOPIC_ID_TAG,
    Pair,
    batch,
    commit_key,
    commit_value,
    group_key,
    group_value,
    member,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = ["g1", "g2", "payments-consumer-1", "payments-consumer-2", "", "团队-😀", "x" * 600, b"\xff\xfe"]
TOPICS = ["t", "orders.events.v1", "orders.events.v2", "", "grüße", "y" * 513, b"a\xc3"]
METADATA = ["", "", "", "m", "AgAAAYvP5Wg=", "ü", b"\xff", "z" * 126, "z" * 127, "z" * 600]


@st.composite
def commits(draw: st.DrawFn) -> list[Pair]:
    group, commit_ts = draw(st.sampled_from(GROUPS)), draw(st.sampled_from([1, 2, -1, 2**62]))
    found: list[Pair] = []
    for number in range(draw(st.integers(1, 6))):
        topic, version = draw(st.sampled_from(TOPICS)), draw(st.integers(0, 4))
        tags = draw(st.sampled_from([b"\0", TOPIC_ID_TAG, b"\1\7\0", b"\1\0\x0f", b"\2"]))
        metadata = draw(st.sampled_from(METADATA))
        key = commit_key(group, topic, number, draw(st.integers(0, 1)))
        found.append((key, commit_value(draw(st.integers(-1, 2**40)), commit_ts, version, metadata, tags)))
    return found


def others() -> st.SearchStrategy[list[Pair]]:
    known: list[Pair] = [
        (group_key("g1"), group_value(3, [member(0)])),
        (group_key("g1"), None),
        (commit_key("g1", "t", 1), None),
        (commit_key("g1", "t", 1) + b"more", commit_value(5, 1)),
        (commit_key("g1", "t", 1), commit_value(5, 1) + b"more"),
        (commit_key("g1", "t", 1), commit_value(5, 1, 3)[:-1]),
        (commit_key("g1", "t", 1), b"\0\5" + bytes(30)),
        (b"\0\x63" + string("g"), b"\0\0"),
        (None, commit_value(5, 1)),
        (b"", b""),
        (b"\0", None),
    ]
    return st.lists(st.sampled_from(known), min_size=1, max_size=3)


@st.composite
def mutated(draw: st.DrawFn) -> list[Pair]:
    found = draw(commits())
    at, chance = draw(st.integers(0, len(found) - 1)), random.Random(draw(st.integers()))  # noqa: S311 - seeded
    key, value = (bytearray(part or b"") for part in found[at])
    part = key if chance.random() < 0.5 else value
    part[chance.randrange(len(part))] = chance.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])
    if chance.random() < 0.3:
        del part[chance.randrange(len(part)) :]
    found[at] = (bytes(key), bytes(value))
    return found


def records(least: int = 1) -> st.SearchStrategy[list[Pair]]:
    some = st.lists(commits() | others() | mutated(), min_size=least, max_size=12)
    return some.map(lambda parts: [pair for part in parts for pair in part])


def by_kernel(of: pa.RecordBatch, buckets: int, monkeypatch: pytest.MonkeyPatch) -> pa.RecordBatch:
    with monkeypatch.context() as patch:
        patch.setattr(under_test, "SMALL", 0)
        return decode_batch(of, buckets)


def by_parser(of: pa.RecordBatch, buckets: int, monkeypatch: pytest.MonkeyPatch) -> pa.RecordBatch:
    with monkeypatch.context() as patch:
        patch.setattr(under_test, "SMALL", 2**31)
        return decode_batch(of, buckets)


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as found:
        yield found


@settings(max_examples=400, deadline=None)
@given(
    pairs=records(),
    seed=st.integers(),
    kind=st.sampled_from([pa.binary(), pa.large_binary()]),
    cut=st.integers(0, 3),
)
def test_kernel_and_readable_parser_give_the_same_rows(
    patch: pytest.MonkeyPatch, pairs: list[Pair], seed: int, kind: pa.DataType, cut: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - seeded
    partitions = [chance.randrange(3) if seed % 2 else 0 for _ in pairs]
    whole = batch(pairs, partitions, kind).slice(min(cut, len(pairs) - 1))
    kernel = by_kernel(whole, 4, patch)
    kernel.validate(full=True)
    assert kernel.equals(by_parser(whole, 4, patch))


@settings(max_examples=100, deadline=None)
@given(pairs=records(2), at=st.integers(0, 100))
def test_a_run_cut_by_a_border_becomes_two_rows_that_hold_the_same(
    patch: pytest.MonkeyPatch, pairs: list[Pair], at: int
) -> None:
    whole, at = batch(pairs), at % len(pairs)
    parts = [opened(by_kernel(part, 1, patch)) for part in (whole.slice(0, at), whole.slice(at))]
    assert [entry for part in parts for entry in part] == opened(by_kernel(whole, 1, patch))


def opened(found: pa.RecordBatch) -> list[object]:
    """Give what rows hold, commit by commit, without the runs' borders."""
    out: list[object] = []
    for line in found.to_pylist():
        row = Row(**line)
        if row.row_kind == rows.COMMIT_RUN:
            run = rows.commit_run(row)
            out += [(run.group, run.commit_ts, *entry) for entry in run.entries()]
        else:
            out.append(row)
    return out


def test_rows_come_in_record_order_and_runs_never_cross_partitions() -> None:
    pairs: list[Pair] = [(commit_key("g", "t", n), commit_value(n, 7)) for n in range(200)]
    found = [Row(**line) for line in decode_batch(batch(pairs, [1, 0] * 100)).to_pylist()]
    assert [(r.shard, r.first_offset, r.last_offset, r.count) for r in found] == [
        (0, 1, 199, 100),
        (1, 0, 198, 100),
    ]
    assert [p for _, p, _ in rows.commit_run(found[1]).entries()] == list(range(0, 200, 2))


def test_equal_partitions_and_equal_offsets_are_equal_bytes() -> None:
    def run(offset: int, commit_ts: int) -> rows.CommitRun:
        pairs: list[Pair] = [(commit_key("g", t, 3), commit_value(offset, commit_ts)) for t in "aab"]
        return rows.commit_run(Row(**decode_batch(batch(pairs)).to_pylist()[0]))

    assert run(5, 1).partitions_bytes == run(6, 2).partitions_bytes
    assert run(5, 1).offsets_bytes == run(5, 2).offsets_bytes != run(6, 3).offsets_bytes


def test_an_empty_batch_gives_no_rows_of_the_same_schema() -> None:
    found = decode_batch(batch([]))
    assert (found.schema, found.num_rows) == (ROW_SCHEMA, 0)


def test_a_sliced_batch_with_nulls_reads_only_its_own_rows(patch: pytest.MonkeyPatch) -> None:
    pairs: list[Pair] = [(commit_key("g", "t", n), commit_value(n, 7)) for n in range(90)]
    pairs[40] = (None, None)
    found = [Row(**line) for line in by_kernel(batch(pairs).slice(10, 70), 1, patch).to_pylist()]
    assert [(r.row_kind, r.first_offset, r.count) for r in found] == [
        ("commit_run", 10, 30),
        ("failure", 40, 1),
        ("commit_run", 41, 39),
    ]


def test_a_batch_that_may_not_fit_is_refused_and_its_pieces_hold_the_same(patch: pytest.MonkeyPatch) -> None:
    pairs: list[Pair] = [(commit_key("g", "t", n), commit_value(n, 7)) for n in range(90)]
    whole = batch(pairs)
    all_rows = opened(decode_batch(whole))
    with patch.context() as limit:
        limit.setattr(under_test, "LARGEST", 50_000)
        with pytest.raises(ValueError, match=r"90 records .* pieces\(\)"):
            decode_batch(whole)
        parts = list(pieces(whole))
        assert [entry for part in parts for entry in opened(decode_batch(part))] == all_rows
    assert len(parts) > 1
    assert list(pieces(whole)) == [whole]


def test_a_failure_row_keeps_at_most_64_kib_of_a_record() -> None:
    found = decode_batch(batch([(b"\0\x63", bytes(200_000))])).to_pylist()[0]
    kept = rows.failure(Row(**found))
    assert (kept.reason, len(kept.raw_value or b"")) == ("unknown_type", rows.RAW_LIMIT)


def test_a_body_of_another_version_is_refused() -> None:
    row = Row(0, 0, rows.COMMIT_RUN, 0, 0, 0, "g", 0, 1, b"\x02rest")
    with pytest.raises(rows.RowError, match="body version 02; known: 1"):
        rows.commit_run(row)
