"""The table of verbs. A verb's module is imported only when that verb runs.

`cli/verbs/<folder>/<verb>.py` exposes `command`, a click command. The summaries stand here so that `--help`
imports no verb.
"""

import importlib
from difflib import get_close_matches
from typing import Any, cast

import click

from rebalance_monitor.cli.pipes import patient

VERBS = {
    "demo": "Show a local Kafka with faulty consumers, and what the monitor says about them.",
    "watch": "See what rebalances now: no Spark, no Java, nothing written.",
    "run": "Watch a cluster: the production job.",
    "doctor": "Check Java, jars, brokers and permissions, and say what to do.",
    "decode": "Print the records of the offsets topic as JSON lines.",
    "capture": "Copy the offsets topic from a broker into a folder.",
    "replay": "Find in a capture, without Spark, what the job would have found.",
    "explain": "Describe one group: members, causes, spread, advice.",
    "top": "Watch the groups live in the terminal.",
    "groups": "List the groups, those in trouble first.",
    "history": "List the findings about one group, or about groups by pattern.",
    "lab": "Start and stop a real Kafka broker on this machine.",
    "checkpoint": "Show, check and tidy the state of a job.",
    "table": "Merge and shorten the findings table, and print the SQL of common questions.",
    "audit": "Check samples of records and tables against their contracts.",
    "alerts": "Test receivers and routes, and silence alerts for a while.",
    "config": "Check, show and explain the configuration.",
}

FOLDERS = {
    "setup": ("config", "doctor"),
    "job": ("run", "checkpoint", "table", "audit"),
    "alerting": ("alerts",),
    "answers": ("watch", "explain", "top", "groups", "history"),
    "records": ("decode", "capture", "replay"),
    "local": ("demo", "lab"),
}
"""Folder of `cli/verbs/` -> the verbs whose modules lie in it."""


def command_of(verb: str) -> click.Command:
    """Import the module of one of VERBS and return its command."""
    folder = next(folder for folder, verbs in FOLDERS.items() if verb in verbs)
    module = importlib.import_module(f"rebalance_monitor.cli.verbs.{folder}.{verb}")
    return cast("click.Command", module.command)


class LazyGroup(click.Group):
    """A group whose commands are the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the verb's module and return its command; None for no verb of ours."""
        return command_of(cmd_name) if cmd_name in VERBS else None

    def make_context(self, *given: Any, **more: Any) -> click.Context:  # noqa: ANN401 - click's own
        """Read the command line, and print help if it asks for it."""
        with patient():
            return super().make_context(*given, **more)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:  # noqa: ANN401 - click's own
        """Find the verb, or name the one that was probably meant."""
        if near := self.get_command(ctx, args[0]) is None and get_close_matches(args[0], VERBS, 1):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb. An argument too many is mostly a broker, or the folder of a capture."""
        try:
            with patient():
                return super().invoke(ctx)
        except click.UsageError as error:
            options = {name for one in error.ctx.command.params for name in one.opts} if error.ctx else set()
            extra = error.message.partition("unexpected extra arg")[2]
            for mark, what, option in ((":", "broker", "--bootstrap"), ("", "capture", "--capture")):
                if extra and mark in extra and option in options:
                    hint = f"{error.message}. A {what} is named by {option}."
                    raise click.UsageError(hint, error.ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table without importing any verb."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))
