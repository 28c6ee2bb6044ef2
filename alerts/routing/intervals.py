"""Time intervals for muting: times, weekdays, days of month, months, years, location, as in Alertmanager.

An interval holds at a moment where every field that is set has a range that holds it. Ranges include both
ends, but for times, which end before `end`. Negative days of the month count from its end.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval; every field empty holds always.

    times: minutes of the day [start, end). weekdays: 0 Sunday to 6. days_of_month: 1 to 31 or -31 to -1.
    months: 1 to 12. location: an IANA zone name.
    """

    times: tuple[Range, ...] = ()
    weekdays: tuple[Range, ...] = ()
    days_of_month: tuple[Range, ...] = ()
    months: tuple[Range, ...] = ()
    years: tuple[Range, ...] = ()
    location: str = "UTC"

    def holds(self, now: int) -> bool:
        """Whether the interval holds at `now` (ms since epoch)."""
        at = datetime.fromtimestamp(now / 1000, ZoneInfo(self.location))
        minute = at.hour * 60 + at.minute
        return (
            (not self.times or any(start <= minute < end for start, end in self.times))
            and _within(self.weekdays, at.isoweekday() % 7)
            and self._in_month(at)
            and _within(self.months, at.month)
            and _within(self.years, at.year)
        )

    def _in_month(self, at: datetime) -> bool:
        if not self.days_of_month:
            return True
        length = monthrange(at.year, at.month)[1]
        days = ((_day(start, length), _day(end, length)) for start, end in self.days_of_month)
        return any(start <= at.day <= end for start, end in days)


def any_holds(intervals: Iterable[Interval], now: int) -> bool:
    """Whether one of the intervals holds at `now` (ms since epoch)."""
    return any(interval.holds(now) for interval in intervals)


def _within(ranges: tuple[Range, ...], value: int) -> bool:
    return not ranges or any(start <= value <= end for start, end in ranges)


def _day(day: int, length: int) -> int:
    """Return the day as counted from the month's beginning; a month of `length` days may not have it."""
    return length + day + 1 if day < 0 else day
