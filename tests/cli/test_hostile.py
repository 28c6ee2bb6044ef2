"""What people type by mistake: one sentence that says what is wrong, the right exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from socket import gaierror

import pytest
from click.testing import CliRunner

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import cli, run
from tests.alerts.support.fakes import Answer, Call, Fake, json_answer

MAIN = "from rebalance_monitor.cli.main import main; main()"
CAPTURE = Path(__file__).parents[1] / "fixtures" / "corpus" / "records.parquet"
LONG = "x" * 5_000
HUGE = "9" * 40
CONFIG = "alerts: {receivers: [{name: nobody}, {name: all, console: {}}], route: {receiver: all}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a binary file, an empty one, a folder, and a configuration."""
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "ok.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


STORED = "storage.path=none"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["alerts", "preview", "binary"], "binary holds no findings: it is no text"),
        (["alerts", "preview", str(CAPTURE), "--limit", "-1"], "-1 is not in the range"),
        (["alerts", "preview", str(CAPTURE), "--limit", HUGE], "is not in the range"),
        (["alerts", "preview", "empty", "--html", "none/page"], "none/page cannot be used"),
        (["alerts", "test", "nobody", "-c", "ok.yaml"], "the receiver 'nobody' has no integration"),
        (
            ["alerts", "test", "other", "-c", "ok.yaml"],
            "no receiver 'other'; there are: nobody, all",
        ),
        (["replay", "--capture", str(CAPTURE), "--history-until", "²"], "'²' is neither offsets"),
        (["replay", "--capture", str(CAPTURE), "--history-until", "9" * 5_000], "is neither offsets"),
        (["lab", "up", "--kafka-version", "nope"], "'nope' is not a Kafka version"),
        (["lab", "up", "--kafka-version", "../x"], "'../x' is not a Kafka version"),
        (["lab", "up", "--initial-delay-ms", "-1"], "-1 is not in the range"),
        (["lab", "up", "--folder", "/proc/nowhere"], "/proc/nowhere cannot be used: No such file"),
        (["watch", "--most", "nan"], "'nan' is no number"),
        (["watch", "--most", "1e-12"], "1e-12 is not in the range"),
        (["demo", "--duration", "-1"], "'-1' is no duration; write 30s"),
        (["checkpoint", "inspect", "--set", "storage.path=binary"], "binary is no folder"),
        (["table", "optimize", "--set", STORED], "none does not exist"),
        (["table", "optimize", "--set", "storage.path=binary"], "binary is no folder"),
        (["audit", "--tables-only", "--set", STORED], "none does not exist"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_two(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.out == ""
    assert not Path("none").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("verb", ["decode", "replay", "explain g", "groups", "history g"])
@pytest.mark.parametrize("named", ["none", "dir", "binary", "empty", "", LONG])
def test_what_is_no_capture_is_said_by_every_verb(
    verb: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*verb.split(), "--capture", named])
    assert code == (ExitCode.UNREACHABLE if named == LONG else ExitCode.USAGE)
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.usefixtures("folder")
def test_a_folder_in_which_no_job_has_run_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checkpoint", "inspect", "--set", "storage.path=dir"]) == ExitCode.PROBLEMS
    assert "dir holds no state: no job has run on it." in capsys.readouterr().err


def test_findings_that_are_no_text_are_refused_on_standard_input() -> None:
    from rebalance_monitor.cli.verbs.alerting.preview import preview

    told = CliRunner().invoke(preview, ["-"], input=bytes(range(256)))
    assert (told.exit_code, "- holds no findings: it is no text" in told.output) == (2, True), told.output


class Leaving(Fake):
    """A monitor that answers the first question, and every other one with `then`."""

    then = Answer(cut=True)

    def handle(self, call: Call) -> Answer:
        """Answer."""
        del call
        return json_answer(200, {"rows": [], "next": None}) if len(self.calls) == 1 else self.then


@pytest.mark.parametrize(("status", "code"), [(0, 3), (503, 3), (500, 3), (400, 2), (401, 2), (404, 2)])
@pytest.mark.parametrize("verb", ["groups", "history g"])
def test_a_monitor_that_goes_away_midway_is_exit_code_three_and_a_wrong_question_two(
    verb: str, status: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with Leaving() as monitor:
        monitor.then = json_answer(status, {"error": "because"}) if status else Answer(cut=True)
        assert run([*verb.split(), "--url", monitor.url]) == code
    said = capsys.readouterr().err
    assert ("because" if status else f"no monitor answers at {monitor.url}") in said


def piped(*words: str) -> tuple[int, bytes]:
    """Run a verb whose standard output nobody reads; return its exit code and what it said."""
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-c", MAIN, *words]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=120, check=False)
    finally:
        os.close(write)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", ["--help", "table sql", "groups --capture", "config show", "decode --help"])
def test_a_closed_pipe_is_no_error(words: str) -> None:
    given = [*words.split(), str(CAPTURE)] if words.endswith("--capture") else words.split()
    code, said = piped(*given)
    assert (code, b"Traceback" in said, b"BrokenPipe" in said) == (0, False, False), said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_disk_that_is_full_is_one_sentence_and_exit_code_three() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", MAIN, "decode", "--capture", str(CAPTURE)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("level", ["info", "debug"])
def test_where_an_error_comes_from_is_said_at_level_debug(
    level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--log-level", level, "alerts", "preview", "empty", "--html", "none/page"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert ("Traceback" in said) == (level == "debug")
    assert "none/page cannot be used" in said


def test_an_unknown_host_is_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise gaierror(-2, "Name or service not known")

    monkeypatch.setattr(cli, "main", fails)
    assert run(["doctor"]) == ExitCode.UNREACHABLE
    assert "a host's name is not known" in capsys.readouterr().err
