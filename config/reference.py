"""Writes the reference file and the reference page from the model, so that they cannot disagree with it.

`reference_yaml` gives a file that means the defaults, as it stands and uncommented alike;
`reference_markdown` gives `docs/configuration.md`. `make docs` writes both, a test compares them with what
is committed.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rebalance_monitor.config.clients import OWNED, FreeForm
from rebalance_monitor.config.model import ENVIRONMENT_PREFIX, Settings

WIDTH = 100
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
    "group_overrides": "[{pattern: batch-*, storm_threshold: 20}]",
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

Strongest first: flags (`--set detection.storm_threshold=8`), the environment
(`{prefix}DETECTION__STORM_THRESHOLD=8`; lists and maps as JSON), the YAML file (`--config FILE`, or the
file named by `{prefix}CONFIG`), the defaults. Unknown keys are refused by name, in every layer.

`rebalance-monitor config check --config FILE` says what is wrong with a file, `config show` prints the
effective configuration with secrets hidden, `config reference` prints the commented reference file.

**Secrets.** A property whose name says that it is secret (`sasl.jaas.config`, `ssl.key.password`…) is never
printed. Any property `x` of `kafka` and `spark` may be given as `x_file`: the value is that file's content.

**Kafka.** Besides `bootstrap_servers`, `kafka` takes every property of the Kafka client by its own name and
passes it to Spark and to the monitor's own clients alike. In the environment `_` stands for `.`
(`{prefix}KAFKA__SECURITY_PROTOCOL`). Not allowed, because the monitor sets them itself:
{owned}.
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
    if issubclass(model, FreeForm):
        body += ("\n" if body else "") + "```yaml\n" + f"{name}:\n"
        body += "".join(f"  {example}\n" for example in PROPERTIES[name]) + "```\n"
    return body


def _table(fields: dict[str, FieldInfo]) -> str:
    rows = (
        f"| `{name}` | {_kind(field.annotation)} | {_default(field.default)} | {field.description} |\n"
        for name, field in fields.items()
    )
    return "| key | type | default | what |\n|---|---|---|---|\n" + "".join(rows)


def _default(value: object) -> str:
    text = _scalar(value)
    return f"`{text}`" if text else ""


def _blocks(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield _section(name, field)
        else:
            # Commented out: a setting that nobody configured may take the brokers' own value.
            yield (
                _comment(_prose(name, field), indent)
                + f"{indent}# {name}: {_scalar(field.default)}".rstrip()
                + "\n"
            )


def _section(name: str, field: FieldInfo) -> str:
    model = type(field.default)
    body = "".join(_blocks(model, "  "))
    if issubclass(model, FreeForm):
        body += "".join(f"  # {example}\n" for example in PROPERTIES[name])
    return _comment(str(field.description), "") + f"{name}:\n{body}"


def _prose(name: str, field: FieldInfo) -> str:
    example = f" For example {EXAMPLES[name]}" if name in EXAMPLES else ""
    return f"{field.description} ({_kind(field.annotation)}){example}"


def _comment(text: str, indent: str) -> str:
    return "".join(f"{indent}## {line}\n" for line in textwrap.wrap(text, WIDTH - len(indent)))


def _scalar(value: object) -> str:
    if value is None:
        return ""
    plain = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("...\n").strip()


NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}


def _kind(annotation: object) -> str:
    """Return the type in words: `Literal`s as their values, tuples as lists, optional ones by their type."""
    if isinstance(annotation, type) and annotation in NAMES:
        return NAMES[annotation]
    parts = get_args(annotation)
    if parts and all(isinstance(part, str) for part in parts):
        return " or ".join(f"`{part}`" for part in parts)
    inner = next(part for part in (*parts, str) if part not in {type(None), Ellipsis})
    is_list = getattr(annotation, "__origin__", None) is tuple
    return f"list of {_kind(inner)}" if is_list and inner in NAMES else "list" if is_list else _kind(inner)
