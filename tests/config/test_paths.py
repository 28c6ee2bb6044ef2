"""A user id without a home folder, as a container may have, may be given whole paths alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.jars.java import _usual_homes
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.config.paths import expanded


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_uid: int) -> None:
        raise KeyError(_uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_what_begins_with_a_tilde_is_refused_and_whole_paths_and_java_are_found() -> None:
    with pytest.raises(ConfigError, match=r"^~/data begins with `~`, and this user has no home folder"):
        expanded("~/data")
    assert expanded("/data") == Path("/data")
    assert all(home.is_absolute() for home in _usual_homes())
    with pytest.raises(ConfigError, match=r"`sasl\.password_file` names ~/password, which cannot be read"):
        load(flags={"kafka": {"sasl.password_file": "~/password"}})


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize(
    "words",
    [
        ["checkpoint", "inspect", "--set", "storage.path=~/data"],
        ["config", "check", "--set", "jars=[~/a.jar]"],
        ["lab", "status"],
    ],
)
def test_a_verb_ends_with_the_sentence(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert run(words) == 2
    assert "this user has no home folder" in capsys.readouterr().err
