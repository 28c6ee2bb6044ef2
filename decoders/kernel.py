"""Finds the commits (types 0, 1 with a value) of a batch with numpy: no Python per record.

Takes only what it is certain of: a known version, every length within its bounds, both parts ending exactly
where they should, ASCII metadata shorter than `LONG`, no tag but the topic id. All else is left to the
readable parser (`record`). Whether group and topic are UTF-8 is `runs`' to check, once per distinct name.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rebalance_monitor.decoders.columns import LONG, Bytes, Cells, Ints, Mask, ascii_only, view

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
    at = np.flatnonzero(likely)
    at, group_size, topic_size = _names(keys, at)
    at, kept, commit_ts = _times(values, at)
    found = Commits(np.zeros(rows, np.bool_), keys.starts + 4, *(np.zeros(rows, np.int64) for _ in range(3)))
    found.is_commit[at] = True
    found.group_size[at] = group_size[kept]
    found.topic_size[at] = topic_size[kept]
    found.commit_ts[at] = commit_ts
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


def _times(values: Cells, at: Ints) -> tuple[Ints, Ints | slice, Ints]:
    """Keep the rows whose value is exactly one of a known version; return them, which, and commit times."""
    starts, sizes = values.starts[at], values.sizes[at]
    version = _ints(values.data, ">u2", starts)
    flexible = version == _FLEXIBLE
    prefix = starts + np.where(version >= _WITH_EPOCH, 14, 10)
    length = _ints(values.data, ">u2", prefix)
    # A compact length of one byte is the length plus one; of more bytes (or null) is not for here.
    short = length >> 8
    certain = ~flexible | ((short > 0) & (short <= _MAX_SHORT_VARINT))
    length = np.where(flexible, short - 1, length)
    text = prefix + np.where(flexible, 1, 2)
    rest = starts + sizes - (text + length + 8)
    certain &= (version <= _NEWEST) & (length <= LONG)
    certain &= np.where(
        flexible,
        (rest == _NO_TAGS) | (rest == _TOPIC_ID_TAGS),
        rest == np.where(version == _WITH_EXPIRY, 8, 0),
    )
    kept = np.flatnonzero(certain)
    text, length, rest = text[kept], length[kept], rest[kept]
    sure = _tags_known(values.data, text + length + 8, np.where(flexible[kept], rest, 0))
    sure &= _plain(values.data, text, length)
    kept, text, length = _only(sure, kept, text, length)
    return at[kept], kept, _ints(values.data, ">i8", text + length)


def _tags_known(data: Bytes, at: Ints, size: Ints) -> Mask:
    """Tell which tagged sections (`size` 0: none in this version) are empty or hold just the topic id."""
    if not size.any():
        return np.ones(len(size), np.bool_)
    # Of a section of one byte the word lies partly beyond the value, but still in the padded buffer.
    head = _ints(data, ">u4", at)
    empty, topic_id = (head >> 24) == 0, (head >> 8) == _TOPIC_ID_HEAD
    known: Mask = (size == 0) | np.where(size == _NO_TAGS, empty, topic_id)
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
