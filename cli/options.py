"""The options that every verb with a configuration has: `--config FILE` and `--set KEY=VALUE`.

Values of `--set` are read as a configuration file is: as YAML, so lists and maps are what they look like.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.outputs.identities import Identities
    from rebalance_monitor.engine.storage import Storage

P = ParamSpec("P")
R = TypeVar("R")


def config_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--config` (`config: Path | None`) and `--set` (`assignments: tuple[str, ...]`)."""
    function = click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        multiple=True,
        help="Set one configuration key.",
    )(function)
    return click.option(
        "-c",
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The YAML configuration file (default: $REBALANCE_MONITOR_CONFIG).",
    )(function)


def load_settings(
    config: Path | None, assignments: tuple[str, ...] = (), flags: Mapping[str, object] | None = None
) -> "Settings":
    """Return the settings of a command line.

    `flags` are the verb's own options under their dotted keys (`kafka.bootstrap_servers`); None entries are
    left out, and `--set` wins over them. Raises `ConfigError`.
    """
    return load_with_layers(config, assignments, flags)[0]


def load_with_layers(
    config: Path | None, assignments: tuple[str, ...] = (), flags: Mapping[str, object] | None = None
) -> tuple["Settings", Mapping[str, dict[str, object]]]:
    """Return what `load_settings` does, and what each layer says. Raises `ConfigError`."""
    from rebalance_monitor.config.errors import ConfigError
    from rebalance_monitor.config.load import load_layers

    given = {key: value for key, value in (flags or {}).items() if value is not None}
    reached = any(key.startswith("kafka.") for key in given)
    given |= dict(_assignment(text) for text in assignments)
    settings, layers = load_layers(config, given)
    if reached and "bootstrap_servers" not in settings.kafka.model_fields_set:
        # Another cluster may listen at the default address.
        raise ConfigError(
            "nothing names the brokers to log in to: give `--bootstrap`, or write `bootstrap.servers` into "
            "the file of `--command-config`"
        )
    return _with_jvm(settings), layers


def load_valid(config: Path | None, assignments: tuple[str, ...] = ()) -> "Settings":
    """Return settings that the job takes. Raises `ConfigError` with all that it would refuse, at once."""
    from rebalance_monitor.config.load import load_as_far
    from rebalance_monitor.streaming.preflight import valid

    return _with_jvm(valid(load_as_far(config, dict(_assignment(text) for text in assignments))))


def _with_jvm(settings: "Settings") -> "Settings":
    """Let the JVM of the driver serve the logins and file systems that Python's clients do not."""
    from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
    from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
    from rebalance_monitor.streaming.spark.drivers_jvm import drivers_jvm, sessions_jvm

    SHARED_JVM.configure(settings, drivers_jvm, sessions_jvm)
    use_jvm(SHARED_JVM.for_files)
    return settings


def storage_of(settings: "Settings") -> "Storage":
    """Return the storage of a job that has run. Raises ConfigError where no folder is."""
    from rebalance_monitor.config.errors import ConfigError
    from rebalance_monitor.engine.storage import storage_at

    storage = storage_at(settings.storage.path, settings.storage.checkpoint)
    if not storage.root.is_dir():
        wrong = "is no folder" if storage.root.exists() else "does not exist"
        raise ConfigError(f"{storage.root} {wrong}: `storage.path` names no job's folder.")
    return storage


def identities_for(settings: "Settings") -> "Identities":
    """Return what `outputs.identities` makes of names, by the key of the job's storage if one has run there.

    Raises OSError, FolderError.
    """
    from rebalance_monitor.engine.outputs.identities import Identities, known_identities
    from rebalance_monitor.engine.storage import storage_at

    mode = settings.outputs.identities
    if mode != "hashed":
        # No storage is asked for a key that is not needed: it may lie far away.
        return Identities(mode)
    return known_identities(storage_at(settings.storage.path).identity_key)


def _assignment(text: str) -> tuple[str, object]:
    from rebalance_monitor.config.texts import from_yaml

    key, equals, value = text.partition("=")
    if not equals or not key:
        # What stands there may be a secret that lacks its key.
        raise click.BadParameter("an assignment is not KEY=VALUE", param_hint="--set")
    try:
        return key, from_yaml(value)
    except ValueError as error:
        wrong = str(error).removesuffix(" in line 1")
        raise click.BadParameter(
            f"the value of {key!r} is not valid YAML: {wrong}", param_hint="--set"
        ) from None
