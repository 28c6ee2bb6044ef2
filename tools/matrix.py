"""Tests the cells of docs/compatibility.md, a Spark, a broker and a Python each: `make test-matrix`.

Each pair of Python and Spark has an environment of its own under build/matrix/: the pinned test requirements,
and for another Spark its own pinned file on top. A cell is one run of tests/chaos/versions/test_cell.py: a
real broker, the real job, a fault that must be found, and a recorded topic of which every cell must publish
the same ids. Cells that passed are not run again (`--again`), so the matrix can be made in pieces
(`--spark 4.2 --broker 3.9 --python 3.12`, each may be repeated). Prints the table of all cells so far; exit
code 1 if one failed or two published different ids. A Python that is not installed is named.

`--tests EXPRESSION` runs what pytest's `-m` selects in every environment instead, without a broker's version.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation")
PINNED = ("--require-hashes", "-r")
TAIL = 5_000


@dataclass(frozen=True, slots=True)
class Spark:
    """A Spark. extra: the requirements file that replaces the default one.

    packages: the connector where the job cannot derive it. pythons: () for all.
    """

    version: str
    extra: str = ""
    packages: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """A Python and a Spark: one environment."""

    python: str
    spark: Spark

    @property
    def name(self) -> str:
        """The pair as a folder name."""
        return f"python{self.python}-spark{self.spark.version}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell. digest: of the ids published of the recorded topic; date: UTC."""

    spark: str
    broker: str
    python: str
    passed: bool
    digest: str
    seconds: int
    date: str


SPARKS = (
    # Its own cloudpickle cannot pickle functions of Python 3.12.
    Spark("3.5.9", "spark35", pythons=("3.11",)),
    Spark("4.0.5"),
    # The newest with a connector that resolved; its token provider did not, and 4.0.0's is the same to us.
    Spark(
        "4.2.0",
        "spark42",
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        ),
    ),
)
BROKERS = ("3.9.1", "4.0.0", "4.1.1", "4.3.0")
PYTHONS = ("3.11", "3.12", "3.13")
PAIRS = tuple(Pair(p, s) for p, s in product(PYTHONS, SPARKS) if not s.pythons or p in s.pythons)


def main(arguments: list[str]) -> int:
    """Run what was asked for and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("spark", "broker", "python"):
        parser.add_argument(f"--{name}", action="append", default=[], help="a version or how it begins")
    parser.add_argument("--again", action="store_true", help="also cells that passed already")
    parser.add_argument("--tests", default="", metavar="EXPRESSION")
    asked = parser.parse_args(arguments)
    pairs = [p for p in PAIRS if wanted(p.spark.version, asked.spark) and wanted(p.python, asked.python)]
    if asked.tests:
        return int(sum(not suite(pair, asked.tests) for pair in pairs) > 0)
    brokers = [broker for broker in BROKERS if wanted(broker, asked.broker)]
    for broker, pair in product(brokers, pairs):
        before = stored(broker, pair)
        if asked.again or before is None or not before.passed:
            run_cell(broker, pair)
    return closing([found for broker, pair in product(BROKERS, PAIRS) if (found := stored(broker, pair))])


def wanted(version: str, asked: list[str]) -> bool:
    """Return whether a version was asked for: nothing asked is everything."""
    return not asked or any(f"{version}.".startswith(f"{one}.") for one in asked)


def run_cell(broker: str, pair: Pair) -> None:
    """Test one cell and store its outcome, unless its environment cannot be."""
    python = environment(pair)
    if isinstance(python, str):
        print(f"{pair.name}: {python}", flush=True)
        return
    digest = result(broker, pair).with_suffix(".digest")
    digest.parent.mkdir(parents=True, exist_ok=True)
    digest.unlink(missing_ok=True)
    variables = {
        "CELL_BROKER": broker,
        "CELL_PACKAGES": ",".join(pair.spark.packages),
        "CELL_DIGEST": str(digest),
    }
    started = time.monotonic()
    passed = tests(python, "chaos", "tests/chaos/versions/test_cell.py", **variables)
    ids = digest.read_text() if digest.exists() else ""
    seconds, date = int(time.monotonic() - started), f"{datetime.now(UTC):%Y-%m-%d}"
    outcome = Outcome(pair.spark.version, broker, pair.python, passed, ids, seconds, date)
    result(broker, pair).write_text(json.dumps(asdict(outcome)))
    print(f"{pair.name} broker {broker}: {'passed' if passed else 'FAILED'} in {seconds} s", flush=True)


def suite(pair: Pair, expression: str) -> bool:
    """Run a pair's tests that `expression` selects; return whether they passed."""
    python = environment(pair)
    if isinstance(python, str):
        print(f"{pair.name}: {python}", flush=True)
        return python.startswith("not run")
    print(pair.name, flush=True)
    return tests(python, expression)


def tests(python: Path, expression: str, *words: str, **variables: str) -> bool:
    """Run tests with this Python, saying how they ended; return whether they passed."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", expression, *words]
    done = run(command, **variables)
    ends = re.findall(r"^.*(?:passed|failed|error).* in .*$", done.stdout, re.MULTILINE)
    print(
        f"  {ends[-1] if ends else 'no end'}" + (done.stdout[-TAIL:] if done.returncode else ""), flush=True
    )
    return not done.returncode


def result(broker: str, pair: Pair) -> Path:
    """Return where a cell's outcome lies."""
    return FOLDER / "results" / f"{pair.name}-kafka{broker}.json"


def stored(broker: str, pair: Pair) -> Outcome | None:
    """Return a cell's outcome, None where it has not run."""
    path = result(broker, pair)
    return Outcome(**json.loads(path.read_text())) if path.exists() else None


def closing(outcomes: list[Outcome]) -> int:
    """Print the cells so far as a Markdown table; return the exit code."""
    print("\n| Spark | Python | broker | result | ids of the recorded topic | s | date |")
    print("|---|---|---|---|---|---|---|")
    for one in sorted(outcomes, key=lambda o: (o.spark, o.python, o.broker)):
        says = "passed" if one.passed else "FAILED"
        cells = (one.spark, one.python, one.broker, says, one.digest, str(one.seconds), one.date)
        print(f"| {' | '.join(cells)} |")
    digests = {one.digest for one in outcomes if one.passed}
    if len(digests) > 1:
        print("\nThe cells do not tell the same ids.")
    return int(len(digests) > 1 or not all(one.passed for one in outcomes))


def interpreter(version: str) -> Path | None:
    """Return a Python of this minor version, from PATH or a pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python")))
    return next((Path(path) for path in found if path and run([str(path), "-c", ""]).returncode == 0), None)


def environment(pair: Pair) -> Path | str:
    """Return the Python of the pair's environment, created if it is not there; a text if it cannot be."""
    python = interpreter(pair.python)
    if python is None:
        return f"not run: no Python {pair.python} here"
    folder = FOLDER / pair.name
    ours, complete = folder / "bin" / "python", folder / "complete"
    files = ["build", "test", *([pair.spark.extra] if pair.spark.extra else [])]
    # What was installed, so that other pins are seen.
    pins = "".join((ROOT / "requirements" / f"{name}.txt").read_text() for name in files)
    if complete.exists() and complete.read_text() == pins:
        return ours
    steps = [
        [str(python), "-m", "venv", str(folder)],
        *([str(ours), *PIP, *PINNED, f"requirements/{name}.txt"] for name in files),
        [str(ours), *PIP, "--no-deps", "--no-index", "--editable", "."],
    ]
    for step in steps:
        done = run(step)
        if done.returncode:
            return f"could not be set up: {(done.stdout + done.stderr).strip()[-300:]}"
    complete.write_text(pins)
    return ours


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout, with these environment variables beside ours."""
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
