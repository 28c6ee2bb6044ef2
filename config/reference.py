"""Writes the reference file and the reference page from the model, so that they cannot disagree with it.

`reference_yaml` gives a file that means the defaults, as it stands and uncommented alike;
`reference_markdown` gives `docs/configuration.md`. `make docs` writes both, a test compares them with what
is committed.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from rebalance_monitor.config.durations import Duration
from rebalance_monitor.config.kafka.clients import OWNED, FreeForm
from rebalance_monitor.config.model import ENVIRONMENT_PREFIX, Settings
from rebalance_monitor.config.receivers import WayOut

WIDTH = 100
RECEIVER = "alerts.receivers[]"
PROPERTIES = {
    "kafka": (
        "security.protocol: SASL_SSL",
        "sasl.mechanism: SCRAM-SHA-512",
        "sasl.jaas.config_file: /run/secrets/jaas   # `<property>_file` reads the value from a file",
    ),
    "spark": ('spark.sql.shuffle.partitions: "2"', "spark.driver.memory: 2g"),
}
EXAMPLES = {
    "always_on": '["payments-*"]',
    "severity_overrides": "[{kind: storm, severity: warning, pattern: batch-*}]",
    "groups": "[{pattern: pay-*, team: payments}, {pattern: batch-*, storm_threshold: 20}]",
    "receivers": "[{name: sre, slack: {token_file: /run/secrets/slack, channel: C0123ABCD}}]",
    "routes": """[{matchers: ['severity="critical"'], receiver: pager, continue: true}]""",
    "inhibit_rules": """[{source_matchers: ['severity="critical"'],"""
    """ target_matchers: ['severity="warning"'], equal: [cluster, group]}]""",
    "time_intervals": "[{name: nights, time_intervals: "
    '[{times: [{start_time: "22:00", end_time: "24:00"}]}]}]',
    "templates": """{chat: '{"text": {{ title | tojson }}}'}""",
    "packages": "[org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0]",
    "jars": "[/opt/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar]",
}
HEAD = """\
The configuration of rebalance-monitor: every setting with its default, to be uncommented. Generated from
the code. Stronger than this file are the environment ({prefix}SOURCE__STARTING=latest) and flags
(--set source.starting=latest). Unknown keys are refused.
"""
PAGE = """\
# Configuration

<!-- Generated from config/model.py by `make docs`; edit the descriptions there. -->

Strongest first:

1. flags: `--set detection.storm_threshold=8`;
2. the environment: `{prefix}DETECTION__STORM_THRESHOLD=8`; lists and maps as JSON;
3. the YAML file: `--config FILE`, or the file named by `{prefix}CONFIG`;
4. the defaults.

Unknown keys are refused by name, in every layer. `rebalance-monitor config check --config FILE` says what is
wrong with a file, `config show` prints the effective configuration with secrets hidden, `config reference`
prints the commented reference file.

**Secrets.** Any property `x` of `kafka`, `spark` or a receiver may be given as `x_file`: the value is that
file's content. A property whose name says that it is secret (`ssl.key.password`…) is never printed.

**Kafka.** Besides `bootstrap_servers`, `kafka` takes every property of the Kafka client by its own name and
passes it to Spark and to the monitor's own clients alike. In the environment `_` stands for `.`
(`{prefix}KAFKA__SECURITY_PROTOCOL`). Not allowed, because the monitor sets them itself:
{owned}.

**Durations** are written as in Prometheus: `250ms`, `30s`, `5m`, `1h30m`, `30d`. A number without a unit is
refused, but for 0.

How to use `alerts`: [Alerts](alerts.md), [Tune one team's thresholds and route](howto/tune-a-team.md).
"""


def reference_yaml() -> str:
    """Return the commented YAML file with every setting at its default."""
    head = "".join(f"## {line}\n" for line in HEAD.format(prefix=ENVIRONMENT_PREFIX).splitlines())
    return head + "".join(f"\n{block}" for block in _blocks(Settings, ""))


def reference_markdown() -> str:
    """Return the page docs/configuration.md: one table per section."""
    owned = ", ".join(f"`{name}`" for name in OWNED)
    page = PAGE.format(prefix=ENVIRONMENT_PREFIX, owned=owned)
    fields = Settings.model_fields
    flat = {name: field for name, field in fields.items() if not isinstance(field.default, BaseModel)}
    page += "\n## Top level\n\n" + _table(flat)
    for name, field in fields.items():
        if isinstance(field.default, BaseModel):
            page += f"\n## `{name}`\n\n{field.description}\n\n" + _section_body(name, type(field.default))
    return page


def _section_body(name: str, model: type[BaseModel]) -> str:
    body = _table(model.model_fields) if model.model_fields else ""
    for path, part in parts_of(model, name):
        if part.model_fields:
            body += f"\n### `{path}`\n\n{_doc(part)}\n{_own_table(part)}"
            body += _common() if path == RECEIVER else ""
    if issubclass(model, FreeForm):
        body += ("\n" if body else "") + "```yaml\n" + f"{name}:\n"
        body += "".join(f"  {example}\n" for example in PROPERTIES[name]) + "```\n"
    return body


def _own_table(part: type[BaseModel]) -> str:
    """Return the table of a section; of a receiver, without what all receivers have."""
    own = {name: field for name, field in part.model_fields.items() if not _is_common(part, name)}
    return f"\n{_table(own)}" if own else ""


def _is_common(part: type[BaseModel], name: str) -> bool:
    """Return whether a receiver's key is the one that all receivers have, unchanged."""
    common = WayOut.model_fields.get(name) if issubclass(part, WayOut) else None
    own = part.model_fields[name]
    return common is not None and (common.default, common.description) == (own.default, own.description)


def _common() -> str:
    return f"\nEvery section below has these keys too:\n\n{_table(WayOut.model_fields)}"


def parts_of(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the sections within a section, with their paths; `[]` stands for each item of a list.

    A section within itself, as the routes of a route, is listed once. Lists of one table's rows that the
    section's own description explains (`detection`) are left to it.
    """
    if path == "detection":
        return
    for name, field in model.model_fields.items():
        part = model_in(field.annotation)
        if part is None or part is model:
            continue
        below = f"{path}.{_key(name, field)}" + ("[]" if _is_list(field.annotation) else "")
        yield below, part
        yield from parts_of(part, below)


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the section that a field's annotation is, or is a tuple or an optional one of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part))), None)


def _doc(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _is_list(annotation: object) -> bool:
    return get_origin(annotation) is tuple


def _table(fields: dict[str, FieldInfo]) -> str:
    rows = (
        f"| `{_key(name, field)}` | {_kind(field.annotation)} | {_default(field)} | {field.description} |\n"
        for name, field in fields.items()
    )
    return "| key | type | default | what |\n|---|---|---|---|\n" + "".join(rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be set"
    text = "" if isinstance(field.default, BaseModel) else _scalar(field.default)
    return f"`{text}`" if text else ""


def _blocks(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield _section(name, field, indent)
        else:
            # Commented out: a setting that nobody configured may take the brokers' own value.
            yield (
                _comment(_prose(name, field), indent)
                + f"{indent}# {_key(name, field)}: {_scalar(field.default)}".rstrip()
                + "\n"
            )


def _section(name: str, field: FieldInfo, indent: str) -> str:
    model = type(field.default)
    body = "".join(_blocks(model, indent + "  "))
    if issubclass(model, FreeForm):
        body += "".join(f"  # {example}\n" for example in PROPERTIES[name])
    return _comment(str(field.description), indent) + f"{indent}{name}:\n{body}"


def _prose(name: str, field: FieldInfo) -> str:
    example = f" For example {EXAMPLES[name]}" if name in EXAMPLES else ""
    return f"{field.description} ({_kind(field.annotation)}){example}"


def _comment(text: str, indent: str) -> str:
    return "".join(f"{indent}## {line}\n" for line in textwrap.wrap(text, WIDTH - len(indent)))


def _scalar(value: object) -> str:
    if value is None:
        return ""
    plain = (
        list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path | str) else value
    )
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("...\n").strip()


NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    SecretStr: "secret",
    Duration: "duration",
}


def _kind(annotation: object) -> str:
    """Return the type in words: `Literal`s as their values, tuples as lists, optional ones by their type."""
    if isinstance(annotation, type) and annotation in NAMES:
        return NAMES[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    if get_origin(annotation) is dict:
        return "map"
    parts = get_args(annotation)
    if parts and all(isinstance(part, str) for part in parts):
        return " or ".join(f"`{part}`" for part in parts)
    inner = next(part for part in (*parts, str) if part not in {type(None), Ellipsis})
    is_list = getattr(annotation, "__origin__", None) is tuple
    return f"list of {_kind(inner)}" if is_list and inner in NAMES else "list" if is_list else _kind(inner)
