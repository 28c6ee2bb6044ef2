"""Frozen dataclasses with a quick constructor are what they were in every other respect."""

from dataclasses import FrozenInstanceError, dataclass, field, replace
from inspect import signature
from pickle import dumps, loads

import pytest

from rebalance_monitor.decoders.layouts import twins
from rebalance_monitor.decoders.layouts.twins import quickly_made


@dataclass(frozen=True, slots=True)
class Slow:
    """What the quick one is held against."""

    first: int
    second: str = "two"
    third: int | None = field(default=3, kw_only=True)


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    """The same fields, made quickly."""

    first: int
    second: str = "two"
    third: int | None = field(default=3, kw_only=True)


def test_it_takes_the_arguments_that_it_took() -> None:
    assert list(signature(Quick).parameters.values()) == list(signature(Slow).parameters.values())
    assert (Quick(1).first, Quick(1).second, Quick(1).third) == (1, "two", 3)
    assert Quick(1, "b", third=None) == Quick(first=1, second="b", third=None) != Quick(1)
    with pytest.raises(TypeError):
        Quick()  # type: ignore[call-arg] # it must be refused
    with pytest.raises(TypeError):
        Quick(1, "b", 3)  # type: ignore[misc] # as above


def test_it_is_frozen_hashable_copied_and_pickled_as_before() -> None:
    made = Quick(1)
    assert type(made) is Quick
    with pytest.raises((FrozenInstanceError, TypeError)):
        made.first = 2  # type: ignore[misc] # it must be refused
    assert made.first == 1
    assert hash(made) == hash(Slow(1)) == hash(Quick(1))
    assert replace(made, second="c") == Quick(1, "c")
    assert loads(dumps(made)) == made  # noqa: S301 - written a moment ago


def test_a_quick_copy_is_what_a_slow_one_is_and_frozen_too() -> None:
    made = Quick(1, "b", third=None)
    copied = twins.replace(made, second="c", third=7)
    assert copied == replace(made, second="c", third=7)
    assert type(copied) is Quick
    assert made == Quick(1, "b", third=None)
    with pytest.raises((FrozenInstanceError, TypeError)):
        copied.first = 2  # type: ignore[misc] # it must be refused
    with pytest.raises(AttributeError, match="fourth"):
        twins.replace(made, fourth=4)
    with pytest.raises(TypeError, match="Slow is not quickly made"):
        twins.replace(Slow(1), second="c")


def test_what_its_constructor_would_not_do_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Listed:
        names: list[str] = field(default_factory=list)

    @dataclass(frozen=True, slots=True)
    class Checked:
        name: str

        def __post_init__(self) -> None:
            raise ValueError(self.name)

    for layout in (Listed, Checked):
        with pytest.raises(TypeError, match="needs the constructor"):
            quickly_made(layout)
