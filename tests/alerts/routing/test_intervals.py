"""Time intervals hold when Alertmanager's do: ends of short months, days without 24 hours, other zones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rebalance_monitor.alerts.setup.periods import interval_of
from rebalance_monitor.config.alerts import TimeInterval
from rebalance_monitor.config.texts import from_yaml


def holds(at: datetime, **fields: object) -> bool:
    return interval_of(TimeInterval.model_validate(fields)).holds(int(at.timestamp() * 1000))


@pytest.mark.parametrize(
    ("days", "month", "day", "expected"),
    [
        ("31", 4, 30, False),
        ("29:31", 2, 28, False),
        ("29:31", 4, 29, True),
        ("25:31", 2, 28, True),
        ("-31", 2, 1, False),
        ("-31:-29", 2, 1, False),
        ("-31:-1", 2, 1, True),
        ("-1", 2, 28, True),
        ("1:-1", 2, 28, True),
    ],
)
def test_a_day_that_a_month_does_not_have_is_no_other_day(
    days: str, month: int, day: int, *, expected: bool
) -> None:
    assert holds(datetime(2026, month, day, 12, tzinfo=UTC), days_of_month=[days]) is expected


def test_an_interval_follows_the_wall_clock_of_its_zone_over_a_change_of_the_clocks() -> None:
    night = {"location": "Europe/Berlin", "times": [{"start_time": "02:00", "end_time": "03:00"}]}
    # In spring there is no time between two and three.
    assert not holds(datetime(2026, 3, 29, 0, 59, tzinfo=UTC), **night)
    assert not holds(datetime(2026, 3, 29, 1, 0, tzinfo=UTC), **night)
    # In autumn it comes twice.
    assert holds(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), **night)
    assert holds(datetime(2026, 10, 25, 1, 30, tzinfo=UTC), **night)
    assert not holds(datetime(2026, 10, 25, 2, 0, tzinfo=UTC), **night)


def test_the_day_is_that_of_the_zone() -> None:
    sunday = datetime(2026, 11, 22, 15, 30, tzinfo=UTC)
    assert holds(sunday, weekdays=["sunday"])
    assert holds(sunday, weekdays=["monday"], location="Asia/Tokyo")


def test_times_without_quotes_are_times() -> None:
    # To YAML 1.1 17:00 is a number in base 60.
    office = from_yaml("times: [{start_time: 09:00, end_time: 17:00}]")
    assert isinstance(office, dict)
    assert holds(datetime(2026, 11, 20, 16, 59, tzinfo=UTC), **office)
    assert not holds(datetime(2026, 11, 20, 17, 0, tzinfo=UTC), **office)


@pytest.mark.parametrize("written", ["[1]", "[1:5]", "[-3:-1, 1]", "['1:5']"])
@pytest.mark.parametrize("field", ["days_of_month", "months"])
def test_days_months_and_years_without_quotes_keep_their_meaning(field: str, written: str) -> None:
    if field == "months":
        written = written.replace("-3:-1, ", "")
    fields = from_yaml(f"{{{field}: {written}, years: [2026, 2027:2028]}}")
    assert isinstance(fields, dict)
    assert holds(datetime(2026, 1, 1, 12, tzinfo=UTC), **fields)
    assert not holds(datetime(2026, 6, 6, 12, tzinfo=UTC), **fields)
    assert not holds(datetime(2029, 1, 1, 12, tzinfo=UTC), **fields)
