"""One line of the report of `doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One line: what was looked at, whether it is fine, what was found, and what to do if it is not.

    `optional`: the job runs without it, and assumes or leaves out something.
    """

    check: str
    ok: bool
    found: str
    remedy: str = ""
    optional: bool = False


def numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    parts = text.split("+", maxsplit=1)[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def dotted(parts: tuple[int, ...]) -> str:
    """Return a version as text."""
    return ".".join(map(str, parts))
