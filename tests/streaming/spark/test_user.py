"""A user id that no line of /etc/passwd names, as OpenShift gives it: `run` and `watch` start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cluster.jars.ivy import cache_folder
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.streaming.spark.user import PATCH, user_option

if TYPE_CHECKING:
    from rebalance_monitor.lab.cluster.broker import LabBroker

UID = "54321"
# A user namespace in which this user has another number: who may not have one cannot try it.
NAMELESS = ("unshare", "--user", f"--map-user={UID}", "--map-group=0")
CAN_BE_NAMELESS = not subprocess.run([*NAMELESS, "true"], check=False, capture_output=True).returncode
nameless = pytest.mark.skipif(not CAN_BE_NAMELESS, reason="no user namespaces here")
CLASS = Path("com/sun/security/auth/module/UnixSystem")


def monitor(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a verb as a user without name and home, as a container does."""
    named = {"HOME": "/", "XDG_CACHE_HOME": str(cache_folder().parent), **variables}
    environment = {name: value for name, value in os.environ.items() if name not in {"USER", "LOGNAME"}}
    command = [*NAMELESS, Path(sys.executable).with_name("rebalance-monitor"), *words]
    return subprocess.run(
        command, env=environment | named, capture_output=True, text=True, check=False, timeout=300
    )


@nameless
@pytest.mark.spark
@pytest.mark.broker
def test_the_job_runs_for_a_user_without_a_name(lab_broker: LabBroker, tmp_path: Path) -> None:
    words = ["run", "--available-now", "--set", f"kafka.bootstrap_servers={lab_broker.bootstrap}"]
    done = monitor(*words, "--set", f"storage.path={tmp_path / 'data'}", "--set", "web.enabled=false")
    assert done.returncode == 0, done.stderr[-4_000:]
    assert list((tmp_path / "data").glob("state/**/commits/0"))


@nameless
@pytest.mark.broker
def test_a_user_without_a_name_may_watch(lab_broker: LabBroker) -> None:
    done = monitor("watch", "--bootstrap", lab_broker.bootstrap, "--for", "3s")
    assert done.returncode == 0, done.stderr[-4_000:]


@nameless
def test_a_user_without_home_learns_where_to_name_one() -> None:
    program = "from rebalance_monitor.cluster.jars.ivy import cache_folder; cache_folder()"
    environment = {
        name: value for name, value in os.environ.items() if name not in {"HOME", "XDG_CACHE_HOME"}
    }
    done = subprocess.run(
        [*NAMELESS, sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "XDG_CACHE_HOME" in done.stderr.splitlines()[-1]


def test_a_user_with_a_name_is_left_to_java() -> None:
    assert user_option() == ""


@pytest.mark.slow
def test_the_class_is_made_of_its_source(tmp_path: Path) -> None:
    """Its bytes are those of JDK 17's compiler."""
    java = find_java()
    if java.major != 17 or not java.is_jdk:
        pytest.skip("needs a JDK 17")
    source = (PATCH / CLASS).with_suffix(".java")
    patched = ["--patch-module", f"jdk.security.auth={PATCH}", "-d", str(tmp_path)]
    subprocess.run([java.executable.with_name("javac"), "-g:none", *patched, source], check=True)
    assert (tmp_path / CLASS).with_suffix(".class").read_bytes() == (PATCH / CLASS).with_suffix(
        ".class"
    ).read_bytes()
