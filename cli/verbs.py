"""The verbs: one file each, imported only when it is the one that runs.

`cli/<verb>.py` exposes `command`, a click command. The summaries stand here so that `--help` imports nothing.
"""

import importlib
from typing import cast

import click

VERBS = {
    "demo": "Show a local Kafka with faulty consumers, and what the monitor says about them.",
    "run": "Watch a cluster: the production job.",
    "doctor": "Check Java, jars, brokers and permissions, and say what to do.",
    "decode": "Print the records of the offsets topic as JSON lines.",
    "capture": "Copy the offsets topic from a broker into a folder.",
    "replay": "Find in a capture, without Spark, what the job would have found.",
    "lab": "Start and stop a real Kafka broker on this machine.",
    "config": "Check, show and explain the configuration.",
}


class LazyGroup(click.Group):
    """A group whose commands are the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the verb's module and return its command; None for no verb of ours."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"rebalance_monitor.cli.{cmd_name}")
        return cast("click.Command", module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table without importing any verb."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))
