import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.lab.cluster.broker import STATE_FILE, down, running
from rebalance_monitor.lab.cluster.leash import Leash
from rebalance_monitor.lab.cluster.node import command_line, wait_until

OWNER = """
import subprocess, sys, time
from rebalance_monitor.lab.cluster.leash import Leash
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
leash = Leash(child.pid)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_what_is_leashed_ends_with_its_owner_even_when_that_is_killed() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    # A process has no command line while it is being executed.
    assert wait_until(lambda: bool(command_line(child)), 60)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert wait_until(lambda: not command_line(child), 60)


def test_what_was_released_lives_on() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        Leash(child.pid).release()
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_start_that_is_cut_short_leaves_nothing_that_down_does_not_know(
    tmp_path: Path, number: signal.Signals
) -> None:
    main = "from rebalance_monitor.cli.main import main; main()"
    said = tmp_path / "said"
    with said.open("w") as out:
        starting = subprocess.Popen(
            [sys.executable, "-c", main, "lab", "up", "--folder", str(tmp_path)], stderr=out
        )
    assert wait_until((tmp_path / STATE_FILE).exists, 60), said.read_text()
    pid = json.loads((tmp_path / STATE_FILE).read_text())["nodes"][0]["pid"]
    os.kill(starting.pid, number)
    starting.wait(60)
    assert down(tmp_path) is (number == signal.SIGKILL)
    assert running(tmp_path) is None
    assert str(tmp_path) not in command_line(pid)
