"""A user id without a name: OpenShift and `runAsUser` give any number, and no line of /etc/passwd.

Java answers `?` for such a user's name and home then, and Hadoop's login, without which Spark does not start,
ends at a name that is null. So the JVM is told a name and a home, and the one class of the JDK that asks the
system, `UnixSystem` of the module `jdk.security.auth`, is patched by one that answers with these (`java/`).
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from rebalance_monitor.streaming.spark.scratch import scratch_folder

PATCH = Path(__file__).with_name("java")


def has_name() -> bool:
    """Whether the system knows a name for the user of this process."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def user_option(home: str = "") -> str:
    """Return the JVM's options where the user has no name, else nothing.

    `home`: what it takes for the user's home, by default this process's folder for scratch files.
    """
    if has_name():
        return ""
    return (
        f'-Duser.name={os.getuid()} "-Duser.home={home or scratch_folder()}" '
        f"-Drebalance_monitor.uid={os.getuid()} "
        f'-Drebalance_monitor.gid={os.getgid()} "--patch-module=jdk.security.auth={PATCH}"'
    )
