"""A broker behind a login, configured as on the page of logins, and what that page says of failures."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from rebalance_monitor.config.load import load
from tests.cluster.support.identity_provider import SECRET
from tests.cluster.support.login_page import table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.support.identity_provider import IdentityProvider
    from tests.cluster.support.kdc import Kdc
    from tests.cluster.support.login_broker import LoginBroker

MAIN = "from rebalance_monitor.cli.main import main; main()"
"""The command line, as a program of its own."""


def as_the_page_says(wrong: str, example: str = "", ours: str = "") -> str:
    """The sentence that the page of logins has for what is wrong, about our case in place of its example."""
    sentence = {row[0]: row[1] for row in table("When a login fails")}[wrong]
    assert example in sentence
    return sentence.replace(example, ours) if example else sentence


def of_client(**changed: str) -> str:
    """The login line of client credentials, some of them changed."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    options = {"clientId": "monitor", "clientSecret": SECRET, "scope": "offsets", **changed}
    return f"{module} required {' '.join(f'{key}={json.dumps(text)}' for key, text in options.items())};"


@dataclass(frozen=True)
class Site:
    """A broker behind a login, the configuration of the docs for it, and what it proves itself by."""

    broker: LoginBroker
    config: dict[str, Any]
    prover: IdentityProvider | Kdc | None

    def properties(self, changed: Mapping[str, str] | None = None) -> dict[str, str]:
        """The client properties, some of them changed."""
        given = {**self.config["kafka"], **(changed or {})}
        return load(flags={f"kafka.{name}": value for name, value in given.items()}).kafka.client_properties()

    def verb(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a verb in a process of its own."""
        command = self.command(folder, *words)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def command(self, folder: Path, *words: str) -> list[str]:
        """The command line of a verb whose storage is in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        settings = {**self.config, "storage": {"path": str(folder / "data")}}
        (config := folder / "monitor.yaml").write_text(yaml.safe_dump(settings))
        return [sys.executable, "-c", MAIN, *words, "--config", str(config)]
