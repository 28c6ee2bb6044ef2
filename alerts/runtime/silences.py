"""Silences: matchers that mute notifications for a while, with author and comment.

Each is a file of its own in the storage folder, because other processes write them: the command line adds and
ends silences while the job runs, from other machines too, and the job lists the folder. The end of a silence
is in its name, so the names alone show every change and no lock is needed. As in Alertmanager, a silence is
active from its start until before its end; an expired one is kept for five days.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.routing.labels import KNOWN
from rebalance_monitor.alerts.routing.matchers import Matcher, all_match, parse
from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.checkpoints.storage.sealed import parsed
from rebalance_monitor.config.durations import milliseconds
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.checkpoints.storage.places import Place

KEEP_MS = 5 * 86_400_000
REMOTE_LOOK_S = 5.0
"""How often the folder is listed if every listing is a request."""
MAX_MS = 5 * 365 * 86_400_000
_TOO_LONG = "a silence may last five years at most"
FORMAT = 1
_NAME = re.compile(r"(?P<id>[0-9a-f]+)-(?P<ends_at>\d{1,19})\.json")


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

    def covers(self, labels: Labels) -> bool:
        """Whether its matchers mean an alert with these labels."""
        return all_match([matcher for text in self.matchers for matcher in parse(text)], labels)


class SilenceFiles:
    """The silences in `silences/` of `folder`; any number of processes may use it at a time."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder / "silences"
        self.look_s = REMOTE_LOOK_S if is_remote(folder) else 0.0

    def names(self) -> frozenset[str]:
        """Return the names of all files: they differ whenever a silence does. Raises OSError."""
        try:
            return frozenset(path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        except FileNotFoundError:
            return frozenset()

    def read(self) -> tuple[list[Silence], dict[str, str]]:
        """Return all silences by their start, and unreadable files: name -> why. Raises OSError."""
        found: dict[str, Silence] = {}
        damaged: dict[str, str] = {}
        for name in sorted(self.names(), key=_end, reverse=True):
            try:
                silence = self._read(name)
            except FileNotFoundError:
                continue
            except (SilenceError, OSError) as error:
                damaged[name] = str(error)
                continue
            # One that is being ended has two files for a moment: the earlier end is the later word.
            found[silence.id] = silence
        return sorted(found.values(), key=lambda silence: (silence.starts_at, silence.id)), damaged

    def add(self, matchers: str, ends_at: int, created_by: str, comment: str, now: int) -> Silence:
        """Make a silence that holds from `now` on. Raises SilenceError for matchers that cannot be meant."""
        try:
            parsed = parse(matchers)
        except ValueError as error:
            raise SilenceError(str(error)) from error
        unknown = [matcher.label for matcher in parsed if matcher.label not in KNOWN]
        if unknown:
            raise SilenceError(f"no alert has the label {unknown[0]!r}; the labels are {', '.join(KNOWN)}")
        if all(matcher.matches({}) for matcher in parsed):
            raise SilenceError(f"{matchers!r} would silence everything: name at least one value")
        if ends_at <= now:
            raise SilenceError("a silence must end after it begins")
        if ends_at - now > MAX_MS:
            raise SilenceError(_TOO_LONG)
        made = Silence(secrets.token_hex(4), tuple(map(str, parsed)), now, ends_at, created_by, comment)
        make_folder(self.folder)
        self._write(made)
        for name in self.names():
            if _end(name) + KEEP_MS <= now:
                (self.folder / name).unlink(missing_ok=True)
        return made

    def add_for(self, lasts: str, matchers: str, created_by: str, comment: str, now: int) -> Silence:
        """Make a silence that holds for so long (`2h`) from `now` on. Raises SilenceError."""
        try:
            ends_at = now + milliseconds(lasts)
        except ValueError as error:
            raise SilenceError(str(error)) from error
        return self.add(matchers, ends_at, created_by, comment, now)

    def expire(self, identity: str, now: int) -> Silence:
        """End a silence now. Raises SilenceError if there is none of this id that has not ended."""
        found = next((one for one in self.read()[0] if one.id == identity and one.ends_at > now), None)
        if found is None:
            raise SilenceError(f"there is no open silence {identity!r}")
        ended = replace(found, ends_at=now)
        self._write(ended)
        (self.folder / _name(found)).unlink(missing_ok=True)
        return ended

    def _read(self, name: str) -> Silence:
        path = self.folder / name
        try:
            body = parsed(path.read_bytes())
            if body.pop("format") != FORMAT:
                raise ValueError("unknown format")  # noqa: TRY301 - reported with the other damages
            silence = _silence(body)
            if _name(silence) != name:
                raise ValueError("its name does not match its content")  # noqa: TRY301 - as above
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SilenceError(f"{path} cannot be read ({error}): correct it, or move it away") from error
        return silence

    def _write(self, silence: Silence) -> None:
        body = {"format": FORMAT, **asdict(silence)}
        replace_file(self.folder / _name(silence), json.dumps(body, indent=1).encode())


def _name(silence: Silence) -> str:
    return f"{silence.id}-{silence.ends_at}.json"


def _end(name: str) -> int:
    return int(name.removesuffix(".json").rpartition("-")[2])


def _silence(entry: dict[str, Any]) -> Silence:
    """Return the silence; ValueError, KeyError or TypeError for one that could not be asked later."""
    made = Silence(**{**entry, "matchers": tuple(map(str, entry["matchers"]))})
    if not all(type(at) is int for at in (made.starts_at, made.ends_at)):
        raise ValueError("times must be whole numbers of ms")
    if made.ends_at - made.starts_at > MAX_MS:
        raise ValueError(_TOO_LONG)
    if all(matcher.matches({}) for text in made.matchers for matcher in parse(text)):
        raise ValueError(f"the silence {made.id!r} would silence everything")
    return made


class Silences:
    """The silences of a running job, read again from the files on request.

    A file that cannot be read is passed over, one that was read before holds as it was; it is tried again.
    """

    def __init__(self, files: SilenceFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._look_at = float("-inf")
        self._names: frozenset[str] = frozenset()
        self._damaged: dict[str, str] = {}
        self._known: list[Silence] = []
        self._parsed: list[tuple[Silence, tuple[Matcher, ...]]] = []

    def refresh(self) -> list[str]:
        """Read the files if there are others; return what cannot be read, each once. Does not raise."""
        now = self._clock()
        if now < self._look_at:
            return []
        said = self._damaged
        try:
            self._reload()
        except OSError as error:
            self._damaged = {
                "": f"the folder of silences cannot be read ({error}): the silences read before it stay "
                f"active"
            }
        self._look_at = now + (REMOTE_LOOK_S if self._damaged else self._files.look_s)
        return [why for name, why in self._damaged.items() if name not in said]

    def _reload(self) -> None:
        names = self._files.names()
        if names == self._names and not self._damaged:
            return
        read, self._damaged = self._files.read()
        self._names = names
        ids = {silence.id for silence in read}
        known = read + [one for one in self._known if _name(one) in self._damaged and one.id not in ids]
        if known != self._known:
            self._known = known
            self._parsed = [(one, tuple(m for text in one.matchers for m in parse(text))) for one in known]

    def holds(self, labels: Labels, now: int) -> bool:
        """Whether a silence covers these labels at `now`."""
        return any(silence.holds(now) and all_match(matchers, labels) for silence, matchers in self._parsed)
