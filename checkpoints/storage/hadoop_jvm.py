"""The JVM whose Hadoop serves URIs: the start of this process sets it (`use_jvm`). Light to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_jvm_for: Callable[[str], Any] = lambda _scheme: None  # noqa: E731 - a value that is replaced


def use_jvm(found: Callable[[str], Any]) -> None:
    """Have `found` give the JVM that serves URIs of a scheme: py4j's view of it, None where none does."""
    global _jvm_for  # noqa: PLW0603 - one process has one driver
    _jvm_for = found


def jvm_for(scheme: str) -> Any:  # noqa: ANN401 - of a JVM
    """Return the JVM that serves URIs of a scheme, None where none does."""
    return _jvm_for(scheme)
