"""The documentation site builds without network and without a link that leads nowhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_site_builds_offline_with_every_link_and_anchor_checked(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    foreign = re.findall(r'(?:src|href)="(https?://[^"]+)"', text)
    assert [url for url in foreign if not url.startswith("https://squidfunk.github.io")] == []
