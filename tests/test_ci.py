"""What .ci/run makes of suites that pass, fail once or twice, cannot be collected, or are cut by its limit.

make and pytest are the real ones, on a project of a few tests. A test after which no time is left says so
itself: no limit is too short for a busy machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
CONFTEST = Path(__file__).with_name("conftest.py")
MAKEFILE = f"""
test:
\t@{sys.executable} -m pytest -ra -m "not slow" $(ARGS)
test-slow:
\t@{sys.executable} -m pytest -ra -m slow $(ARGS)
deps-ci:
\t@test ! -e no-packages
"""
INI = "[pytest]\nmarkers =\n    slow: long\ntestpaths = tests\n"
# By these a make that runs us hands its own words on.
OF_OUR_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS", "REQUIRE_ALL"}
PASSES = "def test_{name}(): pass\n"
FAILS = "def test_{name}(): assert not 'always'\n"
FAILS_ONCE = (
    "def test_{name}():\n"
    "    from pathlib import Path\n"
    "    seen = Path(__file__).with_name('{name}.seen')\n"
    "    was_seen = seen.exists()\n"
    "    seen.touch()\n"
    "    assert was_seen\n"
)
LAST = "def test_{name}():\n    import os\n    os.environ['TESTS_END_AT'] = '1'\n"
KILLED = "def test_{name}():\n    import os\n    os.kill(os.getpid(), 9)\n"
BROKEN = "import no_such_module\n"


class Suites:
    """A project whose quick and slow tests are those given, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "tests").mkdir()
        (folder / ".ci").mkdir()
        shutil.copy(RUN, folder / ".ci" / "run")
        shutil.copy(CONFTEST, folder / "tests" / "conftest.py")
        (folder / "Makefile").write_text(MAKEFILE)
        (folder / "pytest.ini").write_text(INI)

    def run(self, quick: dict[str, str], slow: dict[str, str]) -> tuple[int, list[str]]:
        """Return the exit code, and the lines behind the output of the stages."""
        for mark, bodies in (("", quick), ("@pytest.mark.slow\n", slow)):
            for name, body in bodies.items():
                text = f"import pytest\n{mark}{body.format(name=name)}"
                (self._folder / "tests" / f"test_{name}.py").write_text(text)
        done = subprocess.run(
            ["bash", ".ci/run"],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            env={
                **{name: value for name, value in os.environ.items() if name not in OF_OUR_MAKE},
                "PYTEST_ADDOPTS": "",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
        )
        self.said = done.stdout
        return done.returncode, done.stdout.rpartition("\n\n")[2].splitlines()


@pytest.fixture
def suites(tmp_path: Path) -> Suites:
    return Suites(tmp_path)


def closings(lines: list[str]) -> list[str]:
    """The last lines without times and frames."""
    return [line.partition(" in ")[0].replace("=", "").replace(":  ", ": ") for line in lines]


def test_suites_that_pass_are_a_success(suites: Suites) -> None:
    code, last = suites.run({"a": PASSES}, {"b": PASSES})
    assert (code, closings(last)) == (
        0,
        ["test: 1 passed, 1 deselected", "test-slow: 1 passed, 1 deselected"],
    )


def test_what_fails_once_and_passes_alone_is_named_and_what_fails_twice_fails_the_run(
    suites: Suites,
) -> None:
    code, last = suites.run({"a": FAILS_ONCE}, {"b": FAILS, "c": FAILS_ONCE})
    assert code == 1
    assert last[0].startswith("failed once, passed alone: tests/test_a.py::test_a")
    assert [line.partition(" - ")[0] for line in last[1:3]] == [
        "FAILED tests/test_b.py::test_b",
        "FAILED tests/test_c.py::test_c",
    ]
    assert closings(last[3:]) == [
        "test: 1 failed, 2 deselected",
        "test-slow: 2 failed, 1 deselected",
    ]
    assert "2 failed, 1 deselected" in suites.said
    assert "1 failed, 1 passed" in suites.said


def test_a_stage_without_time_names_what_failed_and_fails_the_run_whatever_passed(suites: Suites) -> None:
    code, last = suites.run({"a": FAILS_ONCE}, {"b": PASSES, "c": FAILS_ONCE, "d": LAST, "e": PASSES})
    assert code == 1
    assert last[0].startswith("failed once, passed alone: tests/test_a.py::test_a")
    assert last[1].startswith("FAILED tests/test_c.py::test_c")
    assert closings(last[2:]) == [
        "test: 1 failed, 4 deselected",
        "test-slow: did not reach its end, the rest did not run",
        "test-slow: 1 failed, 2 passed, 1 deselected",
    ]


@pytest.mark.parametrize("body", [LAST, KILLED], ids=["without time", "killed"])
def test_a_stage_that_did_not_reach_its_end_fails_the_run_where_nothing_failed(
    suites: Suites, body: str
) -> None:
    code, last = suites.run({"a": body, "b": PASSES}, {"c": PASSES})
    assert code == 1
    assert last[0] == "test: did not reach its end, the rest did not run"


def test_what_could_not_be_collected_is_not_made_good_by_the_same_file_alone(suites: Suites) -> None:
    code, last = suites.run({"a": PASSES}, {"b": BROKEN, "c": PASSES})
    assert code == 1
    assert "ERROR tests/test_b.py" in last
    assert "passed alone" not in suites.said


def test_a_run_without_its_packages_is_no_success(suites: Suites, tmp_path: Path) -> None:
    (tmp_path / "no-packages").touch()
    assert suites.run({"a": PASSES}, {"b": PASSES})[0] == 1
