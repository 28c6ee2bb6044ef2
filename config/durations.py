"""Durations and times of day as Prometheus and Alertmanager write them: `30s`, `1h30m`, `250ms`; `09:00`.

Refuses a bare number but 0, units out of order, and fractions, as they do.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

_UNITS_MS = {
    "y": 31_536_000_000,
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile("".join(rf"(?:(\d{{1,9}}){unit})?" for unit in _UNITS_MS))
_TIME = re.compile(r"([01]\d|2[0-4]):([0-5]\d)")
_MINUTES_OF_DAY = 24 * 60
# What YAML 1.1 makes of a range of days or months lies between.
_LAST_DAY, _FIRST_YEAR = 31, 1970


def milliseconds(text: str) -> int:
    """Return the duration in ms; raises ValueError for a text that is none."""
    if text == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError(f"{text!r} is no duration; write 30s, 5m, 4h or 1h30m")
    return sum(
        int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS_MS.values(), strict=True)
    )


def minute_of_day(text: str) -> int:
    """Return minutes since midnight of `HH:MM`, `24:00` being the day's end; raises ValueError."""
    found = _TIME.fullmatch(text)
    minute = int(found[1]) * 60 + int(found[2]) if found else _MINUTES_OF_DAY + 1
    if minute > _MINUTES_OF_DAY:
        raise ValueError(f"{text!r} is no time of day; write 09:00")
    return minute


def sexagesimal(value: object) -> object:
    """Return a time of day that YAML has read as a number as it was written: `17:00` is 1020."""
    if type(value) is int and 0 <= value <= _MINUTES_OF_DAY:
        return f"{value // 60:02d}:{value % 60:02d}"
    return value


def ranged(value: object) -> object:
    """Return a day, month, year or range that YAML has read as a number as it was written: `1:5` is 65."""
    if type(value) is int:
        return str(value) if value <= _LAST_DAY or value >= _FIRST_YEAR else f"{value // 60}:{value % 60}"
    return value


def _lasting(text: str) -> str:
    if milliseconds(text) == 0:
        raise ValueError("must be longer than 0")
    return text


def _checked(text: str) -> str:
    milliseconds(text)
    return text


Duration = Annotated[str, AfterValidator(_checked)]
"""A field that holds a duration as it was written."""
Lasting = Annotated[str, AfterValidator(_lasting)]
"""The same, but for 0."""
TimeOfDay = Annotated[str, BeforeValidator(sexagesimal)]
"""A field that holds `HH:MM`."""
