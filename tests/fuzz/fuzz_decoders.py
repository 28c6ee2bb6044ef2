"""The coverage-guided fuzz target: `python -m tests.fuzz.fuzz_decoders --seconds 60`.

Needs atheris (libFuzzer for Python); says so and does nothing where it is not installed. Seeds are the
records of the corpus. An input is `u8 flags | u16 key length | key | value` (flag 1: null key, 2: null
value). Each is checked alone, and every `BATCH` inputs as one batch, so that the kernel is held against
the readable parser. The readers that the decoder compiles at run time are instrumented too. The first
record that breaks a property stops the run with its bytes in hex.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

try:
    import atheris  # type: ignore[import-untyped] # it ships no type information
except ImportError:
    atheris = None

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.mutations import Pair

BATCH = 128
NULL_KEY, NULL_VALUE = 1, 2
LARGEST_INPUT = 4096


def to_record(data: bytes) -> Pair:
    """Cut an input into key and value."""
    flags, length = (data[0] if data else 0), int.from_bytes(data[1:3], "big")
    key, value = data[3 : 3 + length], data[3 + length :]
    return None if flags & NULL_KEY else key, None if flags & NULL_VALUE else value


def to_input(record: Pair) -> bytes:
    """Join key and value to the input that `to_record` cuts."""
    key, value = record
    flags = NULL_KEY * (key is None) + NULL_VALUE * (value is None)
    return bytes([flags]) + len(key or b"").to_bytes(2, "big") + (key or b"") + (value or b"")


def target() -> Callable[[bytes], None]:
    """Give the function that libFuzzer calls: it raises where a property is broken."""
    with atheris.instrument_imports(include=["rebalance_monitor"]):
        from tests.fuzz import properties
    pending: list[Pair] = []

    def check(data: bytes) -> None:
        record = to_record(data)
        properties.check_record(record)
        pending.append(record)
        if len(pending) == BATCH:
            properties.check_batch(pending)
            pending.clear()

    return check


def write_seeds(folder: Path) -> int:
    """Write the corpus' smaller records as inputs, one file each; give their number."""
    from tests.fuzz.mutate import seeds

    inputs = {data for record in seeds() if len(data := to_input(record)) <= LARGEST_INPUT}
    for data in inputs:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return len(inputs)


def instrument_compiled_readers(check: Callable[[bytes], None], folder: Path) -> int:
    """Let the decoder compile all its readers, then count their branches too; give their number."""
    for path in folder.iterdir():
        check(path.read_bytes())
    compiled = [found for found in gc.get_objects() if _is_compiled_reader(found)]
    for found in compiled:
        atheris.instrument_func(found)
    return len(compiled)


def _is_compiled_reader(found: Any) -> bool:  # noqa: ANN401 - anything alive
    return (
        isinstance(found, FunctionType)
        and found.__name__ == "read"
        and found.__code__.co_filename == "<string>"
    )


def fuzz(folder: Path, seconds: int, more: list[str]) -> None:
    """Fuzz for `seconds`; libFuzzer ends this process, with a code other than 0 for a broken property."""
    check = target()
    readers = instrument_compiled_readers(check, folder)
    sys.stderr.write(f"{readers} compiled readers\n")
    limits = [f"-max_total_time={seconds}", f"-max_len={LARGEST_INPUT}", "-timeout=20", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", *more, str(folder)], check)
    atheris.Fuzz()


def main() -> int:
    """Run from the command line: seeds in a temporary folder, the fuzzer in a process of its own."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--seeds", type=Path, help="a folder of inputs; by default the corpus' records")
    chosen, more = options.parse_known_args()
    if atheris is None:
        sys.stderr.write(
            "atheris is not installed, so nothing was fuzzed: pip install atheris (Linux, macOS).\n"
        )
        return int(os.environ.get("REQUIRE_ALL") == "1")
    if chosen.seeds is not None:
        fuzz(chosen.seeds, chosen.seconds, more)
    # libFuzzer leaves without a word to Python: only another process can tidy up after it.
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        sys.stderr.write(f"{write_seeds(Path(name))} seeds\n")
        arguments = ["--seconds", str(chosen.seconds), "--seeds", name, *more]
        command = [sys.executable, "-m", "tests.fuzz.fuzz_decoders", *arguments]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
