"""Silences hold back what they match and nothing else, whoever writes them and whatever becomes of a file."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.runtime.dispatcher import wall_ms
from rebalance_monitor.alerts.runtime.silences import SilenceError, SilenceFiles, Silences
from tests.alerts.support.memo import Memo, dispatching, eventually, storm

if TYPE_CHECKING:
    from pathlib import Path


def test_a_running_job_honours_a_silence_of_another_process(tmp_path: Path) -> None:
    sink, config = Memo(), tmp_path / "c.yaml"
    config.write_text(f"storage: {{path: {tmp_path / 'store'}}}\n")
    words = ["alerts", "silence", "add", 'group="orders"', "--for", "1h", "-c", str(config)]
    main = "from rebalance_monitor.cli.main import main; main()"
    with dispatching(tmp_path / "store" / "alerts", sink) as dispatcher:
        subprocess.run([sys.executable, "-c", main, *words], check=True, timeout=180, capture_output=True)
        time.sleep(0.5)
        dispatcher.put(("q", 0), [storm("opened"), storm("opened", "payments")])
        dispatcher.committed(("q", 0))
        assert eventually(lambda: bool(sink.told))
        time.sleep(0.5)
        assert [told.labels["group"] for told in sink.told] == ["payments"]
        file = SilenceFiles(tmp_path / "store" / "alerts")
        (silence,) = file.read()[0]
        file.expire(silence.id, wall_ms())
        assert eventually(lambda: len(sink.told) == 2)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_a_damaged_silence_file_leaves_the_last_silences_in_force(tmp_path: Path, text: str) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', 2_000, "me", "", 1_000)
    silences = Silences(file)
    silences.refresh()
    (tmp_path / "silences" / "1a2b3c4d-5000.json").write_text(text)
    (said,) = silences.refresh()
    assert "correct it, or move it away" in said
    assert silences.holds({"group": "orders"}, 1_500)
    assert not silences.holds({"group": "orders"}, 2_000)
    assert not silences.holds({"group": "other"}, 1_500)


@pytest.mark.parametrize("matchers", ['team!="x"', 'group=~".*"', "group", 'group="a" x'])
def test_a_silence_that_cannot_be_meant_is_refused(tmp_path: Path, matchers: str) -> None:
    with pytest.raises(SilenceError):
        SilenceFiles(tmp_path).add(matchers, 2_000, "me", "", 1_000)


def test_silences_of_many_processes_are_all_kept(tmp_path: Path) -> None:
    def add(number: int) -> None:
        SilenceFiles(tmp_path).add(f'group="g{number}"', 2_000, "me", "", 1_000)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(SilenceFiles(tmp_path).read()[0]) == 20


def test_a_file_that_is_no_silence_stops_no_other_no_start_and_is_said_once(tmp_path: Path) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', 2_000, "me", "", 1_000)
    (tmp_path / "silences" / "abcd1234-9999.json").mkdir()
    now = [0.0]
    silences = Silences(file, lambda: now[0])
    assert len(silences.refresh()) == 1
    file.add('group="payments"', 2_000, "me", "", 1_000)
    for _ in range(40):
        now[0] += 1
        assert silences.refresh() == []
    assert silences.holds({"group": "orders"}, 1_500)
    assert silences.holds({"group": "payments"}, 1_500)
    with dispatching(tmp_path, Memo()):
        pass


def test_a_silence_that_cannot_be_read_any_more_holds_as_it_was(tmp_path: Path) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', 2_000, "me", "", 1_000)
    now = [0.0]
    silences = Silences(file, lambda: now[0])
    silences.refresh()
    (path,) = file.folder.iterdir()
    text = path.read_text()
    path.write_text("")
    file.add('group="payments"', 2_000, "me", "", 1_000)
    now[0] += 1
    assert len(silences.refresh()) == 1
    assert silences.holds({"group": "orders"}, 1_500)
    path.write_text(text)
    now[0] += 10
    assert silences.refresh() == []
    assert silences.holds({"group": "orders"}, 1_500)
    assert silences.holds({"group": "payments"}, 1_500)
