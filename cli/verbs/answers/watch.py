"""`rebalance-monitor watch`: what rebalances now, from any machine, without Spark, Java or a storage folder.

Reads the topic to its end, says what it watches, then prints findings as they come, until Ctrl-C or `--for`.
Nothing is written to disk and no alert is sent. Findings go to stdout, everything else to stderr.
"""

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.logs import configure
from rebalance_monitor.cli.options import config_options, identities_for, load_settings
from rebalance_monitor.cli.output import Form, output_option
from rebalance_monitor.cli.pipes import reader_is_gone, say
from rebalance_monitor.cli.sources import (
    Duration,
    Progress,
    connection_options,
    group_option,
    is_about,
    is_like,
)
from rebalance_monitor.cli.verbs.job.run import stop_on_signals
from rebalance_monitor.coordinator.findings.wording import counted, ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.cluster.errors import AccessDeniedError
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.embedded.core import Census
    from rebalance_monitor.engine.outputs.sinks import Publication
    from rebalance_monitor.engine.topic.facts import TopicFacts

MB, LEAST_MB = 1_000_000, 0.001
FEW = "; without Describe on the cluster it sees only the groups that may be described, perhaps none"
NOT_YET = "it was stopped before it had read history, so nothing was watched yet"


class Rate(click.FloatRange):
    """MB a second: a number, however large. Of much less than the least no pause has a length."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return it."""
        found: float = super().convert(value, param, ctx)  # type: ignore[arg-type] # it reads any text
        if isnan(found):
            self.fail(f"{value!r} is no number; write how many MB, such as 40", param, ctx)
        return found


@click.command("watch")
@connection_options
@config_options
@group_option
@click.option("--page", is_flag=True, help="Serve the live page too (`web.host`, `web.port`).")
@click.option(
    "--for", "duration", type=Duration(least_s=1), help="Stop after this time (30s, 10m). Default: at Ctrl-C."
)
@click.option(
    "--most",
    type=Rate(min=LEAST_MB),
    default=40.0,
    show_default=True,
    help="MB of records read a second, at most.",
)
@output_option(Form.TABLE, Form.TABLE, Form.JSONL)
@click.pass_context
def command(
    context: click.Context,
    *,
    connection: "Mapping[str, object]",
    config: Path | None,
    assignments: tuple[str, ...],
    pattern: str,
    page: bool,
    duration: float | None,
    most: float,
    output: Form,
) -> int:
    """See what rebalances now: no Spark, no Java, nothing written."""
    flags = {**connection, "web.enabled": page}
    settings = load_settings(config, assignments, flags)
    _hush(context)
    from rebalance_monitor.engine.embedded.watching import Watch

    is_shown, said = partial(is_like, pattern=pattern), _Said()
    watch = Watch(settings, identities_for(settings), said, stop_on_signals(keeps=False), most * MB, is_shown)
    shown = Shown(output, pattern, watch.stop.set)
    with _ended_after(duration, watch.stop.set):
        try:
            watch.run([shown])
        finally:
            shown.lines.close()
    if shown.failure is not None:
        raise shown.failure
    found = shown.summary() if said.is_watching else NOT_YET
    say(f"{counted(watch.records, 'record')} read; {found}")
    return ExitCode.FINE


def _hush(context: click.Context) -> None:
    """Leave to the log what is wrong, unless somebody asked for more: findings are what is looked at."""
    root = context.find_root()
    if root.get_parameter_source("log_level") is click.core.ParameterSource.DEFAULT:
        # A finding says which brokers do not answer, and since when.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        configure("warning", root.params.get("log_file"))


@contextmanager
def _ended_after(seconds: float | None, end: Callable[[], None]) -> Iterator[None]:
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Shown:
    """The lines of the groups that match a pattern, and of what is no single group's; counts them by kind.

    `end` is called once they reach nobody any more (`watch | head`, a full disk); `failure` then says why.
    """

    def __init__(self, output: Form, pattern: str, end: Callable[[], None]) -> None:
        from rebalance_monitor.engine.outputs.console import renderer, writer
        from rebalance_monitor.engine.outputs.sinks import Lines

        self.lines = Lines(renderer(output.value, sys.stdout), writer(sys.stdout), self._fail)
        self.failure: Exception | None = None
        self._end = end
        self._pattern = pattern
        self._kinds: Counter[str] = Counter()
        self._groups: set[str] = set()

    def start(self, committed: "Snapshot") -> None:
        """Nothing can be taken back."""

    def write(self, key: "BatchKey", publication: "Publication") -> None:
        """Print the findings that match. Does not block."""
        found = [
            finding for finding in publication.findings if not finding.history and self._matches(finding)
        ]
        self._kinds.update(finding.kind.value for finding in found if finding.phase != "updated")
        self._groups.update(finding.group for finding in found if finding.group)
        self.lines.write(key, replace(publication, findings=found))

    def committed(self, key: "BatchKey") -> None:  # noqa: ARG002 - the signature is a sink's
        """Notice a reader that has gone: there may be no line to write for hours."""
        with suppress(OSError):
            # What is no file has no number.
            if self.failure is None and reader_is_gone():
                self._fail(BrokenPipeError())

    def summary(self) -> str:
        """Say how many findings of which kind were shown."""
        if not self._kinds:
            return "no findings"
        kinds = ", ".join(f"{kind} {count}" for kind, count in self._kinds.most_common())
        return f"{counted(self._kinds.total(), 'finding')} of {counted(len(self._groups), 'group')}: {kinds}"

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._end()

    def _matches(self, finding: "Finding") -> bool:
        return is_about(finding, self._pattern)


class _Said:
    """Says on stderr how it goes. is_watching: history has been read, or cannot be."""

    def __init__(self) -> None:
        self.is_watching = False
        self._progress: Progress | None = None

    def waits(self, why: str) -> None:
        say(f"waiting: {why}")

    def begins(self, facts: "TopicFacts", size: int | None) -> None:
        from rebalance_monitor.engine.topic.guard import unled_sentence

        records = sum(end - facts.begins.get(p, 0) for p, end in facts.ends.items())
        bytes_ = "" if size is None else f", {size / MB:,.1f} MB"
        if facts.unled:
            say(unled_sentence(facts.name, facts.unled))
        say(f"reading {facts.name} to its end: up to {counted(records, 'record')}{bytes_}")
        self._progress = Progress("read", records)

    def reads(self, records: int) -> None:
        if self._progress:
            self._progress(records)

    def follows(self, census: "Census", url: str | None) -> None:
        self.is_watching = True
        if self._progress:
            self._progress.end()
        said = f"{counted(census.partitions, 'partition')}, {counted(census.groups, 'group')}"
        said += f", {census.with_members:,} with members{_back(census.oldest_ms)}"
        left = census.groups - census.shown
        shown = f"; {census.shown:,} like the pattern of `--group`" if left else ""
        say(f"{said}{shown}; times are UTC{_at(url)}")

    def leads(self, partitions: "Sequence[int]") -> None:
        again = f"a broker leads {counted(len(partitions), 'partition')} again ({ranges(partitions)})"
        say(f"{again}: read from the beginning, and watched from now on")

    def probes(self, why: "AccessDeniedError", url: str | None, *, sees_all: bool) -> None:
        self.is_watching = True
        if self._progress:
            self._progress.end()
        said = (
            f"{why.what} {why.remedy} Then start `watch` again. Until then only the probe reports: which "
            "groups rebalance, and for how long, but neither why nor whose fault it is"
        )
        say(f"{said}{'' if sees_all else FEW}{_at(url)}")


def _at(url: str | None) -> str:
    return f"; the page is at {url}" if url else ""


def _back(age_ms: int) -> str:
    """Say how far back the topic goes."""
    if age_ms < 0:
        return ""
    for unit, ms in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if age_ms >= 2 * ms:
            return f"; the topic goes back {age_ms // ms} {unit}"
    return f"; the topic goes back {counted(age_ms // 1_000, 'second')}"
