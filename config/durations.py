"""Durations and times of day as Prometheus and Alertmanager write them: `30s`, `1h30m`, `250ms`; `09:00`.

Every duration of the configuration is a `Duration`. Refuses a bare number but 0, units out of order, and
fractions, as Prometheus does.
"""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_UNITS_MS = {
    "y": 31_536_000_000,
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
LONGEST_MS = 36_500 * 86_400_000
"""Clocks and calendars end not far beyond."""
_DURATION = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in _UNITS_MS))
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")
_TIME = re.compile(r"([01]\d|2[0-4]):([0-5]\d)")
_MINUTES_OF_DAY = 24 * 60


def milliseconds(text: str) -> int:
    """Return the duration in ms; raises ValueError for a text that is none."""
    if text == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError(f"{text!r} is no duration; write 30s, 5m, 4h or 1h30m")
    ms = sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS_MS.values(), strict=True))
    if ms > LONGEST_MS:
        raise ValueError(f"{text!r} is longer than 100 years")
    return ms


def written(ms: int) -> str:
    """Return the duration as a person writes it: `5m`, `1h30m`, `7d`, `0`."""
    parts, rest = [], ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0"


class Duration(str):
    """A duration as it was written; `ms` and `seconds` say how long it is. `5` has no unit: refused."""

    __slots__ = ()

    @property
    def ms(self) -> int:
        """The duration in ms."""
        return milliseconds(self)

    @property
    def seconds(self) -> float:
        """The duration in s."""
        return self.ms / 1_000

    @classmethod
    def read(cls, value: object) -> Self:
        """Return what a file, a flag or a variable says. Raises ValueError for what is no duration."""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError("must be a duration, such as 30s, 5m, 4h or 1h30m")  # noqa: TRY004 - pydantic's own
        text = str(value)
        if _NUMBER.fullmatch(text) and text != "0":
            raise ValueError(f"{text} has no unit; write 30s, 5m, 4h or 1h30m")
        milliseconds(text)
        return cls(text)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _core: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        pattern = f"^({_DURATION.pattern}|0)$".replace("?:", "")
        # A bare 0 is the one number.
        return {"type": ["string", "integer"], "pattern": pattern, "minimum": 0, "maximum": 0}


def minute_of_day(text: str) -> int:
    """Return minutes since midnight of `HH:MM`, `24:00` being the day's end; raises ValueError."""
    found = _TIME.fullmatch(text)
    minute = int(found[1]) * 60 + int(found[2]) if found else _MINUTES_OF_DAY + 1
    if minute > _MINUTES_OF_DAY:
        raise ValueError(f"{text!r} is no time of day; write 09:00")
    return minute


def _lasting(given: Duration) -> Duration:
    if given.ms == 0:
        raise ValueError("must be longer than 0")
    return given


Lasting = Annotated[Duration, AfterValidator(_lasting)]
"""A duration longer than 0."""
