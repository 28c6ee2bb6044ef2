"""Writes docs/cli.md from the commands themselves, so that the page and `--help` cannot disagree."""

from collections.abc import Iterator

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.registry import VERBS, command_of

HEAD = """# Verbs

Generated from the code by `make docs`. Data goes to stdout, logs to stderr, or to `--log-file`, which rolls
at 50 MB (five are kept).

```
rebalance-monitor [--log-level debug|info|warning|error] [--log-file FILE] VERB …
```

## Options of many verbs

| option | what |
|---|---|
| `-c, --config FILE` | The YAML configuration file (default: $REBALANCE_MONITOR_CONFIG). |
| `--set KEY=VALUE` | Set one configuration key. |
| `--bootstrap HOST:PORT` | Brokers to start from, in place of `kafka.bootstrap_servers`. |
| `--command-config FILE` | Client properties as Kafka's own tools take them. |
| `-o, --output FORM` | `table` fits the terminal, `wide` has every column; `json`, `jsonl`. |

`AGO` is a [duration](configuration.md) before now (`1h`). [Completion](howto/install.md#complete-on-tab).
"""
COMMON = ("--config", "--set", "--bootstrap", "--command-config", "--output")
CODES = {
    ExitCode.FINE: "fine; also when the reader of a pipe closes it",
    ExitCode.PROBLEMS: "problems were found",
    ExitCode.USAGE: "the command line, the configuration or the stored state is refused",
    ExitCode.UNREACHABLE: "a dependency cannot be reached, a disk is full or a store away, or the query "
    "failed five times in a row: starting again may help",
    ExitCode.INTERRUPTED: "interrupted",
}


def cli_markdown() -> str:
    """Return the page: every verb with its options, and the exit codes."""
    parts = [HEAD, *(text for name in VERBS for text in _verb(name)), _codes()]
    return "\n".join(parts)


def _verb(name: str) -> Iterator[str]:
    command = command_of(name)
    yield f"## `{name}`\n\n{VERBS[name]}\n"
    yield from _below(name, command)


def _below(name: str, command: click.Command) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield from _options(command)
        return
    for each, sub in sorted(command.commands.items()):
        yield f"### `{name} {each}`\n\n{_what(sub)}\n"
        yield from _below(f"{name} {each}", sub)


def _what(command: click.Command) -> str:
    return " ".join((command.help or "").split())


def _options(command: click.Command) -> Iterator[str]:
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    common = [one for one in shown if one.opts[-1] in COMMON]
    rows = [_row(one) for one in shown if one not in common]
    if common:
        names = ", ".join(f"`{one.opts[-1]}`" for one in common)
        rows.append(_cells(names, "[as everywhere](#options-of-many-verbs)", ""))
    if rows:
        yield "\n".join(["| option | what | default |", "|---|---|---|", *rows]) + "\n"


def _row(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        metavar = "" if parameter.is_flag else f" {_metavar(parameter)}"
        name = ", ".join([*parameter.opts, *parameter.secondary_opts]) + metavar
        return _cells(f"`{name}`", parameter.help or "", _default(parameter))
    return _cells(f"`{(parameter.name or '').upper()}`", "", "")


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return option.type.name.upper()


def _default(option: click.Option) -> str:
    # What is worked out on the machine (a folder, a port) is no part of a page.
    shown = option.default if option.show_default and not callable(option.default) else None
    return "" if shown is None or shown is False else f"`{shown}`"


def _cells(*texts: str) -> str:
    return "| " + " | ".join(" ".join(text.split()).replace("|", "\\|") for text in texts) + " |"


def _codes() -> str:
    rows = [_cells(str(code.value), what) for code, what in CODES.items()]
    return "\n".join(["## Exit codes\n", "| code | meaning |", "|---|---|", *rows, ""])
