"""Prepares the checkout: Java is looked for, `.venv` created, pinned requirements and the package installed.

Called by the Makefile as `tools/setup.sh demo|test`; needs nothing but the standard library. What is
already as it should be is left alone (stamps by the hash of what was installed), so the second time costs
less than a second. Exit code 3 and one message where something must be installed by hand.
"""

import hashlib
import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMPS = ENVIRONMENT / "stamps"
PYTHON = ENVIRONMENT / "bin" / "python"
TYPED = ROOT / "build" / "typed" / "rebalance_monitor"
# The first file builds what the others name: pyspark comes as source.
LEVELS = {
    "demo": ("build", "demo"),
    "test": ("build", "test"),
}
QUIET_SECONDS = 2.0
TAIL = 25


def main(level: str) -> int:
    """Prepare the checkout for one level and return the exit code."""
    link_parts()
    if problem := java_problem():
        return refused(problem)
    if not usable():
        say(f"creating .venv with Python {'.'.join(map(str, sys.version_info[:3]))}")
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
    STAMPS.mkdir(exist_ok=True)
    for name in LEVELS[level]:
        if problem := requirements(name):
            return refused(problem)
    if problem := package():
        return refused(problem)
    return 0


def usable() -> bool:
    """Say whether `.venv` is complete; setup.sh runs this script by its Python if that one fits."""
    ours = Path(sys.prefix).resolve() == ENVIRONMENT.resolve()
    return ours and (ENVIRONMENT / "bin" / "pip").exists()


def link_parts() -> None:
    """Link the parts into one namespace folder: mypy and this script read the package from there."""
    TYPED.mkdir(parents=True, exist_ok=True)
    for part in sorted(path.parent.name for path in ROOT.glob("*/py.typed")):
        link = TYPED / part
        if not link.is_symlink():
            link.symlink_to(Path("../../..") / part)


def java_problem() -> str | None:
    """Return what to do about Java, or None where a fitting one is installed."""
    sys.path.insert(0, str(TYPED.parent))
    # Not importable before the line above.
    from rebalance_monitor.cluster.errors import DependencyError  # noqa: PLC0415
    from rebalance_monitor.cluster.jars.java import find_java  # noqa: PLC0415

    try:
        find_java()
    except DependencyError as error:
        return str(error)
    return None


def requirements(name: str) -> str | None:
    """Install one hash-pinned requirements file, unless it is installed already."""
    file = ROOT / "requirements" / f"{name}.txt"
    stamp = digest(file)
    if installed(name) == stamp:
        return None
    options = ["--require-hashes", "--no-build-isolation", "-r", str(file)]
    problem = step(f"installing requirements/{name}.txt", options)
    if not problem:
        remember(name, stamp)
    return problem


def package() -> str | None:
    """Install the package itself, editable, unless it is."""
    stamp = digest(ROOT / "pyproject.toml")
    if installed("package") == stamp:
        return None
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--editable", str(ROOT)]
    problem = step("installing rebalance-monitor (editable)", options)
    if not problem:
        remember("package", stamp)
    return problem


def step(what: str, options: Sequence[str]) -> str | None:
    """Run pip, showing what it does if it takes long; return its last lines if it fails."""
    say(what)
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *options]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        progress = Progress()
        for line in process.stdout or ():
            lines.append(line.rstrip())
            progress.show(line.strip())
        progress.clear()
    if process.returncode == 0:
        return None
    return "\n".join([f"pip failed while {what}:", *lines[-TAIL:], "", HELP])


HELP = (
    "A package index must be reachable (or configured: PIP_INDEX_URL, PIP_FIND_LINKS). "
    "Every file is checked against the hashes in requirements/."
)


class Progress:
    """The latest line of a long step: rewritten in place on a terminal, now and then elsewhere."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def show(self, line: str) -> None:
        """Show the line, unless another one was shown a moment ago."""
        now = time.monotonic()
        if now - self.last < (0.1 if self.terminal else QUIET_SECONDS):
            return
        self.last = now
        sys.stderr.write(f"\r\033[K  {line[:100]}" if self.terminal else f"  {line[:100]}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def digest(file: Path) -> str:
    """Return the hash of a file together with the Python it is installed for."""
    return hashlib.sha256(file.read_bytes() + sys.version.encode()).hexdigest()


def installed(name: str) -> str:
    """Return the hash that was installed last under this name."""
    stamp = STAMPS / name
    return stamp.read_text(encoding="utf-8") if stamp.exists() else ""


def remember(name: str, stamp: str) -> None:
    """Remember that this hash is installed."""
    (STAMPS / name).write_text(stamp, encoding="utf-8")


def say(what: str) -> None:
    """Tell the step that begins."""
    sys.stderr.write(f"· {what}\n")
    sys.stderr.flush()


def refused(problem: str) -> int:
    """Tell the problem; return the exit code of a missing dependency."""
    sys.stderr.write(problem + "\n")
    return 3


if __name__ == "__main__":
    os.environ.setdefault("PIP_NO_INPUT", "1")
    sys.exit(main(sys.argv[1]))
