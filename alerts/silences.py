"""Silences: matchers that hold notifications back for a while, with who asked for it and why.

Kept in a file of their own in the storage folder, because other processes write it: the command line adds
and ends silences while the job runs, and the job looks whether the file has changed. Alertmanager's meaning:
a silence holds from its start until before its end; one that has ended is kept for five days.
"""

from __future__ import annotations

import fcntl
import json
import secrets
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.matchers import Matcher, all_match, parse
from rebalance_monitor.checkpoints.files import replace_file
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.alerts.labels import Labels

KEEP_MS = 5 * 86_400_000
FORMAT = 1


class SilenceError(ConfigError):
    """A silence cannot be made, found or read."""


@dataclass(frozen=True, slots=True)
class Silence:
    """One silence; times in ms since epoch. `matchers` as text, one comparison each."""

    id: str
    matchers: tuple[str, ...]
    starts_at: int
    ends_at: int
    created_by: str
    comment: str

    def holds(self, now: int) -> bool:
        """Whether it holds at `now`."""
        return self.starts_at <= now < self.ends_at


class SilenceFile:
    """The silences in `folder`; any number of processes may use it at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "silences.json"

    def read(self) -> list[Silence]:
        """Return all silences. Raises SilenceError for a damaged file."""
        try:
            body = json.loads(self._path.read_bytes())
            if body["format"] != FORMAT:
                raise ValueError("unknown format")  # noqa: TRY301 - told with the other damages
            return [_silence(entry) for entry in body["silences"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise SilenceError(
                f"{self._path} cannot be read ({error}): correct it, or move it away"
            ) from error

    def add(self, matchers: str, ends_at: int, created_by: str, comment: str, now: int) -> Silence:
        """Make a silence that holds from `now` on. Raises SilenceError for matchers that cannot be meant."""
        try:
            parsed = parse(matchers)
        except ValueError as error:
            raise SilenceError(str(error)) from error
        if all(matcher.matches({}) for matcher in parsed):
            raise SilenceError(f"{matchers!r} would silence everything: name at least one value")
        if ends_at <= now:
            raise SilenceError("a silence must end after it begins")
        made = Silence(secrets.token_hex(4), tuple(map(str, parsed)), now, ends_at, created_by, comment)
        with self._locked():
            kept = [silence for silence in self.read() if silence.ends_at + KEEP_MS > now]
            self._write([*kept, made])
        return made

    def expire(self, identity: str, now: int) -> Silence:
        """End a silence now. Raises SilenceError if there is none of this id that has not ended."""
        with self._locked():
            known = self.read()
            found = next((one for one in known if one.id == identity and one.ends_at > now), None)
            if found is None:
                raise SilenceError(f"there is no open silence {identity!r}")
            ended = replace(found, ends_at=now)
            self._write([ended if one is found else one for one in known])
        return ended

    def version(self) -> tuple[int, int]:
        """Return something that differs whenever the file does."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (stat.st_mtime_ns, stat.st_ino)

    def _write(self, silences: list[Silence]) -> None:
        body = {"format": FORMAT, "silences": [asdict(silence) for silence in silences]}
        replace_file(self._path, json.dumps(body, indent=1).encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "silences.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _silence(entry: dict[str, Any]) -> Silence:
    """Return the silence; ValueError, KeyError or TypeError for one that could not be asked later."""
    made = Silence(**{**entry, "matchers": tuple(map(str, entry["matchers"]))})
    if not all(type(at) is int for at in (made.starts_at, made.ends_at)):
        raise ValueError("times must be whole numbers of ms")
    if all(matcher.matches({}) for text in made.matchers for matcher in parse(text)):
        raise ValueError(f"the silence {made.id!r} would silence everything")
    return made


class Silences:
    """The silences of a running job: looks at the file when told to, and keeps the last readable ones."""

    def __init__(self, file: SilenceFile) -> None:
        self._file = file
        self._version: tuple[int, int] | None = None
        self._parsed: list[tuple[Silence, tuple[Matcher, ...]]] = []

    def refresh(self) -> bool:
        """Read the file if it has changed; say whether it had. Raises SilenceError, OSError."""
        version = self._file.version()
        if version == self._version:
            return False
        self._version = version
        self._parsed = [
            (silence, tuple(m for text in silence.matchers for m in parse(text)))
            for silence in self._file.read()
        ]
        return True

    def holds(self, labels: Labels, now: int) -> bool:
        """Whether a silence covers these labels at `now`."""
        return any(silence.holds(now) and all_match(matchers, labels) for silence, matchers in self._parsed)
