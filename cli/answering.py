"""The source of `groups`, `history` and `top`: a running monitor, a job's tables, or a replay.

Without a choice the monitor of the configuration is asked first, then the tables of its storage folder.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from rebalance_monitor.cli.options import config_options, identities_for, load_settings

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.dashboard.web.http.answers import Answers, Unanswered

P = ParamSpec("P")
R = TypeVar("R")
RESTORED = 20_000
ADVICE = "Start the monitor, or name --url, --tables or --capture."


def answer_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--url`, `--tables` and `--capture` (all `None` by default), and the configuration's options."""
    options = (
        click.option(
            "--url", metavar="URL", help="Ask the monitor at this address (token: `web.token_file`)."
        ),
        click.option(
            "--tables",
            metavar="FOLDER|URI",
            help="Read this job's storage folder.",
        ),
        click.option(
            "--capture", type=click.Path(path_type=Path), help="Replay this capture folder or Parquet file."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return config_options(function)


@contextmanager
def answers_of(
    config: Path | None,
    assignments: tuple[str, ...],
    url: str | None,
    tables: str | None,
    capture: Path | None,
    pace: float = 0.0,
) -> Iterator["Answers"]:
    """Give who answers. `pace`: see engine/replay/feeding.py; a paced replay runs while answers are given.

    Raises ConfigError, DependencyError (nobody answers and there are no tables), CaptureError.
    """
    if sum(one is not None for one in (url, tables, capture)) > 1:
        raise click.UsageError("give one of --url, --tables and --capture")
    settings = load_settings(config, assignments)
    if capture is not None:
        with _replayed(settings, capture, pace) as answers:
            yield answers
    elif tables is not None:
        yield from_tables(settings, tables)
    else:
        with _running(settings, url) as answers:
            yield answers


def problem_of(error: "Unanswered") -> Exception:
    """Return the error to raise for a question that got no answer: it was wrong, or nobody could answer."""
    from rebalance_monitor.cluster.errors import DependencyError

    wrong = 400 <= error.status < 500  # noqa: PLR2004 - HTTP's own numbers
    return click.UsageError(str(error)) if wrong else DependencyError(f"{error}.", ADVICE)


def from_tables(settings: "Settings", folder: str) -> "Answers":
    """Return what a job's tables say. Raises DependencyError where there are none."""
    from rebalance_monitor.alerts.messages.text import moment
    from rebalance_monitor.cluster.errors import DependencyError
    from rebalance_monitor.dashboard.tables.findings_table import read_newest
    from rebalance_monitor.dashboard.tables.groups_table import read_groups, restored
    from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
    from rebalance_monitor.dashboard.web.api.api import Api
    from rebalance_monitor.dashboard.web.http.answers import LocalAnswers
    from rebalance_monitor.dashboard.web.past.table_past import TablePast
    from rebalance_monitor.engine.storage import storage_at

    storage = storage_at(folder)
    if not (storage.findings.is_dir() or storage.groups.is_dir()):
        raise DependencyError(
            f"{folder} holds no tables of a monitor.", "Name its storage folder by --tables."
        )
    snapshot = Snapshot(settings.cluster_name)
    try:
        found = read_newest(storage.findings, RESTORED)
        snapshot.restore(restored(read_groups(storage.groups), found))
    except (ValueError, KeyError, TypeError) as error:
        raise DependencyError(
            f"The tables in {folder} cannot be read: {error}.", "Move away the file that is damaged."
        ) from error
    # The moment of the newest thing said, for what is counted back from now.
    last = max((finding.at for finding in found), default=-1)
    snapshot.apply(Update(now=last, wall=last))
    # A monitor that was killed wrote its groups a minute ago at most; one that was stopped, as it stopped.
    written = snapshot.known.kept_at
    where = f"{folder} (groups as of {moment(written)})" if written >= 0 else str(folder)
    return LocalAnswers(Api(snapshot, TablePast(storage.findings), live=False), where)


@contextmanager
def _running(settings: "Settings", url: str | None) -> Iterator["Answers"]:
    from rebalance_monitor.checkpoints.storage.places import place_at
    from rebalance_monitor.cluster.errors import DependencyError
    from rebalance_monitor.config.errors import ConfigError
    from rebalance_monitor.dashboard.web.http.answers import HttpAnswers, Unanswered

    try:
        token = settings.web.secret()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    host = f"[{settings.web.host}]" if ":" in settings.web.host else settings.web.host
    address = url or settings.web.url or f"http://{host}:{settings.web.port}"
    with closing(HttpAnswers(address, token)) as answers:
        try:
            answers.ask("/incidents", limit=1)
        except Unanswered as error:
            if url is None and error.status == 0 and place_at(settings.storage.path).is_dir():
                yield from_tables(settings, settings.storage.path)
                return
            raise DependencyError(f"{error}.", ADVICE) from error
        yield answers


@contextmanager
def _replayed(settings: "Settings", path: Path, pace: float) -> Iterator["Answers"]:
    from rebalance_monitor.cluster.captures.capture import read_capture
    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.dashboard.web.api.api import Api
    from rebalance_monitor.dashboard.web.http.answers import LocalAnswers
    from rebalance_monitor.dashboard.web.past.past import MemoryPast
    from rebalance_monitor.engine.replay.feeding import Feed
    from rebalance_monitor.engine.settings import detection_settings

    metadata = read_capture(path).metadata
    detection = detection_settings(settings.detection, metadata)
    snapshot = Snapshot(settings.cluster_name or metadata.cluster_id)
    stop = threading.Event()
    feed = Feed(snapshot, pace, stop.is_set, identities_for(settings))
    answers = LocalAnswers(Api(snapshot, MemoryPast(snapshot), live=False), str(path))
    if pace <= 0:
        feed.run(path, detection)
        yield answers
        return
    thread = threading.Thread(target=feed.run, args=(path, detection), daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join(5)
