"""A Kerberos KDC on loopback (Debian's krb5-kdc): a realm of its own in a folder, and short tickets."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Self

from rebalance_monitor.lab.cluster.node import free_ports
from tests.cluster.support.login_broker import LoginBroker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.chaos.support.clock import Clock

REALM, HOST = "LAB.TEST", "localhost"
PRINCIPAL, SERVICE = f"monitor@{REALM}", f"kafka/{HOST}@{REALM}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")


def missing_programs() -> list[str]:
    """The programs of the KDC that are not on this machine."""
    return [name for name in PROGRAMS if _program(name) is None]


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Kdc:
    """life: of tickets, as Kerberos writes times (`30s`). Use as a context manager. clock: the server's."""

    def __init__(self, folder: Path, life: str, clock: Clock) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self._life, self.clock = life, clock
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        """The krb5.conf of clients and brokers."""
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """What MIT's library, and java by its options, find this realm by."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'cache'}",
            "JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={self.config}",
        }

    def __enter__(self) -> Self:
        self._write()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        for principal, keytab in ((SERVICE, "broker.keytab"), (PRINCIPAL, "monitor.keytab")):
            self.add(principal, keytab)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Let it answer."""
        command = [str(_program("krb5kdc")), "-n"]
        with (self.folder / "kdc.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=os.environ | self.environment | self.clock.environment, stdout=log, stderr=log
            )
        time.sleep(0.5)

    def stop(self) -> None:
        """Let it be away."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def add(self, principal: str, keytab: str) -> Path:
        """Make a principal and its keytab."""
        self._run(
            "kadmin.local", "-q", f"addprinc +requires_preauth -randkey -maxlife {self._life} {principal}"
        )
        return self.export(principal, keytab)

    def export(self, principal: str, keytab: str) -> Path:
        """Change a principal's key, and write the new one to a keytab."""
        path = self.folder / keytab
        self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def new_key(self, principal: str = PRINCIPAL) -> None:
        """Change a principal's key: keytabs of before are worthless."""
        self._run("kadmin.local", "-q", f"cpw -randkey {principal}")

    def remove(self, principal: str) -> None:
        """Let nobody be of that name."""
        self._run("kadmin.local", "-q", f"delprinc -force {principal}")

    def login(self, keytab: str = "monitor.keytab", principal: str = PRINCIPAL) -> dict[str, str]:
        """Java's properties of the monitor's login."""
        path = self.folder / keytab
        # Java logs in, also where the package is installed: it does not know `debug`.
        options = f'useKeyTab=true storeKey=true debug=false keyTab="{path}" principal="{principal}"'
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{MODULE} required {options};",
        }

    def _run(self, program: str, *words: str) -> None:
        command = [str(_program(program)), *words]
        done = subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")

    def _write(self) -> None:
        realm = f"  {REALM} = {{\n    kdc = 127.0.0.1:{self.port}\n  }}\n"
        defaults = {
            "default_realm": REALM,
            "dns_lookup_kdc": "false",
            "dns_lookup_realm": "false",
            "rdns": "false",
            "ticket_lifetime": self._life,
            "udp_preference_limit": "1",
        }
        lines = "".join(f"  {key} = {value}\n" for key, value in defaults.items())
        self.config.write_text(f"[libdefaults]\n{lines}[realms]\n{realm}")
        (self.folder / "kdc.conf").write_text(
            # By TCP alone, as its clients ask: the datagram port of a number belongs to who was given it.
            f'[kdcdefaults]\n  kdc_listen = ""\n  kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n  {REALM} = {{\n    database_name = {self.folder}/principal\n"
            f"    key_stash_file = {self.folder}/stash\n    acl_file = {self.folder}/acl\n"
            f"    max_life = {self._life}\n  }}\n"
        )


def kerberos_broker(folder: Path, kdc: Kdc, settings: Mapping[str, str] | None = None) -> LoginBroker:
    """A broker with a GSSAPI listener."""
    options = f'useKeyTab=true storeKey=true keyTab="{kdc.folder}/broker.keytab" principal="{SERVICE}"'
    of_listener = {"sasl.jaas.config": f"{MODULE} required {options};"}
    # Clients log in again every few seconds, for which they need a ticket that holds (KIP-368).
    again = {"connections.max.reauth.ms": "5000"}
    all_settings = {"sasl.kerberos.service.name": "kafka", **again, **(settings or {})}
    jvm = [f"-Djava.security.krb5.conf={kdc.config}"]
    return LoginBroker(folder, "GSSAPI", of_listener, jvm=jvm, settings=all_settings, name=HOST)
