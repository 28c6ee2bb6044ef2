"""Frozen dataclasses constructed at the cost of mutable ones.

The constructor that `dataclass(frozen=True)` writes sets each field by a call of `object.__setattr__`, so an
object of forty fields costs as much as the reading of a record. Here an object is made as one of a subclass
that may be written to, and becomes frozen, for good, by a change of its `__class__`.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")
_copiers: dict[type, Callable[[Any], Any]] = {}


@cache
def open_twin(layout: type) -> type:
    """Make a subclass of a frozen `layout` whose attributes can be set at the price of a local variable.

    An object of it becomes one of `layout`, for good, by a change of its `__class__`.
    """
    own = {name: getattr(object, name) for name in ("__init__", "__setattr__", "__delattr__")}
    return type(layout.__name__, (layout,), {"__slots__": (), **own})


def quickly_made(layout: type[_T]) -> type[_T]:
    """Give a frozen, slotted dataclass that is made by the ten thousand a quick constructor; stands above it.

    It takes the same arguments. Raises TypeError for a class with `__post_init__`, or whose fields are not
    all arguments, or are made by a factory; a subclass must not use it, its objects would be of `layout`.
    """
    plain: Any = layout
    own = fields(plain)
    if hasattr(layout, "__post_init__") or not all(map(_is_argument, own)):
        raise TypeError(f"{layout.__name__} needs the constructor that its dataclass has")
    names: dict[str, Any] = {"C": layout, "Open": open_twin(plain), "set": object.__setattr__}
    exec(_source(own), names)  # noqa: S102 - the source comes from the names of the fields alone
    exec(_copier(own), names)  # noqa: S102 - as above
    _copiers[layout] = names["copied"]
    made, usual = names["__init__"], plain.__init__
    made.__defaults__, made.__kwdefaults__ = usual.__defaults__, usual.__kwdefaults__
    made.__annotations__, made.__qualname__ = usual.__annotations__, usual.__qualname__
    plain.__init__ = made
    return layout


def replace(one: _T, /, **changes: object) -> _T:
    """Copy of an object of a `quickly_made` class with other values; as `dataclasses.replace`, but quick.

    Raises TypeError for another class, AttributeError for what is no field.
    """
    layout = type(one)
    copied = _copiers.get(layout)
    if copied is None:
        raise TypeError(f"{layout.__name__} is not quickly made: use dataclasses.replace")
    made: _T = copied(one)
    for name, value in changes.items():
        setattr(made, name, value)
    made.__class__ = layout
    return made


def _is_argument(field: Field[Any]) -> bool:
    return field.init and field.default_factory is MISSING


def _source(own: tuple[Field[Any], ...]) -> str:
    """Write the constructor, arguments in the order that the dataclass gives them."""
    by_place = [field.name for field in own if not field.kw_only]
    by_name = [field.name for field in own if field.kw_only]
    arguments = ", ".join(["self", *by_place, *["*"][: len(by_name)], *by_name])
    body = ["set(self, '__class__', Open)", *(f"self.{field.name} = {field.name}" for field in own)]
    return "\n    ".join([f"def __init__({arguments}):", *body, "self.__class__ = C"])


def _copier(own: tuple[Field[Any], ...]) -> str:
    """Write what copies all fields to an object that is still open."""
    body = ["made = Open.__new__(Open)", *(f"made.{field.name} = one.{field.name}" for field in own)]
    return "\n    ".join(["def copied(one):", *body, "return made"])
