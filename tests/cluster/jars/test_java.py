import stat
from pathlib import Path

import pytest

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.java import Java, choose, inspect, major_version


def _home(folder: Path, *, release: str | None, says: str = "", javac: bool = False) -> Path:
    (folder / "bin").mkdir(parents=True)
    launcher = folder / "bin" / "java"
    launcher.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    if javac:
        (folder / "bin" / "javac").touch()
    if release is not None:
        (folder / "release").write_text(release)
    return folder


@pytest.mark.parametrize(
    ("text", "major"), [('"17.0.15"', 17), ("1.8.0_302", 8), ("21", 21), ('"25.0.3"', 25), ("nothing", None)]
)
def test_a_major_version_is_read_from_old_and_new_spellings(text: str, major: int | None) -> None:
    assert major_version(text) == major


def test_the_release_file_has_the_version_without_starting_anything(tmp_path: Path) -> None:
    home = _home(tmp_path / "jdk", release='JAVA_VERSION="17.0.1"\n', says="must not run", javac=True)
    assert inspect(home) == Java(home, 17, is_jdk=True)


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = _home(tmp_path / "old", release=None, says='openjdk version "1.8.0_392"')
    assert inspect(home) == Java(home, 8, is_jdk=False)


def test_a_folder_without_java_is_no_java(tmp_path: Path) -> None:
    assert inspect(tmp_path) is None


def test_the_first_fitting_java_is_chosen_past_those_that_are_too_old_or_too_new() -> None:
    java = [Java(Path("/old"), 11, is_jdk=True), Java(Path("/new"), 25, is_jdk=True)]
    fitting = Java(Path("/fits"), 21, is_jdk=False)
    assert choose([*java, fitting, Java(Path("/too"), 17, is_jdk=True)]) == fitting


def test_a_runtime_is_passed_over_where_a_compiler_is_needed() -> None:
    kit = Java(Path("/jdk"), 17, is_jdk=True)
    assert choose([Java(Path("/jre"), 17, is_jdk=False), kit], jdk=True) == kit


@pytest.mark.parametrize("jdk", [False, True])
def test_without_a_fitting_java_one_message_names_what_was_found_and_the_packages(*, jdk: bool) -> None:
    with pytest.raises(DependencyError) as refused:
        choose([Java(Path("/usr/lib/jvm/eleven"), 11, is_jdk=True)], jdk=jdk)
    text = str(refused.value)
    for word in ("/usr/lib/jvm/eleven", "Debian/Ubuntu", "Fedora", "macOS", "JAVA_HOME"):
        assert word in text


def test_without_any_java_the_message_says_so() -> None:
    with pytest.raises(DependencyError, match="no Java is installed"):
        choose([])
