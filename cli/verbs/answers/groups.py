"""`rebalance-monitor groups`: the groups as they are now, groups in trouble first."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalance_monitor.cli.answering import answer_options, answers_of, problem_of
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMNS = (
    "group",
    "trouble",
    "state",
    "members",
    "generation",
    "lag",
    "behind",
    "rebalances 1h",
    "last cause",
    "last rebalance",
    "last commit",
    "commits a minute",
    "topics",
)
# What a narrow terminal shows last: the first one stays longest.
OPTIONAL = (
    "last cause",
    "rebalances 1h",
    "state",
    "behind",
    "last rebalance",
    "generation",
    "last commit",
    "commits a minute",
    "topics",
)
TOPICS = 3
SORTS = (
    "trouble",
    "group",
    "state",
    "members",
    "generation",
    "rebalances",
    "last_rebalance",
    "cause",
    "lag",
)


@click.command("groups")
@click.argument("search", required=False)
@answer_options
@click.option("--state", help="Only groups in this state (Stable, Empty …).")
@click.option("--trouble", help="Only groups with this trouble (storm …); `any`: with some.")
@click.option("--sort", type=click.Choice(SORTS), default="trouble", show_default=True, help="The order.")
@click.option("--reverse", is_flag=True, help="Turn the order around.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True, help="Groups at most.")
@output_option(Form.TABLE)
def command(
    *,
    search: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    url: str | None,
    tables: str | None,
    capture: Path | None,
    state: str | None,
    trouble: str | None,
    sort: str,
    reverse: bool,
    limit: int,
    output: Form,
) -> int:
    """List the groups, or the groups with SEARCH in their name, topics, clients or hosts."""
    from rebalance_monitor.dashboard.web.http.answers import Unanswered, all_groups

    with answers_of(config, assignments, url, tables, capture) as answers:
        try:
            rows = all_groups(
                answers,
                limit,
                search=search,
                state=state,
                trouble=trouble,
                sort=sort,
                order="desc" if reverse else "asc",
            )
        except Unanswered as error:
            raise problem_of(error) from error
    if not output.is_table:
        write_rows(rows, output)
        return ExitCode.FINE
    write_rows([table_row(row) for row in rows], output, COLUMNS, optional=OPTIONAL)
    click.echo(f"{by_sort(rows)}, from {answers.where}", err=True)
    return ExitCode.FINE


def table_row(row: "Mapping[str, Any]") -> dict[str, object]:
    """Return a group's row as people read it."""
    return {
        "group": printable(row["group"]),
        "trouble": row["trouble"].replace("_", " "),
        "state": row["state"],
        "members": row["members"],
        "generation": "" if row["generation"] is None else row["generation"],
        "lag": unknown(row["lag"]),
        "behind": unknown(None if row["lag_age_ms"] is None else f"{row['lag_age_ms'] / 1000:.0f} s"),
        "rebalances 1h": row["rebalances"],
        "last cause": cause_text(row["last_cause"], row["last_confidence"]),
        "last rebalance": moment(row["last_rebalance"]),
        "last commit": moment(row["last_commit"]),
        "commits a minute": "" if row["commits_per_minute"] is None else round(row["commits_per_minute"]),
        "topics": topics_text(row["topics"]),
    }


def topics_text(topics: "Sequence[str]") -> str:
    """Return the first topics, and whether there are more."""
    shown = [printable(topic) for topic in topics[:TOPICS]]
    return ", ".join(shown + ["…"] * (len(topics) > TOPICS))


def by_sort(rows: "Sequence[Mapping[str, Any]]") -> str:
    """Return how many groups these are, and of which sort: what is counted where."""
    commits_only = sum(row["type"] == "commits" for row in rows)
    with_members = sum(row["members"] > 0 for row in rows)
    if with_members == len(rows):
        return counted(len(rows), "group")
    empty = len(rows) - with_members - commits_only
    sorts = {"with members": with_members, "without": empty, "with commits only": commits_only}
    parts = [f"{number:,} {sort}" for sort, number in sorts.items() if number or sort == "with members"]
    return f"{counted(len(rows), 'group')} ({', '.join(parts)})"


def unknown(value: object) -> object:
    """Return a value, or a question mark where it is unknown: it is not zero."""
    return "?" if value is None else value


def cause_text(cause: str, confidence: float) -> str:
    """Return a cause with how sure it is."""
    from rebalance_monitor.coordinator.findings.wording import likely

    return likely(cause, confidence).replace("_", " ") if cause else ""


def moment(at: int | None) -> str:
    """Return a time (ms) in UTC, as ISO 8601 has it; "" for none that a calendar knows."""
    try:
        return (
            ""
            if at is None or at < 0
            else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        )
    except (ValueError, OverflowError, OSError):
        return ""


def printable(text: str) -> str:
    """Return a name from a client with everything unprintable escaped."""
    from rebalance_monitor.engine.outputs.console import plain

    return plain(text)
