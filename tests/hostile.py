"""A folder whose modules bear the names of those that the product imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Modules that driver, workers or their parents import, some of them at the start of each Python, and ours.
NAMES = (
    *("pandas", "numpy", "pyspark", "pyarrow", "msgspec", "kafka", "confluent_kafka", "rebalance_monitor"),
    *("gc", "json", "struct", "resource", "sitecustomize", "usercustomize"),
)
CODE = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\nraise ImportError('hostile')\n"


def hostile_folder(folder: Path) -> Path:
    """Make it; a module that is run leaves a file `NAME.ran` beside itself."""
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(CODE)
    return folder
