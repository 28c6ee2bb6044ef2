"""Tests the pairs of Python and Spark of docs/compatibility.md that this machine can: `make test-matrix`.

Each pair has its own environment under build/matrix/: the pinned test requirements, and for another Spark its
own pinned file on top. What runs is the tests that pytest's `-m` expression selects (default: everything
quick, with Spark). Prints a table; exit code 1 if a pair failed. A Python that is not installed is said.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation")
PINNED = ("--require-hashes", "-r")


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair; `extra` is the requirements file that replaces the default Spark."""

    python: str
    spark: str
    extra: str = ""

    @property
    def name(self) -> str:
        """The pair as a folder name."""
        return f"python{self.python}-spark{self.spark}"


PAIRS = (
    Pair("3.11", "4.0.5"),
    Pair("3.12", "4.0.5"),
    Pair("3.13", "4.0.5"),
    Pair("3.11", "3.5.9", "spark35"),
)


def main(expression: str) -> int:
    """Test every pair and return the exit code."""
    rows = [(pair.name, *outcome(pair, expression)) for pair in PAIRS]
    width = max(len(name) for name, _, _ in rows)
    for name, _, text in rows:
        print(f"{name:<{width}}  {text}")
    return int(any(failed for _, failed, _ in rows))


def outcome(pair: Pair, expression: str) -> tuple[bool, str]:
    """Return whether the pair failed, and what to say of it."""
    python = interpreter(pair.python)
    if python is None:
        return False, f"not run: no Python {pair.python} here"
    started = time.monotonic()
    prepared = environment(pair, python)
    if isinstance(prepared, str):
        return True, prepared
    done = run([str(prepared), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", expression])
    closing = re.findall(r"^.*(?:passed|failed|error).* in .*$", done.stdout, re.MULTILINE)
    if done.returncode:
        print(done.stdout[-5000:])
    return bool(done.returncode), f"{closing[-1] if closing else 'no end'} ({minutes(started)} with set-up)"


def interpreter(version: str) -> Path | None:
    """Return a Python of this minor version, from PATH or a pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python")))
    return next((Path(path) for path in found if path and run([str(path), "-c", ""]).returncode == 0), None)


def environment(pair: Pair, python: Path) -> Path | str:
    """Return the Python of the pair's environment, created if it is not there; a text if that failed."""
    folder = FOLDER / pair.name
    ours = folder / "bin" / "python"
    files = ["build", "test", *([pair.extra] if pair.extra else [])]
    steps = [
        [str(python), "-m", "venv", str(folder)],
        *([str(ours), *PIP, *PINNED, f"requirements/{name}.txt"] for name in files),
        [str(ours), *PIP, "--no-deps", "--no-index", "--editable", "."],
    ]
    for step in steps:
        done = run(step)
        if done.returncode:
            return f"could not be set up: {(done.stdout + done.stderr).strip()[-300:]}"
    return ours


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def minutes(started: float) -> str:
    """Return the time since `started` in minutes and seconds."""
    whole, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{whole} min {seconds:02} s"


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:]) or "not slow and not broker"))
