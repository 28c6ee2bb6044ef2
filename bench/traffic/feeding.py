"""A process that feeds a broker (`bench.traffic.feed`) for as long as a measurement lasts."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def feeding(bootstrap: str, seconds: float, **load: float) -> Iterator[subprocess.Popen[str]]:
    """Feed `bootstrap` for `seconds` at most, once the beginning is there, until the block ends.

    `load`: the options of `bench.traffic.feed` by name, as `groups` and `per_s`. RuntimeError where it fails:
    what is measured without a feed is nothing.
    """
    command = [sys.executable, "-m", "bench.traffic.feed", "--bootstrap", bootstrap]
    for name, value in {**load, "seconds": seconds}.items():
        option = f"--{name.replace('_', '-')}"
        command += [option] * bool(value) if isinstance(value, bool) else [option, str(value)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or process.stdout.readline() != "begun\n":
            raise RuntimeError(f"the feed ended with {process.wait()} before its traffic began")
        yield process
        if process.poll():
            raise RuntimeError(f"the feed ended with {process.returncode} while it was needed")
    finally:
        process.terminate()
        process.wait()
