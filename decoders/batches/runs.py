"""Folds the commits of a batch into commit runs (`rows`): Arrow columns, no Python per record.

The part of a commit's key behind the group is, byte for byte, an entry of T (topic length, topic, partition);
the committed offset is at byte 2 of every version's value: runs are assembled by copying slices.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rebalance_monitor.decoders.batches.columns import (
    WORD,
    Bytes,
    Cells,
    Ints,
    Mask,
    ascii_only,
    copy,
    from_bounds,
    gather,
    same,
    view,
)
from rebalance_monitor.decoders.batches.kernel import Commits
from rebalance_monitor.decoders.rows import BODY_VERSION, SAME_TOPIC

# Body: version byte, u32 length of T. An entry of T without its topic: u16 mark, i32 partition.
_HEAD, _ENTRY = 5, 6


@dataclass(frozen=True, slots=True)
class Borders:
    """Which rows begin a commit run, and which name another topic than the commit before in the run."""

    begins: Mask
    new_topic: Mask


@dataclass(frozen=True, slots=True)
class Runs:
    """Commit runs: first and last row of each in the batch, number of commits, group, body."""

    first: Ints
    last: Ints
    count: Ints
    group: pa.Array
    body: pa.Array


def borders(keys: Cells, found: Commits, shard: Ints) -> Borders:
    """Cut the commits of a batch (rows in partition and record order) into runs."""
    commit = found.is_commit
    joins = np.zeros(len(commit), np.bool_)
    joins[1:] = commit[1:] & commit[:-1] & (shard[1:] == shard[:-1])
    joins[1:] &= (found.commit_ts[1:] == found.commit_ts[:-1]) & (
        found.group_size[1:] == found.group_size[:-1]
    )
    topics = joins.copy()
    topics[1:] &= found.topic_size[1:] == found.topic_size[:-1]
    # Most commits name group and topic of the one before: that is seen in one comparison.
    _keep_same(topics, keys.data, found.group_start, found.group_size + 2 + found.topic_size)
    joins &= ~topics
    _keep_same(joins, keys.data, found.group_start, found.group_size)
    return Borders(commit & ~(joins | topics), commit & ~topics)


def _keep_same(joins: Mask, data: Bytes, starts: Ints, sizes: Ints) -> None:
    """Clear the rows of `joins` whose slice differs from the row's before."""
    rows = np.flatnonzero(joins)
    equal = same(data, starts[rows], starts[rows - 1], sizes[rows])
    joins[rows[~equal]] = False


def unreadable_names(keys: Cells, found: Commits, cut: Borders) -> Ints:
    """Return the commits whose group or topic is not UTF-8: the kernel took them, the parser must not."""
    bad = np.zeros(len(cut.begins), np.bool_)
    _mark(bad, keys, cut.begins, found.is_commit, found.group_start, found.group_size)
    _mark(bad, keys, cut.new_topic, found.is_commit, found.topic_start, found.topic_size)
    return np.flatnonzero(bad)


def _mark(bad: Mask, keys: Cells, new: Mask, commit: Mask, starts: Ints, sizes: Ints) -> None:
    """Mark in `bad` all commits from a row of `new` with such a name up to the next one."""
    rows = np.flatnonzero(new)
    doubtful = rows[~ascii_only(keys.data, starts[rows], sizes[rows])]
    if not len(doubtful):
        return
    wrong = [row for row in doubtful if not _is_text(keys.data, int(starts[row]), int(sizes[row]))]
    span = np.cumsum(new)
    bad |= commit & np.isin(span, span[wrong])


def _is_text(data: Bytes, start: int, size: int) -> bool:
    try:
        data[start : start + size].tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def assemble(keys: Cells, values: Cells, found: Commits, cut: Borders) -> Runs:
    """Lay the runs out as Arrow columns."""
    rows = np.flatnonzero(found.is_commit)
    begins = np.flatnonzero(cut.begins[rows])
    new_topic = cut.new_topic[rows]
    count = np.diff(np.append(begins, len(rows)))
    entry = _ENTRY + np.where(new_topic, found.topic_size[rows], 0)
    before = np.cumsum(entry) - entry
    size = np.diff(np.append(before[begins], entry.sum()))
    bounds = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(_HEAD + size + WORD * count, out=bounds[1:])
    body = np.empty(int(bounds[-1]) + WORD, np.uint8)
    start = bounds[:-1] + _HEAD
    _heads(body, bounds[:-1], size)
    at = before + np.repeat(start - before[begins], count)
    _entries(body, at, keys, found, rows, new_topic)
    place = np.arange(len(rows)) - np.repeat(begins, count)
    offsets_at = np.repeat(start + size, count) + WORD * place
    view(body, "<u8")[offsets_at] = view(values.data, "<u8")[values.starts[rows] + 2]
    first, last = rows[begins], rows[begins + count - 1]
    group = gather(keys.data, found.group_start[first], found.group_size[first], pa.string())
    return Runs(first, last, count, group, from_bounds(pa.binary(), bounds, body))


def _heads(body: Bytes, at: Ints, size: Ints) -> None:
    body[at] = BODY_VERSION
    view(body, ">u4")[at + 1] = size


def _entries(body: Bytes, at: Ints, keys: Cells, found: Commits, rows: Ints, new_topic: Mask) -> None:
    full, again = rows[new_topic], ~new_topic
    copy(body, at[new_topic], keys.data, found.topic_start[full] - 2, found.topic_size[full] + _ENTRY)
    view(body, "<u2")[at[again]] = SAME_TOPIC
    partition = found.topic_start[rows[again]] + found.topic_size[rows[again]]
    view(body, "<u4")[at[again] + 2] = view(keys.data, "<u4")[partition]
