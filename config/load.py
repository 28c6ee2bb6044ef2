"""Reads the configuration from its layers and says in sentences what is wrong with it.

Layers, strongest first: flags, environment, YAML file, defaults. Every problem names the key, the layer it
came from and what to do; an unknown key is answered with the nearest known one.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, SettingsError

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.clients import FreeForm, Kafka, Spark
from rebalance_monitor.config.model import ENVIRONMENT_PREFIX, Settings
from rebalance_monitor.config.paths import expanded
from rebalance_monitor.config.receivers import is_secret_field
from rebalance_monitor.config.secrets import is_secret
from rebalance_monitor.config.texts import from_json, from_yaml, shortened

CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
# Variables with our prefix that are not settings of the monitor.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, ENVIRONMENT_PREFIX + "CACHE"})

# What Kubernetes sets in each pod for a Service whose name begins as ours, as NAME=value.
SERVICE_LINK = re.compile(
    r"\w*_SERVICE_(HOST|PORT(_\w+)?)=.*|\w*_PORT=\w+://.*|\w*_PORT_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?=.*"
)

# In place of pydantic's words, which name Python types that no YAML file has.
PLAIN = {
    "tuple_type": "must be a list",
    "path_type": "must be a path",
    "dict_type": "must hold `key: value` lines",
    "model_type": "must hold `key: value` lines",
    "model_attributes_type": "must hold `key: value` lines",
    "string_type": "must be a text",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "missing": "is missing",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}

_FOR_SECTIONS = frozenset({"model_type", "model_attributes_type"})
FREE_FORM: dict[str, type[FreeForm]] = {"kafka": Kafka, "spark": Spark}

Tree = dict[str, object]


def load(path: Path | None = None, flags: Mapping[str, object] | None = None) -> Settings:
    """Return the settings from the flags, the environment, the YAML file and the defaults.

    `flags` is nested data, or dotted keys (`detection.storm_threshold`); None is a value, as in the file.
    Without `path` the file named by REBALANCE_MONITOR_CONFIG is read, if any. Raises `ConfigError`.
    """
    return load_layers(path, flags)[0]


def load_layers(
    path: Path | None = None, flags: Mapping[str, object] | None = None
) -> tuple[Settings, Mapping[str, Tree]]:
    """Return what `load` does, and what each layer says, the strongest first. Raises `ConfigError`."""
    found = load_as_far(path, flags)
    if found.problems or found.settings is None:
        raise ConfigError.of(found.problems)
    return found.settings, found.layers


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration as far as it can be used.

    settings: without the sections that are wrong, which are at their defaults; None where that does not help.
    wrong: the names of these sections. problems: what is wrong, one sentence each.
    """

    settings: Settings | None
    layers: Mapping[str, Tree]
    problems: list[str]
    wrong: frozenset[str] = frozenset()


def load_as_far(path: Path | None = None, flags: Mapping[str, object] | None = None) -> Loaded:
    """Return what `load_layers` does, with the problems of all layers at once. Raises nothing."""
    path = path or _file_from_environment()
    problems: list[str] = []
    layers = {
        "on the command line": {key: _filled(Settings, key, v) for key, v in nested(flags or {}).items()},
        "in the environment": _read(_environment, problems),
        f"in the file {path}": _read(partial(read_yaml, path), problems) if path else {},
    }
    merged: Tree = {}
    for layer in reversed(layers.values()):
        merged = _merged(_outdone(merged, layer), layer)
    try:
        return Loaded(Settings(**merged), layers, problems)  # type: ignore[arg-type]  # validated right there
    except ValidationError as error:
        details = error.errors()
    problems += [_sentence(detail, layers) for detail in details]
    wrong = frozenset(str(detail["loc"][0]) for detail in details if detail["loc"])
    try:
        rest = Settings(**{key: part for key, part in merged.items() if key not in wrong})  # type: ignore[arg-type]  # as above
    except ValidationError:
        rest = None
    return Loaded(rest, layers, problems, wrong)


def _read(layer: Callable[[], Tree], problems: list[str]) -> Tree:
    """Return a layer; one that cannot be read is empty, and adds what is wrong with it to `problems`."""
    try:
        return layer()
    except ConfigError as error:
        problems += error.problems
        return {}


def nested(flat: Mapping[str, object]) -> Tree:
    """Return the tree of dotted keys; property names keep their dots."""
    tree: Tree = {}
    for key, value in flat.items():
        section, dot, rest = key.partition(".")
        branch: Tree = {section: value}
        if dot:
            whole = section in {"kafka", "spark"}
            branch = {section: {rest: value} if whole else nested({rest: value})}
        tree = _merged(tree, branch)
    return tree


def read_yaml(path: Path) -> Tree:
    """Return the mapping in a YAML file; raises `ConfigError` if it cannot be read or is something else."""
    try:
        data = from_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"the configuration file {path} cannot be read: it is not in UTF-8") from None
    except ValueError as error:
        raise ConfigError(f"the configuration file {path} is not valid YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        found = "a list" if isinstance(data, list) else "a text"
        raise ConfigError(f"the configuration file {path} must hold `key: value` lines, not {found}")
    return {str(key): _filled(Settings, str(key), value) for key, value in data.items()}


def _file_from_environment() -> Path | None:
    named = os.environ.get(CONFIG_VARIABLE)
    return expanded(named) if named else None


def _environment() -> Tree:
    """Return what the environment sets; raises `ConfigError` for a variable of ours that is no setting."""
    problems = [
        f"unknown variable {name} in the environment{_nearest(key, Settings)}; unset it or correct its name"
        for name, value in sorted(os.environ.items())
        if name.upper().startswith(ENVIRONMENT_PREFIX) and name.upper() not in OTHER_VARIABLES
        if "__" in name or not SERVICE_LINK.fullmatch(f"{name}={value}")
        if (key := name[len(ENVIRONMENT_PREFIX) :].lower().split("__")[0]) not in Settings.model_fields
    ]
    given = [name for name in sorted(os.environ) if name.upper().startswith(ENVIRONMENT_PREFIX)]
    for one, other in pairwise(sorted(given, key=str.upper)):
        if one.upper() == other.upper():
            problems.append(f"{one} and {other} are both set in the environment; keep one of them")
    if problems:
        raise ConfigError.of(problems)
    try:
        return dict(_Variables(Settings)())
    except SettingsError as error:
        raise ConfigError(f"in the environment: {error.__cause__ or error}") from None


class _Variables(EnvSettingsSource):
    """The environment; a variable that holds a list or a map is JSON, read as the file is."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: str) -> object:  # noqa: ARG002 - pydantic's signature
        """Return what a variable holds. Raises ValueError, without a value of it."""
        try:
            return from_json(value)
        except json.JSONDecodeError as error:
            wrong = f"its character {error.pos + 1} is wrong"
        except ValueError as error:
            wrong = str(error)
        raise ValueError(
            f'`{field_name}` is no JSON, {wrong}; write lists and maps as JSON: ["a", "b"], {{"a": "b"}}'
        )


def _outdone(below: Tree, above: Mapping[str, object]) -> Tree:
    """Return `below` without the properties that `above` sets by another spelling, as `x_file` for one."""
    result = dict(below)
    for section, model in FREE_FORM.items():
        under, over = below.get(section), above.get(section)
        if isinstance(under, Mapping) and isinstance(over, Mapping):
            names = {model.own_name(str(key)) for key in over}
            result[section] = {key: under[key] for key in under if model.own_name(str(key)) not in names}
    return result


def _merged(below: Tree, above: Mapping[str, object]) -> Tree:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        both = isinstance(under, dict) and isinstance(value, Mapping)
        result[key] = _merged(under, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return result


def _filled(model: type[BaseModel], key: str, value: object) -> object:
    """Let a section that is written but left empty mean its defaults."""
    field = model.model_fields.get(key)
    if field is None or not isinstance(field.default, BaseModel):
        return value
    if isinstance(value, Mapping):
        return {name: _filled(type(field.default), str(name), part) for name, part in value.items()}
    return {} if value is None else value


def _sentence(detail: ErrorDetails, layers: Mapping[str, Tree]) -> str:
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    where = _where(path, layers)
    if detail["type"] == "extra_forbidden":
        return f"unknown key `{key}` {where}{_nearest(path[-1], _section(path[:-1]), path[:-1])}"
    message = PLAIN.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not path:
        return message
    if detail["type"] == "string_pattern_mismatch":
        # The pattern itself is for programs.
        field = _section(path[:-1]).model_fields.get(path[-1])
        message = f"does not fit: {((field and field.description) or 'see the reference').rstrip('.')}"
    value = detail["input"]
    hidden = is_secret(key) or is_secret_field(_section(path[:-1]), path[-1])
    # A text where a section belongs may be the secret that belongs into it.
    hidden = hidden or (detail["type"] in _FOR_SECTIONS and isinstance(value, str))
    found = isinstance(value, str | int | float) and not hidden and detail["type"] != "value_error"
    if detail["type"] == "string_type" and isinstance(value, bool):
        message += ", which a truth value needs quotes to be"
    return f"`{key}` {where}: {message}" + (f", found {shortened(repr(value))}" if found else "")


def set_where(path: list[str], layers: Mapping[str, Tree]) -> str | None:
    """Return in which layer a key was set, as words (`in the file monitor.yaml`); None where it was not."""
    return next((name for name, layer in layers.items() if _has(layer, path)), None)


def _where(path: list[str], layers: Mapping[str, Tree]) -> str:
    return set_where(path, layers) or "in the configuration"


def _has(layer: Tree, path: list[str]) -> bool:
    node: object = layer
    for depth, part in enumerate(path):
        if not isinstance(node, Mapping):
            # A validator of the whole section reports a place inside a value.
            return depth > 0
        if part not in node:
            return False
        node = node[part]
    return True


def _section(path: list[str]) -> type[BaseModel]:
    model: type[BaseModel] = Settings
    for part in path:
        field = model.model_fields.get(part)
        # An index into a list stands for one of its items: the loop stays with the item's model.
        model = model if field is None else _model_in(field.annotation) or model
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that a field's annotation is, or is a tuple of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _nearest(key: str, section: type[BaseModel], path: list[str] | None = None) -> str:
    names = list(_names(section))
    close = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6)
    if close:
        return f": did you mean `{'.'.join([*(path or []), close[0]])}`?"
    return f": the keys here are {', '.join(names)}"


def _names(section: type[BaseModel]) -> Iterator[str]:
    yield from section.model_fields
