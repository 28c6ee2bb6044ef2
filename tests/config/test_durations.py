"""Durations of the configuration: one type, written as Prometheus writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rebalance_monitor.config.durations import Duration, written
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.reference import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(st.integers(0, 10**12))
def test_a_duration_that_is_written_is_read_as_what_it_was(ms: int) -> None:
    assert Duration.read(written(ms)).ms == ms


def test_a_duration_is_written_as_a_person_would() -> None:
    told = {0: "0", 1_500: "1s500ms", 300_000: "5m", 5_400_000: "1h30m", 604_800_000: "7d"}
    assert {ms: written(ms) for ms in told} == told


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    yield "", Settings
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield name, type(field.default)
            yield from parts_of(type(field.default), name)


@pytest.mark.parametrize("text", ["36501d", "999999999d", "999999999h"])
def test_a_duration_that_no_calendar_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than 100 years"):
        Duration.read(text)


def test_no_key_of_the_configuration_has_a_unit_in_its_name() -> None:
    units = ("_ms", "_s", "_seconds", "_minutes", "_hours", "_days")
    keys = [f"{path}.{key}" for path, section in sections() for key in section.model_fields]
    assert [key for key in keys if key.endswith(units)] == []


def test_the_effective_configuration_has_durations_as_they_were_written() -> None:
    shown = Settings(trigger=Duration("1m30s")).redacted()
    assert json.loads(json.dumps(shown))["trigger"] == "1m30s"
