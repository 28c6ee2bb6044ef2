"""Checks rows against the contracts without any library: what audits do where great-expectations is not.

One function for each kind of expectation in the table of contracts, under great-expectations' own name and
with its meaning: None is no value, which only `NotBeNull` minds; `mostly` is the share of the values that
must fit.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


def breaking(expectation: str, arguments: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the values that break an expectation, one for each row that does."""
    return list(EXPECTATIONS[expectation](rows, arguments))


def tolerated(arguments: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float:
    """Return how many values may break an expectation: the share beyond `mostly`."""
    share = 1 - float(arguments.get("mostly", 1.0))
    return share * len(_values(rows, arguments)) if share else 0.0


def _values(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> list[Any]:
    found = (row.get(arguments["column"]) for row in rows)
    return [value for value in found if value is not None]


def _in_set(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    known = arguments["value_set"]
    return (value for value in _values(rows, arguments) if value not in known)


def _between(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    low, high = arguments["min_value"], arguments["max_value"]
    for value in _values(rows, arguments):
        if (low is not None and value < low) or (high is not None and value > high):
            yield value


def _given(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    return (None for row in rows if row.get(arguments["column"]) is None)


def _matches(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    return (value for value in _values(rows, arguments) if not re.search(arguments["regex"], str(value)))


def _unique(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    return _repeated(_values(rows, arguments))


def _unique_together(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    return _repeated([tuple(row.get(name) for name in arguments["column_list"]) for row in rows])


def _repeated(values: list[Any]) -> Iterator[Any]:
    times = Counter(values)
    return (value for value in values if times[value] > 1)


def _pairs(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield both values of the rows that have both."""
    for row in rows:
        pair = row.get(arguments["column_A"]), row.get(arguments["column_B"])
        if None not in pair:
            yield pair


def _equal(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    return (pair for pair in _pairs(rows, arguments) if pair[0] != pair[1])


def _not_less(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Any]:
    return (pair for pair in _pairs(rows, arguments) if pair[0] < pair[1])


EXPECTATIONS: dict[str, Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], Iterator[Any]]] = {
    "ExpectColumnValuesToBeInSet": _in_set,
    "ExpectColumnValuesToBeBetween": _between,
    "ExpectColumnValuesToNotBeNull": _given,
    "ExpectColumnValuesToMatchRegex": _matches,
    "ExpectColumnValuesToBeUnique": _unique,
    "ExpectCompoundColumnsToBeUnique": _unique_together,
    "ExpectColumnPairValuesToBeEqual": _equal,
    # The table asks for it with `or_equal` alone.
    "ExpectColumnPairValuesAToBeGreaterThanB": _not_less,
}
