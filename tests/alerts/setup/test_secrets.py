"""No secret of a receiver is in any log line, error, text form, printed configuration or file we keep."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.alerts.runtime.dispatcher import Dispatcher, wall_ms
from rebalance_monitor.alerts.setup.receivers import plan_of, sinks_of
from rebalance_monitor.alerts.setup.setup import checked
from rebalance_monitor.cli.main import run
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.receivers import KINDS, Receiver, is_secret_field
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRETS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=16, max_size=24)
NOWHERE = "http://127.0.0.1:1"


def receivers(secret: str) -> list[dict[str, Any]]:
    """Return a receiver of every kind, each secret in it a different one that holds `secret`."""
    ways: dict[str, dict[str, Any]] = {
        "slack": {"token": f"xoxb-{secret}", "channel": "C0123ABCD", "api_url": f"{NOWHERE}/api/"},
        "pagerduty": {"routing_key": secret, "base_url": NOWHERE},
        "alertmanager": {"urls": [NOWHERE], "username": "u", "password": secret},
        "webhook": {"url": f"{NOWHERE}/{secret}", "signing_secret": secret, "authorization": secret},
        "email": {"to": ["a@b"], "sender": "c@d", "host": "127.0.0.1", "port": 1, "username": "u"},
        "kafka": {"topic": "alerts", "properties": {"bootstrap.servers": "127.0.0.1:1"}},
    }
    ways["email"]["password"] = secret
    ways["kafka"]["properties"]["sasl.password"] = secret
    made = [{"name": kind, kind: {**way, "timeout": "1s"}} for kind, way in ways.items()]
    hook = {"webhook_url": f"{NOWHERE}/{secret}", "timeout": "1s"}
    bearer = {"urls": [NOWHERE], "bearer_token": secret, "proxy": f"http://u:{secret}@127.0.0.1:1"}
    return [*made, {"name": "hook", "slack": hook}, {"name": "bearer", "alertmanager": bearer}]


def section(secret: str) -> dict[str, Any]:
    names = [receiver["name"] for receiver in receivers(secret)]
    routes = [{"receiver": name, "continue": True} for name in names]
    return {
        "receivers": receivers(secret),
        "route": {"receiver": names[0], "group_wait": "10ms", "group_interval": "100ms", "routes": routes},
    }


def test_every_secret_field_of_every_way_is_tried_here() -> None:
    given_ = {(kind, name) for one in receivers("x" * 16) for kind in KINDS for name in one.get(kind, {})}
    for kind in KINDS:
        model = next(m for m in (Receiver.model_fields[kind].annotation.__args__) if m is not type(None))  # type: ignore[union-attr] # an optional section
        secret = {name for name in model.model_fields if is_secret_field(model, name)} - {"proxy"}
        assert secret <= {name for owner, name in given_ if owner == kind}


@settings(max_examples=25, deadline=None)
@given(SECRETS)
def test_no_text_form_of_the_configuration_shows_one(secret: str) -> None:
    made = Settings(alerts=section(secret))
    plan = plan_of(made, "prod")
    texts = [repr(made), str(made), made.model_dump_json(), yaml.safe_dump(made.redacted()), repr(plan)]
    texts += [repr(checked(made.alerts)), *map(repr, made.alerts.receivers)]
    assert not [text for text in texts if secret in text]


@settings(max_examples=25, deadline=None)
@given(SECRETS, st.sampled_from(["number", "list", "key", "double", "file"]))
def test_no_error_shows_one(secret: str, mistake: str) -> None:
    slack: dict[str, Any] = {"token": secret, "channel": "C0123ABCD"}
    match mistake:
        case "number":
            slack["token"] = int.from_bytes(secret.encode())
        case "list":
            slack["token"] = [secret]
        case "key":
            slack["tokn"] = secret
        case "double":
            slack["webhook_url"] = secret
        case _:
            slack["webhook_url_file"] = "/nowhere"
    hidden = str(int.from_bytes(secret.encode())) if mistake == "number" else secret
    with pytest.raises(ConfigError) as caught:
        load(flags={"alerts": {"receivers": [{"name": "a", "slack": slack}]}})
    assert hidden not in str(caught.value)


def test_the_commands_show_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, path = "s3cretofallsecrets", tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"alerts": section(secret), "storage": {"path": str(tmp_path / "s")}}))
    for words in (
        ["config", "show"],
        ["config", "check"],
        ["alerts", "routes", "g"],
        ["alerts", "test", "webhook"],
    ):
        run([*words, "-c", str(path)])
    said = capsys.readouterr()
    assert "receivers" in said.out
    assert secret not in said.out + said.err


@pytest.fixture
def loud() -> Iterator[None]:
    """Let every library say all that it can."""
    root = logging.getLogger()
    level, handler = root.level, logging.StreamHandler()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.usefixtures("loud")
def test_failing_receivers_leave_none_in_logs_and_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "s3cretofallsecrets"  # noqa: S105 - a made-up one, to be looked for
    made = Settings(alerts=section(secret))
    with Dispatcher(tmp_path, partial(plan_of, made, "prod"), sinks_of(made)) as dispatcher:
        dispatcher.open({})
        now = wall_ms()
        dispatcher.put(("q", 0), [replace(finding(Kind.STORM), at=now, detected_at=now, incident="i")])
        dispatcher.committed(("q", 0))
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and not all(way.failed for way in dispatcher.status.ways):
            time.sleep(0.05)
        status = dispatcher.status
    assert all(way.failed for way in status.ways), status
    said = capfd.readouterr()
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert secret not in said.out + said.err + repr(status)
    assert not [content for content in kept if secret.encode() in content]
