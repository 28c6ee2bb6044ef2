"""No verb shows a secret on a terminal: neither in a log, nor in a traceback, nor in a library's words."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from rebalance_monitor.cli.main import cli, run
from rebalance_monitor.cli.registry import VERBS
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from tests.hostile import hostile_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "hunter2hunter2hunter2"  # noqa: S105 - made up, to be looked for
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
# What each verb is given beside a configuration. What they say of it is in test_main.py.
RUNS: dict[str, str] = {
    "run": "",
    "watch": "",
    "doctor": "",
    "decode": "",
    "capture": "copy --until-end",
    "replay": "--capture nowhere",
    "explain": "orders",
    "top": "",
    "groups": "",
    "history": "orders",
    "checkpoint groups": "",
    "checkpoint inspect": "",
    "checkpoint prune": "",
    "checkpoint verify": "",
    "table optimize": "",
    "table sql": "06_storms",
    "audit": "",
    "alerts preview": "/dev/null",
    "alerts routes": "orders",
    "alerts silence add": "group=orders",
    "alerts silence list": "",
    "alerts silence expire": "nothing",
    "alerts test": "hook2",
    "config check": "",
    "config show": "",
    "config thresholds": "orders",
}
RUN_ALL = """
import json, sys
from rebalance_monitor.cli.main import run

for words in json.loads(sys.argv[1]):
    print("code", int(run(words)))
"""
# Every verb, and every verb of a verb, fails with a password among the local variables: by an error with a
# sentence, whose traceback goes to the log at debug, and by a bug, which is logged as code of ours logs it.
FAILS = """
import click, structlog
from rebalance_monitor.cli.main import cli, run
from rebalance_monitor.config.errors import ConfigError

def leaves(command, *words):
    if not isinstance(command, click.Group):
        yield command, words
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), *words, name)

def fail(**_):
    password = "".join(("hunter2", "hunter2", "hunter2"))
    raise kind(f"a password of {len(password)} letters")

for command, words in leaves(cli):
    command.params.clear()
    command.callback = fail
    for kind in (ConfigError, ZeroDivisionError):
        try:
            run(["--log-level", "debug", *words])
        except ZeroDivisionError:
            structlog.get_logger().exception("failed", verb=" ".join(words))
    print("tried", *words)
"""


def on_a_terminal(command: list[str], folder: Path, seconds: float = 90) -> str:
    """Run a command with a terminal for all its streams, and return what it writes there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "TEXTUAL_ANIMATIONS": "none"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65_536):
            said += part
    except OSError:
        # Linux says so where the other side is closed.
        pass
    finally:
        os.close(ours)
        process.wait(seconds)
    return said.decode(errors="replace")


def settings(folder: Path) -> Path:
    """A configuration that is right, holds every kind of secret, and names a broker that is not there."""
    (jar := folder / "a.jar").touch()
    nowhere = "http://127.0.0.1:1"
    made: dict[str, Any] = {
        "kafka": {
            "bootstrap_servers": "127.0.0.1:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="u" password="{SECRET}";',
        },
        "spark": {"spark.hadoop.fs.s3a.secret.key": SECRET},
        "web": {"token": SECRET, "port": 1},
        "storage": {"path": str(folder / "data")},
        "jars": [str(jar)],
        "alerts": {
            "receivers": [
                {"name": "hook", "webhook": {"url": f"{nowhere}/{SECRET}", "timeout": "1s"}},
                {
                    "name": "hook2",
                    "slack": {
                        "webhook_url": f"{nowhere}/{SECRET}",
                        "proxy": f"http://u:{SECRET}@127.0.0.1:1",
                    },
                },
            ],
            "route": {"receiver": "hook"},
        },
    }
    (path := folder / "monitor.yaml").write_text(yaml.safe_dump(made))
    return path


def test_no_verb_shows_the_local_variables_of_what_fails(tmp_path: Path) -> None:
    said = on_a_terminal([sys.executable, "-c", FAILS], tmp_path)
    tried = re.findall(r"^tried (\S+)", said, re.MULTILINE)
    assert set(tried) == set(VERBS), said
    assert said.count("a password of 21 letters") == 3 * len(tried)
    assert "Traceback (most recent call last)" in said
    assert SECRET not in said


def leaves(command: click.Command, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Every verb, and every verb of a verb."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (found := command.get_command(context, name)) is not None:
            yield from leaves(found, *words, name)


def test_no_verb_shows_a_secret_of_its_configuration_or_runs_a_module_of_the_current_folder(
    tmp_path: Path,
) -> None:
    takers = {words for words, verb in leaves(cli) if any(one.name == "config" for one in verb.params)}
    assert set(RUNS) == takers
    config, current = settings(tmp_path), hostile_folder(tmp_path / "current")
    lines: dict[str, list[list[str]]] = {}
    for words, more in RUNS.items():
        line = ["--log-level", "debug", *words.split(), *more.split(), "--config", str(config)]
        lines.setdefault(words.split()[0], []).append(line)

    def said(verb: str) -> str:
        # As the program does, it passes over the current folder; what it starts must do so too.
        return on_a_terminal([sys.executable, "-P", "-c", RUN_ALL, json.dumps(lines[verb])], current)

    with ThreadPoolExecutor(4) as verbs:
        told = dict(zip(lines, verbs.map(said, lines), strict=True))
    assert {verb for verb, text in told.items() if SECRET in text} == set(), told
    ended = {verb: len(re.findall(r"^code \d", text, re.MULTILINE)) for verb, text in told.items()}
    assert ended == {verb: len(each) for verb, each in lines.items()}, told
    assert {verb for verb, text in told.items() if "Usage:" in text} == set(), told
    assert [path.name for path in current.glob("*.ran")] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"kafka: {{sasl.password: *{SECRET}}}", "a value begins with `*`; put quotes around it, in line 1"),
        (
            f"kafka: {{sasl.password: !{SECRET} x}}",
            "a value begins with `!`; put quotes around it, in line 1",
        ),
        (f"kafka:\n  sasl.password: 'a' {SECRET}", "is not valid YAML"),
        (f"kafka: {{sasl.password: !!int {SECRET}}}", "is not valid YAML"),
        (f"kafka: {{sasl.password: !!bool {SECRET}}}", "is not valid YAML"),
        (f"web: {{token: {{{SECRET}: 1}}}}", "`web.token"),
        (f"kafka: {SECRET}", "`kafka`"),
        (f"kafka: {{sasl.password: [{SECRET}]}}", "`sasl.password` must be a text"),
    ],
)
def test_no_error_of_the_file_shows_a_secret(
    tmp_path: Path, text: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "monitor.yaml").write_text(text)
    assert run(["--log-level", "debug", "config", "check", "-c", str(path)]) == 2
    said = capfd.readouterr().err
    assert "Traceback" in said
    assert SECRET not in said
    assert sentence in said


@pytest.mark.parametrize("scheme", ["ftp", "socks4", "htp", "://", ""])
@pytest.mark.parametrize("kind", ["slack", "pagerduty", "webhook"])
def test_no_error_of_a_proxy_shows_its_password(kind: str, scheme: str) -> None:
    way = {
        "slack": {"webhook_url": "https://hooks.slack.example/x"},
        "pagerduty": {"routing_key": "k" * 32},
        "webhook": {"url": "https://hooks.example/x"},
    }[kind]
    receiver = {"name": "a", kind: {**way, "proxy": f"{scheme}://u:{SECRET}@proxy:3128"}}
    with pytest.raises(ConfigError, match="`proxy` must be an address that begins with http://") as told:
        load(flags={"alerts": {"receivers": [receiver]}})
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("proxy", [f"ftp://u:{SECRET}@proxy:1", f"http://u:{SECRET}@proxy:port"])
def test_no_error_of_the_environments_proxy_shows_its_password(
    proxy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    (path := tmp_path / "monitor.yaml").write_text(
        "alerts: {receivers: [{name: a, webhook: {url: 'https://hooks.example/x'}}], route: {receiver: a}}"
    )
    assert run(["config", "check", "-c", str(path)]) == 2
    assert run(["groups", "--url", "https://monitor.example"]) == 2
    said = capsys.readouterr().err
    assert SECRET not in said
    assert said.count("the proxy that the environment names cannot be used: its address is malformed") == 2


def test_no_error_of_an_address_shows_its_login(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["groups", "--url", f"http://u:{SECRET}@127.0.0.1:1"]) == 3
    assert run(["groups", "--url", f"http://u:{SECRET}@host:port"]) == 2
    assert run(["groups", "--set", f"web.token {SECRET}"]) == 2
    assert SECRET not in capsys.readouterr().err


def test_an_app_that_fails_on_the_terminal_shows_no_local_variables(tmp_path: Path) -> None:
    code = (
        "from rebalance_monitor.dashboard.top.app import Top\n"
        "class Answers:\n"
        "    where = 'here'\n"
        "    def ask(self, path, **values):\n"
        "        password = ''.join(('hunter2', 'hunter2', 'hunter2'))\n"
        "        raise ZeroDivisionError(len(password))\n"
        "Top(Answers()).run()\n"
    )
    said = on_a_terminal([sys.executable, "-c", code], tmp_path)
    assert "ZeroDivisionError" in said
    assert SECRET not in said
