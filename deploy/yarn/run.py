"""What spark-submit starts in the application master: the same verb, with the platform's session and jars.

A container's stdout and stderr never roll, and this one runs for months. So the log goes to a file that
rolls, in the folder that YARN keeps and shows for the container, and findings to the files and tables alone.
"""

import os
from pathlib import Path

from rebalance_monitor.cli.main import run

# One folder for each of the node's disks, separated by commas.
folder = Path(os.environ.get("LOG_DIRS", ".").split(",")[0])
log = ["--log-file", str(folder / "monitor-python.log")]
if code := run([*log, "run", "--config", "monitor.yaml", "--set", "outputs.console=false"]):
    raise SystemExit(code)
