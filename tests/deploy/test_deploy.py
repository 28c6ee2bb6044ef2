"""deploy/ without the platforms: every script is valid and may be run, and systemd takes the unit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SCRIPTS = sorted(DEPLOY.glob("**/*.sh"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_and_may_be_run(path: Path) -> None:
    subprocess.run(["sh", "-n", path], check=True)
    assert path.stat().st_mode & 0o111


UNIT = DEPLOY / "systemd" / "rebalance-monitor.service"


def test_the_unit_has_its_sections_and_does_not_start_again_what_only_a_person_can_mend() -> None:
    text = UNIT.read_text()
    assert re.findall(r"^\[(\w+)\]$", text, re.MULTILINE) == ["Unit", "Service", "Install"]
    assert "RestartPreventExitStatus=2" in text


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    text = UNIT.read_text()
    (path := tmp_path / "rebalance-monitor.service").write_text(
        re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
    )
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
