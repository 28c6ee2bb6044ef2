"""Where records come from: the options that `capture`, `decode`, `replay` and `doctor` share.

`--capture PATH` takes a capture folder or a bare Parquet file; without it the broker of the configuration is
read, or the one that `--bootstrap` names.
"""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from rebalance_monitor.cluster.clients.reader import Reading

P = ParamSpec("P")
R = TypeVar("R")
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SILENT_S = 2.0
REFRESH_S = 0.5


def bootstrap_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--bootstrap` (`bootstrap: str | None`)."""
    return click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Brokers to start from, in place of `kafka.bootstrap_servers`.",
    )(function)


def capture_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--capture` (`capture: Path | None`)."""
    return click.option(
        "--capture",
        type=click.Path(path_type=Path),
        help="Read this capture folder or Parquet file, not a broker.",
    )(function)


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: `500ms`, `30s`, `5m`, `2h`, `1d`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip())
        if match is None or match[2] not in UNITS:
            self.fail(f"{value!r} is not a duration like 30s, 5m or 2h", param, ctx)
        return float(match[1]) * UNITS[match[2]]


class Progress:
    """Says on a terminal's stderr how far it is, from 2 s on, in one line that is written over."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._total = total
        self._started = self._said = time.monotonic()
        self._shown = False

    def __call__(self, done: int) -> None:
        """Tell that `done` records are done."""
        now = time.monotonic()
        if not sys.stderr.isatty() or now - self._started < SILENT_S or now - self._said < REFRESH_S:
            return
        self._said, self._shown = now, True
        share = f" of {self._total:,} ({done / self._total:.0%})" if self._total else ""
        rate = done / (now - self._started)
        click.echo(f"\r{self._what} {done:,} records{share}, {rate:,.0f} a second \x1b[K", nl=False, err=True)

    def end(self) -> None:
        """End the line."""
        if self._shown:
            click.echo("", err=True)


def span_of(reading: "Reading") -> int | None:
    """Return how many offsets a reading covers, None where it has no end."""
    if reading.until is None:
        return None
    return sum(max(0, end - reading.start.get(p, end)) for p, end in reading.until.items())
