"""Finds the commits (types 0, 1 with a value) of a batch with numpy: no Python per record.

Takes only what it is certain of: a known version, every length within its bounds, both parts ending exactly
where they should, ASCII metadata shorter than `LONG`, no tag but the topic id. All else is left to the
readable parser (`record`). Whether group and topic are UTF-8 is `runs`' to check, once per distinct name.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rebalance_monitor.decoders.batches.columns import LONG, Bytes, Cells, Ints, Mask, ascii_only, view

# type, group length, topic length, partition; version, offset, metadata length, commit timestamp
_LEAST_KEY, _LEAST_VALUE = 2 + 2 + 2 + 4, 2 + 8 + 2 + 8
_NEWEST, _FLEXIBLE, _WITH_EPOCH, _WITH_EXPIRY = 4, 4, 3, 1
_MAX_STRING = 32767
_MAX_SHORT_VARINT = 127
# Tagged section of a v4 commit: none at all; or one field, tag 0, 16 bytes.
_NO_TAGS, _TOPIC_ID_TAGS = 1, 19
_TOPIC_ID_HEAD = 0x010010


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of a batch by row: where group and topic lie in the keys, and the commit timestamp (ms).

    The partition follows the topic; the committed offset is at byte 2 of every version's value.
    `is_commit` says which rows the other columns mean anything for.
    """

    is_commit: Mask
    group_start: Ints
    group_size: Ints
    topic_size: Ints
    commit_ts: Ints

    @property
    def topic_start(self) -> Ints:
        """Where the topic's bytes begin: its int16 length stands before them."""
        return self.group_start + self.group_size + 2


def scan(keys: Cells, values: Cells) -> Commits:
    """Return the commits that are certain."""
    rows = len(keys.starts)
    likely = keys.valid & values.valid & (keys.sizes >= _LEAST_KEY) & (values.sizes >= _LEAST_VALUE)
    at, group_size, topic_size = _names(keys, np.flatnonzero(likely))
    kept, commit_ts = _times(values, at)
    if len(kept) == rows:
        return Commits(np.ones(rows, np.bool_), keys.starts + 4, group_size, topic_size, commit_ts)
    found = Commits(np.zeros(rows, np.bool_), keys.starts + 4, *(np.zeros(rows, np.int64) for _ in range(3)))
    rows_kept = at[kept]
    found.is_commit[rows_kept] = True
    found.group_size[rows_kept] = group_size[kept]
    found.topic_size[rows_kept] = topic_size[kept]
    found.commit_ts[rows_kept] = commit_ts
    return found


def _names(keys: Cells, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Keep the rows whose key is exactly one of type 0 or 1; return them with both lengths."""
    starts, sizes = keys.starts[at], keys.sizes[at]
    head = _ints(keys.data, ">u8", starts)
    group = (head >> 32) & 0xFFFF
    fits = ((head >> 49) == 0) & (group <= np.minimum(sizes - _LEAST_KEY, _MAX_STRING))
    at, starts, sizes, group = _only(fits, at, starts, sizes, group)
    topic = _ints(keys.data, ">u2", starts + 4 + group)
    exact = (topic <= _MAX_STRING) & (_LEAST_KEY + group + topic == sizes)
    at, group, topic = _only(exact, at, group, topic)
    return at, group, topic


def _times(values: Cells, at: Ints) -> tuple[Ints, Ints]:
    """Keep the rows whose value is exactly of a known version; return which of `at`, and commit times."""
    starts, sizes = values.starts[at], values.sizes[at]
    version = view(values.data, ">u2")[starts]
    parts = []
    for number in range(_NEWEST + 1):
        which = np.flatnonzero(version == number)
        if len(which):
            start, size = (starts, sizes) if len(which) == len(at) else (starts[which], sizes[which])
            kept, commit_ts = _of_version(values.data, start, start + size, number)
            parts.append((which[kept], commit_ts))
    if len(parts) == 1:
        return parts[0]
    parts.append((np.zeros(0, np.int64), np.zeros(0, np.int64)))
    kept, commit_ts = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(kept)
    return kept[order], commit_ts[order]


def _of_version(data: Bytes, start: Ints, end: Ints, version: int) -> tuple[Ints, Ints]:
    """Do the same for values of one version between two positions each."""
    prefix = start + (14 if version >= _WITH_EPOCH else 10)
    if version < _FLEXIBLE:
        length = _ints(data, ">u2", prefix)
        text = prefix + 2
        sure = (length <= LONG) & (text + length + (16 if version == _WITH_EXPIRY else 8) == end)
    else:
        # A compact length is the length plus one; of more bytes than one (or null) it is not for here.
        length = data[prefix].astype(np.int64) - 1
        text = prefix + 1
        sure = (length >= 0) & (length < _MAX_SHORT_VARINT) & _known_tags(data, text + length + 8, end)
    kept = np.flatnonzero(sure)
    text, length = text[kept], length[kept]
    plain = _plain(data, text, length)
    kept, text, length = _only(plain, kept, text, length)
    return kept, _ints(data, ">i8", text + length)


def _known_tags(data: Bytes, start: Ints, end: Ints) -> Mask:
    """Return which tagged sections are empty or hold just the topic id."""
    size = end - start
    # Of a section of one byte the word lies partly beyond the value, but still in the padded buffer.
    head = view(data, ">u4")[np.where(size >= _NO_TAGS, start, 0)]
    empty, topic_id = (head >> 24) == 0, (head >> 8) == _TOPIC_ID_HEAD
    known: Mask = ((size == _NO_TAGS) & empty) | ((size == _TOPIC_ID_TAGS) & topic_id)
    return known


def _plain(data: Bytes, starts: Ints, sizes: Ints) -> Mask:
    plain = np.ones(len(sizes), np.bool_)
    some = np.flatnonzero(sizes)
    plain[some] = ascii_only(data, starts[some], sizes[some])
    return plain


def _ints(data: Bytes, dtype: str, at: Ints) -> Ints:
    """Read big-endian integers at any byte positions, as int64."""
    found: Ints = view(data, dtype)[at].astype(np.int64)
    return found


def _only(mask: Mask, *columns: npt.NDArray[np.int64]) -> tuple[Ints, ...]:
    """Keep the rows of a mask, without a copy where that is all of them."""
    return columns if mask.all() else tuple(column[mask] for column in columns)
