"""Preparing a checkout: a fitting Python is picked, else one message says what to install."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.lab.cluster.broker import DEFAULT_VERSION
from tools import jars

ROOT = Path(__file__).resolve().parents[1]
# A Python that answers like another version, or like Debian's without python3-venv.
FAKE = """#!/bin/sh
case "$*" in
  --version) echo "Python {version}" ;;
  *version_info*) exit {fits} ;;
  *ensurepip*) exit {venv} ;;
  *setup.py*) echo "prepared with {version}: $*" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.sh", tmp_path / "tools")
    (tmp_path / "bin").mkdir()
    for name in ("sh", "dirname", "head", "cat"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    return tmp_path


def fake_python(checkout: Path, name: str, version: str, *, fits: bool, venv: bool = True) -> None:
    script = checkout / "bin" / name
    script.write_text(FAKE.format(version=version, fits=int(not fits), venv=int(not venv)), encoding="utf-8")
    script.chmod(0o755)


def prepared(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "tools/setup.sh", "demo"]
    variables = {"PATH": str(checkout / "bin"), **environment}
    return subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, check=False)


def test_a_fitting_python_is_picked_among_others(checkout: Path) -> None:
    fake_python(checkout, "python3", "3.14.0", fits=False)
    fake_python(checkout, "python3.12", "3.12.3", fits=True)
    assert prepared(checkout).stdout == "prepared with 3.12.3: tools/setup.py demo\n"


def test_the_python_that_is_named_comes_first(checkout: Path) -> None:
    fake_python(checkout, "python3.11", "3.11.9", fits=True)
    fake_python(checkout, "mine", "3.13.1", fits=True)
    assert "prepared with 3.13.1" in prepared(checkout, PYTHON=str(checkout / "bin" / "mine")).stdout


def test_without_a_fitting_python_one_message_names_what_is_there_and_what_to_install(checkout: Path) -> None:
    fake_python(checkout, "python3", "3.14.0", fits=False)
    done = prepared(checkout)
    assert done.returncode == 3
    assert "Python 3.14.0" in done.stderr
    for system in ("Debian/Ubuntu", "Fedora", "macOS"):
        assert system in done.stderr


def test_a_python_that_cannot_create_environments_is_distinguished(checkout: Path) -> None:
    fake_python(checkout, "python3", "3.11.2", fits=True, venv=False)
    done = prepared(checkout)
    assert done.returncode == 3
    assert "has no venv module" in done.stderr
    assert "python3-venv" in done.stderr


def test_without_any_python_the_message_says_so(checkout: Path) -> None:
    done = prepared(checkout)
    assert done.returncode == 3
    assert "no Python at all" in done.stderr


def test_without_a_fitting_java_nothing_is_installed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for part in ("cluster", "decoders", "config"):
        shutil.copytree(ROOT / part, tmp_path / part)
    java = tmp_path / "jdk-25" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"25\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    code = (
        "import sys; sys.path[0] = 'tools'; import setup; setup.link_parts()\n"
        f"sys.path.insert(0, {str(tmp_path / 'build' / 'typed')!r})\n"
        "from rebalance_monitor.cluster.jars import java; java.USUAL_PLACES = ()\n"
        "sys.exit(setup.main('demo'))\n"
    )
    environment = {**os.environ, "PATH": str(java.parent), "JAVA_HOME": str(java.parents[1])}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "found only: 25" in done.stderr
    for system in ("Debian/Ubuntu", "Fedora", "macOS"):
        assert system in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_broker_fetched_ahead_is_the_one_that_the_lab_starts() -> None:
    assert jars.KAFKA == DEFAULT_VERSION
