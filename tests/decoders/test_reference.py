"""The pages about the decoders are current and their examples are true."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.decoders import hashing, json_form, record
from rebalance_monitor.decoders.batches import batch
from rebalance_monitor.decoders.embedded import connect, consumer, sticky
from rebalance_monitor.decoders.errors import REASONS
from rebalance_monitor.decoders.reference import records_markdown
from rebalance_monitor.decoders.registry import RECORD_TYPES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_committed_page_of_record_types_is_current() -> None:
    assert (DOCS / "records.md").read_text(encoding="utf-8") == records_markdown(), "run make docs"


def test_every_record_type_has_a_section() -> None:
    assert re.findall(r"(?m)^## (\d+) ", records_markdown()) == [str(number) for number in RECORD_TYPES]


def test_the_examples_of_the_guide_are_true() -> None:
    found = doctest.testfile(str(DOCS / "decoders.md"), module_relative=False)
    assert found.attempted > 5
    assert not found.failed


@pytest.mark.parametrize("module", [batch, connect, consumer, hashing, json_form, record, sticky])
def test_the_examples_in_docstrings_are_true(module: object) -> None:
    assert not doctest.testmod(module).failed  # type: ignore[arg-type] # any module


def test_importing_the_decoders_brings_in_neither_spark_nor_a_kafka_client() -> None:
    code = (
        "import sys, rebalance_monitor.decoders; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "pyarrow" in loaded.split()
    assert not {"pyspark", "kafka", "confluent_kafka"} & set(loaded.split())


def test_the_guide_explains_every_reason() -> None:
    guide = (DOCS / "decoders.md").read_text(encoding="utf-8")
    assert [error.reason for error in REASONS if f"`{error.reason}`" not in guide] == []
