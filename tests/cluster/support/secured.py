"""A lab broker with TLS, SCRAM and an authorizer, and the certificates for it, all made on the spot."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12
from cryptography.x509.oid import NameOID

from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports
from tests.cluster.support.login_page import block

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

USER = "monitor"
STORE_PASSWORD = "of the stores"  # noqa: S105 - of files that live for one test
PASSWORD = 'sp"ace; and=more'  # noqa: S105 - of a broker that lives for one test
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL"
QUOTED = PASSWORD.replace('"', '\\"')
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass(frozen=True, slots=True)
class Grant:
    """One permission of the monitor's user."""

    operation: AclOperation
    kind: ResourceType
    name: str
    pattern: ResourcePatternType = ResourcePatternType.LITERAL

    def binding(self) -> AclBinding:
        return AclBinding(*self._fields())

    def filter(self) -> AclBindingFilter:
        return AclBindingFilter(*self._fields())

    def _fields(self) -> tuple[object, ...]:
        allowed = AclPermissionType.ALLOW
        return (self.kind, self.name, self.pattern, f"User:{USER}", "*", self.operation, allowed)


CLUSTER = "kafka-cluster"
TOPIC = "__consumer_offsets"
PREFIX = "rebalance-monitor"
# The table of docs/security.md, by the same names.
LEAST = {
    "read": Grant(AclOperation.READ, ResourceType.TOPIC, TOPIC),
    "group prefix": Grant(AclOperation.DESCRIBE, ResourceType.GROUP, PREFIX, ResourcePatternType.PREFIXED),
    "cluster": Grant(AclOperation.DESCRIBE, ResourceType.BROKER, CLUSTER),
    "groups": Grant(AclOperation.DESCRIBE, ResourceType.GROUP, "*"),
    "cluster configs": Grant(AclOperation.DESCRIBE_CONFIGS, ResourceType.BROKER, CLUSTER),
    "topic configs": Grant(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, TOPIC),
    "group configs": Grant(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP, "*"),
}


class Certificates:
    """An authority of our own, and PEM files (key and chain in one) for the broker and the monitor."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key, self._name = _key(), _named("lab authority")
        self._certificate = _signed(self._name, self._key.public_key(), self._name, self._key, is_ca=True)
        self.authority = folder / "ca.pem"
        self.authority.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> Path:
        key = _key()
        found = _signed(_named(name), key.public_key(), self._name, self._key, is_ca=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(
            private
            + found.public_bytes(serialization.Encoding.PEM)
            + self._certificate.public_bytes(serialization.Encoding.PEM)
        )
        path.chmod(0o600)
        return path

    def java_stores(self, name: str, kind: str) -> dict[str, str]:
        """The same as stores of this type, made by Java's keytool; the properties that name them."""
        pem = self.issue(name).read_bytes()
        key, (own, *chain) = load_pem_private_key(pem, None), x509.load_pem_x509_certificates(pem)
        words = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        made = self._folder / f"{name}.made.p12"
        made.write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, own, chain, words))
        keys, trust = self._folder / f"{name}.{kind}", self._folder / f"authority.{kind}"
        for path in (keys, trust):
            path.unlink(missing_ok=True)
        into = ["-keystore", trust, "-storetype", kind, "-storepass", STORE_PASSWORD]
        _keytool("-importcert", "-noprompt", "-alias", "authority", "-file", self.authority, *into)
        source = ["-srckeystore", made, "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD]
        target = ["-destkeystore", keys, "-deststoretype", kind, "-deststorepass", STORE_PASSWORD]
        _keytool("-importkeystore", "-noprompt", *source, *target)
        return {
            f"ssl.{store}.{part}": value
            for store, path in (("truststore", trust), ("keystore", keys))
            for part, value in (("location", str(path)), ("type", kind), ("password", STORE_PASSWORD))
        }


class SecuredBroker(LabBroker):
    """Plain for the lab itself (a super user), SASL_SSL with these mechanisms and SSL for the monitor."""

    def __init__(
        self, folder: Path, mechanisms: Sequence[str] = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
    ) -> None:
        self.certificates = Certificates(folder / "pem")
        plain, sasl, ssl, controller = free_ports(4)
        self.sasl, self.ssl = f"127.0.0.1:{sasl}", f"127.0.0.1:{ssl}"
        client_listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl}"
        self._controller = controller
        self._granted: set[Grant] = set()
        settings = {
            "listeners": f"{client_listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": client_listeners,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": PROTOCOLS,
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{JAAS};",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{JAAS};",
            # A file of Java's properties, which have backslashes of their own.
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f'{PLAIN} user_{USER}="{QUOTED}";'.replace("\\", "\\\\")
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.issue("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        super().__init__(folder=folder / "broker", port=plain, settings=settings, offsets_partitions=4)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def add_user(self) -> None:
        admin = self.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result()

    def allow(self, *names: str, more: Sequence[Grant] = ()) -> None:
        """Make these grants of LEAST, and `more`, the only ones."""
        admin = self.admin()
        wanted = {*(LEAST[name] for name in names), *more}
        gone = [grant.filter() for grant in {*LEAST.values(), *self._granted} - wanted]
        for future in admin.delete_acls(gone).values() if gone else ():
            future.result()
        for made in admin.create_acls([grant.binding() for grant in wanted]).values() if wanted else ():
            made.result()
        self._granted = wanted

    def scram(self) -> dict[str, str]:
        return self._by_password("SCRAM-SHA-512", JAAS)

    def scram256(self) -> dict[str, str]:
        return self._by_password("SCRAM-SHA-256", JAAS)

    def plain(self) -> dict[str, str]:
        return self._by_password("PLAIN", PLAIN)

    def _by_password(self, mechanism: str, module: str) -> dict[str, str]:
        """Return the block of the docs, with another mechanism's name and module where it is another."""
        replaced = {
            "broker-1:9093": self.sasl,
            "SCRAM-SHA-512": mechanism,
            JAAS: module,
            "…": QUOTED,
            "/etc/rebalance-monitor/ca.pem": str(self.certificates.authority),
        }
        found: dict[str, str] = block("User and password", replaced)["kafka"]
        return found

    def mutual_tls(self) -> dict[str, str]:
        """Return the block of the docs."""
        replaced = {
            "broker-1:9094": self.ssl,
            "/etc/rebalance-monitor/ca.pem": str(self.certificates.authority),
            "/run/secrets/monitor.pem": str(self.certificates.issue(USER)),
        }
        found: dict[str, str] = block("Certificate", replaced)["kafka"]
        return found

    def jks(self) -> dict[str, str]:
        return self._by_stores("JKS")

    def pkcs12(self) -> dict[str, str]:
        return self._by_stores("PKCS12")

    def _by_stores(self, kind: str) -> dict[str, str]:
        stores = self.certificates.java_stores(USER, kind)
        return {"bootstrap_servers": self.ssl, "security.protocol": "SSL", **stores}


def _keytool(*words: str | Path) -> None:
    command = [find_java().home / "bin" / "keytool", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    subject: x509.Name, key: rsa.RSAPublicKey, issuer: x509.Name, signer: rsa.RSAPrivateKey, *, is_ca: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(host, critical=False)
        .sign(signer, hashes.SHA256())
    )
