"""The entry point: quick help, exit codes by error, data and messages on the right stream."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
import yaml

from rebalance_monitor.cli import registry
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import ARROW_POOL, cli, main, run
from rebalance_monitor.cli.options import load_settings
from rebalance_monitor.cli.sources import _connection
from rebalance_monitor.cli.verbs.job.run import stop_on_signals
from rebalance_monitor.cluster.errors import BrokerUnreachableError, DependencyError
from rebalance_monitor.config.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "confluent_kafka",
    "great_expectations",
    "kafka",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "structlog",
    "yaml",
}


def in_a_new_process(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)


def test_help_imports_nothing_heavy() -> None:
    printed = in_a_new_process(
        "import sys\n"
        "from rebalance_monitor.cli.main import run\n"
        "run(['--help'])\n"
        "print('|'.join(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    loaded = set(printed.stdout.splitlines()[-1].split("|"))
    assert "click" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize(("given", "pool"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_arrow_takes_its_memory_from_the_system_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None, pool: str
) -> None:
    monkeypatch.delenv(ARROW_POOL, raising=False)
    if given:
        monkeypatch.setenv(ARROW_POOL, given)
    printed = in_a_new_process(
        "import os, sys\n"
        "from rebalance_monitor.cli.main import ARROW_POOL, main\n"
        "sys.argv = ['rebalance-monitor', '--version']\n"
        "main()\n"
        "import pyarrow\n"
        "print(pyarrow.default_memory_pool().backend_name, os.environ.get(ARROW_POOL))\n"
    )
    assert printed.stdout.splitlines()[-1] == f"{pool} {given}"


def test_logs_are_set_up_without_rich_which_stays_there_for_a_verb_that_draws() -> None:
    printed = in_a_new_process(
        "import sys\n"
        "from rebalance_monitor.cli.logs import configure\n"
        "configure('warning')\n"
        "print('structlog' in sys.modules, 'rich' in sys.modules)\n"
        "from rich.console import Console\n"
        "print(Console.__module__)\n"
    )
    assert printed.stdout.splitlines() == ["True False", "rich.console"]


def test_help_names_every_verb_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == ExitCode.FINE
    printed = capsys.readouterr().out
    for verb, summary in registry.VERBS.items():
        assert f"  {verb} " in printed
        assert summary.split()[0] in printed


def test_every_file_that_defines_a_command_is_a_verb_of_the_table() -> None:
    defining = re.compile(r"^def command\(|^command\b.*=", re.MULTILINE)
    files = (ROOT / "cli" / "verbs").rglob("*.py")
    defined = [path for path in files if defining.search(path.read_text(encoding="utf-8"))]
    listed = [(folder, verb) for folder, verbs in registry.FOLDERS.items() for verb in verbs]
    assert sorted((path.parent.name, path.stem) for path in defined) == sorted(listed)
    assert sorted(verb for _, verb in listed) == sorted(registry.VERBS)


@pytest.mark.parametrize("verb", registry.VERBS)
def test_every_verb_exposes_a_command_with_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == ExitCode.FINE
    assert "Usage: rebalance-monitor " + verb in capsys.readouterr().out


def test_version_is_the_one_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == ExitCode.FINE
    assert capsys.readouterr().out.startswith("rebalance-monitor, version ")


def failing_with(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("no such key"), 2),
        (click.UsageError("no such option"), 2),
        (DependencyError("no Java", "Install it."), 3),
        (BrokerUnreachableError("no broker"), 3),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (SystemExit(1), 1),
    ],
)
def test_the_exit_code_names_the_party_that_must_act(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = click.Command("broken", callback=failing_with(error))
    monkeypatch.setattr(cli, "get_command", lambda _context, _name: command)
    if isinstance(error, SystemExit):
        with pytest.raises(SystemExit) as caught:
            run(["broken"])
        assert caught.value.code == code
    else:
        assert run(["broken"]) == code
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err != ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rnu", "No such command 'rnu'. Did you mean 'run'?"),
        ("replay last-week", "(last-week). A capture is named by --capture."),
        ("run last-week", "(last-week)\n"),
    ],
)
def test_what_was_probably_meant_is_named(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == ExitCode.USAGE
    assert capsys.readouterr().err.endswith(f"{said.strip()}\n")


@pytest.mark.parametrize("verb", ["watch", "capture copy", "decode", "replay", "explain orders", "doctor"])
def test_every_verb_that_asks_a_broker_takes_the_properties_of_kafkas_own_tools(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "client.properties").write_text("bootstrap.servers=a:1\nsecurity.protocol=SASL\n")
    assert run([*verb.split(), "--command-config", str(path)]) == ExitCode.USAGE
    assert f"{path}: `security.protocol`" in capsys.readouterr().err
    path.write_text("bootstrap.servers=no-port\n")
    assert run([*verb.split(), "--command-config", str(path)]) == ExitCode.USAGE
    assert f"{path}: `bootstrap.servers` has the entry 'no-port'" in capsys.readouterr().err
    # At the default address another cluster may listen.
    path.write_text("security.protocol=PLAINTEXT\n")
    assert run([*verb.split(), "--command-config", str(path)]) == ExitCode.USAGE
    assert "nothing names the brokers to log in to: give `--bootstrap`" in capsys.readouterr().err
    assert run([*verb.split(), "--bootstrap", "no-port"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--bootstrap" in said
    assert "kafka.bootstrap_servers" not in said


@pytest.mark.parametrize("spelling", ["bootstrap.servers", "bootstrap_servers"])
def test_the_brokers_of_a_properties_file_count_unless_others_are_named(
    spelling: str, tmp_path: Path
) -> None:
    (path := tmp_path / "client.properties").write_text(f"{spelling}=a:1\nclient.id=x\n")
    for bootstrap, servers in ((None, "a:1"), ("b:2", "b:2")):
        kafka = load_settings(None, (), _connection(path, bootstrap)).kafka
        assert kafka.client_properties() == {"bootstrap.servers": servers, "client.id": "x"}


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    command = click.Command("broken", callback=failing_with(ZeroDivisionError()))
    monkeypatch.setattr(cli, "get_command", lambda _context, _name: command)
    with pytest.raises(ZeroDivisionError):
        run(["broken"])


@pytest.mark.parametrize("code", [0, 1])
def test_a_verb_says_its_exit_code_by_its_result(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    command = click.Command("fine", callback=lambda: code)
    monkeypatch.setattr(cli, "get_command", lambda _context, _name: command)
    assert run(["fine"]) == code


def test_the_entry_point_returns_where_all_is_fine_and_exits_with_the_code_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Databricks takes any exit of a wheel's task for a failure."""
    for code in (0, 1):
        command = click.Command("fine", callback=lambda code=code: code)
        monkeypatch.setattr(cli, "get_command", lambda _context, _name, command=command: command)
        monkeypatch.setattr(sys, "argv", ["rebalance-monitor", "fine"])
        if code:
            with pytest.raises(SystemExit, match="1"):
                main()
        else:
            assert main() is None  # type: ignore[func-returns-value]


def test_signals_are_left_alone_off_the_main_thread() -> None:
    with ThreadPoolExecutor(1) as other:
        assert not other.submit(stop_on_signals).result().is_set()


def test_an_interrupt_that_python_passes_over_is_a_wish_to_stop_all_the_same() -> None:
    stop = stop_on_signals(keeps=False)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert stop.is_set()


@pytest.mark.timeout(60)
def test_a_signal_is_heeded_whatever_the_thread_that_it_interrupts_is_at() -> None:
    stop = stop_on_signals()
    # As within `stop.wait`.
    with stop._cond:
        signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()


@pytest.mark.parametrize("verb", [["watch"], ["decode"], ["capture", "{folder}/capture"]])
def test_ctrl_c_is_an_interrupt_while_a_broker_is_waited_for_that_never_answers(
    verb: list[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        server = f"127.0.0.1:{mute.getsockname()[1]}"
        arguments = [one.format(folder=tmp_path) for one in verb]
        command = [
            str(Path(sys.executable).with_name("rebalance-monitor")),
            *arguments,
            "--bootstrap",
            server,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = mute.accept()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate()
            connection.close()
    assert (process.returncode, told.strip()) == (ExitCode.INTERRUPTED, "rebalance-monitor: interrupted")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["watch", "kafka-1:9092"], "A broker is named by --bootstrap."),
        (["replay", "captures/monday"], "A capture is named by --capture."),
        (["explain", "orders", "kafka-1:9092"], "A broker is named by --bootstrap."),
    ],
)
def test_an_argument_without_its_option_is_answered_by_the_option(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == ExitCode.USAGE
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_no_color_is_heeded_by_verbs_on_a_terminal(
    no_colour: str,
    coloured: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
) -> None:
    program = str(Path(sys.executable).with_name("rebalance-monitor"))
    command = [program, "doctor", "--bootstrap", "127.0.0.1:1", "--set", "engine=embedded"]
    parent, child = os.openpty()
    wanted = {**os.environ, "NO_COLOR": no_colour}
    no = subprocess.DEVNULL
    with (
        subprocess.Popen(command, stdout=child, stderr=no, env=wanted, cwd=tmp_path) as process,
        os.fdopen(parent, "rb", buffering=0) as terminal,
    ):
        os.close(child)
        first = terminal.read(200)
        process.kill()
    assert b"configuration" in first
    assert (b"\x1b[" in first) is coloured


def test_a_reader_that_goes_away_gets_no_traceback() -> None:
    code = "import sys; from rebalance_monitor.cli.main import run; sys.exit(run(['config', 'reference']))"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait(60)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed_end_nothing(closed: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("rebalance-monitor")
    capture = Path(__file__).parents[1] / "fixtures" / "scenarios" / "moved-4.1.1" / "capture"
    command = f"exec '{program}' groups --capture '{capture}' {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == ExitCode.FINE, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_finds_no_room_is_named(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("rebalance-monitor")
    command = f"'{program}' config reference > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == ExitCode.UNREACHABLE
    assert "the output, or a temporary file, cannot be used: No space left on device" in done.stderr


def test_logs_off_a_terminal_are_json_on_stderr() -> None:
    code = (
        "from rebalance_monitor.cli.logs import configure; import structlog, logging\n"
        "configure('info'); log = structlog.get_logger()\n"
        "log.debug('quiet'); log.info('batch', rows=3); logging.getLogger('kafka').warning('lost %s', 'x')\n"
        "logging.getLogger('kafka').info('chatter')\n"
    )
    done = in_a_new_process(code)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.stdout == ""
    assert [(line["event"], line["level"]) for line in lines] == [("batch", "info"), ("lost x", "warning")]
    assert lines[0]["rows"] == 3


def test_config_show_prints_what_is_in_force_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "--set", "buckets=3", "--set", "kafka.sasl.password=hush"]) == ExitCode.FINE
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["buckets"] == 3
    assert "hush" not in printed


def test_config_check_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", "--set", "bucket=3"]) == ExitCode.USAGE
    assert "did you mean `buckets`?" in capsys.readouterr().err
    assert run(["config", "check"]) == ExitCode.FINE


def test_config_check_refuses_what_the_job_refuses_all_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "detection: {severity_overrides: [{kind: strom, severity: info}]}\n"
        "web: {host: 0.0.0.0, token_file: /nowhere/token}\n"
        "storage: {path: 's3x://bucket/monitor'}\n"
        "alerts: {hold: 1s, receivers: [{name: a, console: {}}], route: {receiver: a}}\n"
    )
    assert run(["config", "check", "-c", str(path)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert all(said in told for said in ("strom", "web.token_file", "s3x://bucket/monitor", "alerts.hold"))


@pytest.mark.parametrize("assignment", ["buckets", "=3", "buckets=[1"])
def test_a_malformed_assignment_is_a_usage_error(assignment: str) -> None:
    assert run(["config", "check", "--set", assignment]) == ExitCode.USAGE


def test_config_reference_prints_the_committed_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "reference"]) == ExitCode.FINE
    assert capsys.readouterr().out == (ROOT / "config" / "reference.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("wrong", [("--port", "99999"), ("--port", "-1"), ("--offsets-partitions", "0")])
def test_numbers_that_no_broker_takes_are_a_wrong_usage(
    wrong: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "up", "--folder", str(tmp_path), *wrong]) == ExitCode.USAGE
    assert wrong[0] in capsys.readouterr().err


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    capture = Path(__file__).parents[1] / "fixtures" / "corpus" / "records.parquet"
    main = "from rebalance_monitor.cli.main import main; main()"
    command = [sys.executable, "-c", main, "decode", "--capture", str(capture)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert b"Traceback" not in process.stderr.read()
