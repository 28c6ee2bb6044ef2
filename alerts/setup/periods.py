"""Time intervals of the configuration, in Alertmanager's spelling, as the engine's.

`monday:friday`, `1:5` or `-3:-1` of a month, `january:march`, `2026:2027`, times `09:00` to `17:00`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rebalance_monitor.alerts.routing.intervals import Interval, Range
from rebalance_monitor.config.durations import minute_of_day

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.config.alerts import TimeInterval, TimeRange

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
WEEKDAYS = {name: number for number, name in enumerate(_WEEKDAYS)}
MONTHS = {name: number for number, name in enumerate(_MONTHS, 1)} | {str(n): n for n in range(1, 13)}
_DAYS_OF_MONTH = {str(day): day for day in (*range(-31, 0), *range(1, 32))}
_YEARS = {str(year): year for year in range(1970, 10_000)}


def interval_of(section: TimeInterval) -> Interval:
    """Return the interval; raises ValueError naming the range that is none."""
    try:
        ZoneInfo(section.location)
    except (OSError, ValueError, ZoneInfoNotFoundError) as error:
        raise ValueError(f"{section.location!r} is no time zone") from error
    return Interval(
        times=tuple(_times(part) for part in section.times),
        weekdays=tuple(_range(text, WEEKDAYS, "range of weekdays") for text in section.weekdays),
        days_of_month=tuple(_days(text) for text in section.days_of_month),
        months=tuple(_range(text, MONTHS, "range of months") for text in section.months),
        years=tuple(_range(text, _YEARS, "range of years") for text in section.years),
        location=section.location,
    )


def _times(section: TimeRange) -> Range:
    start, end = minute_of_day(section.start_time), minute_of_day(section.end_time)
    if start >= end:
        raise ValueError(f"{section.start_time} is not before {section.end_time}; split it at 24:00")
    return start, end


def _range(text: str, names: Mapping[str, int], what: str) -> Range:
    first, colon, last = text.strip().lower().partition(":")
    start, end = names.get(first), names.get(last if colon else first)
    if start is None or end is None or start > end:
        raise ValueError(f"{text!r} is no {what}")
    return start, end


def _days(text: str) -> Range:
    first, colon, last = text.strip().partition(":")
    start, end = _DAYS_OF_MONTH.get(first), _DAYS_OF_MONTH.get(last if colon else first)
    mixed = start is not None and end is not None and start < 0 < end
    if start is None or end is None or mixed or (start > end and (start < 0) == (end < 0)):
        raise ValueError(f"{text!r} is no range of days of the month")
    return start, end
