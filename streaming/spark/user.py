"""A user id without a name: OpenShift and `runAsUser` give any number, and no line of /etc/passwd.

Java returns `?` as such a user's name and home. Hadoop's login, which Spark needs to start, fails for a null
name. So the JVM gets a name and a home as properties. The one class of the JDK that asks the system,
`UnixSystem` of the module `jdk.security.auth`, is replaced by one that returns these (`java/`).
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
