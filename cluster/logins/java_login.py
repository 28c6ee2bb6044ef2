"""Logs kafka-python in by Java: Kerberos, OAuth handlers of one's own, IAM, delegation tokens.

Java's client keeps a login (LoginManager: it acquires tickets and tokens, and renews them in a thread of its
own for as long as it is held) and speaks one SASL exchange for each connection. Both are made here by Kafka's
own classes in a JVM; only the bytes of the exchange are carried, through py4j. All else of the protocol stays
kafka-python's, so every request of the monitor works under every login that the JVM has.

Why not Java's AdminClient: the one that Spark brings (3.9) lists no group of Connect, share or streams, and
returns no leader epochs. Each partition that is asked for would be an object made through py4j (0.4 ms), each
value of an answer a call (0.04 ms): five thousand partitions cost seconds, here nothing but the login does.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import AccessDeniedError, DependencyError
from rebalance_monitor.cluster.jars.gateway import chain_of, require_py4j, words_of
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM, class_named
from rebalance_monitor.cluster.login_causes import login_error
from rebalance_monitor.cluster.logins.attempts import AGAIN_S, Attempts
from rebalance_monitor.config.kafka.logins import CLIENT_HANDLER, JAAS, MECHANISM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECURITY = "org.apache.kafka.common.security"
# What Java's client takes for a mechanism where the properties name no class (SaslChannelBuilder).
LOGIN_CLASSES = {
    "GSSAPI": f"{SECURITY}.kerberos.KerberosLogin",
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.internals.OAuthBearerRefreshingLogin",
}
OTHER_LOGIN = f"{SECURITY}.authenticator.DefaultLogin"
HANDLERS = {
    "GSSAPI": f"{SECURITY}.kerberos.KerberosClientCallbackHandler",
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",
}
OTHER_HANDLER = f"{SECURITY}.authenticator.SaslClientCallbackHandler"
PLACEHOLDER = "localhost:9092"
SHADED = "kafkashaded."
"""Under what Databricks' Spark has Kafka's classes; a JVM of ours has them by their own names."""


class JavaLogin:
    """One login, made when it is first needed. properties: Java's names. Safe for several threads."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self.mechanism = properties[MECHANISM]
        self._lock = threading.Lock()
        self._made: _Made | None = None
        self._again_at, self._logins = -math.inf, 0
        self.attempts = Attempts(self.mechanism)
        self._failure: DependencyError | None = None

    @property
    def problem(self) -> DependencyError | None:
        """Why the last exchange, or the login itself, failed; None after one that did not."""
        return self._failure or self.attempts.refusal()

    def require(self) -> None:
        """Log in, unless that has been done. Raises DependencyError with the cause."""
        self._current()

    def exchange(self, host: str) -> Exchange:
        """Begin a SASL exchange with a broker. Raises DependencyError with the cause."""
        made = self._current()
        return Exchange(self, made, self._call_with(made, lambda: made.client(host)), host)

    def answer_challenge(self, made: _Made, client: Any, challenge: bytes) -> bytes:  # noqa: ANN401 - of a JVM
        """Give the answer to a challenge. Raises DependencyError with the cause."""
        found = self._call_with(made, lambda: made.step(client, challenge))
        self._failure = None
        return bytes(found or b"")

    def _call_with(self, made: _Made, act: Callable[[], Any]) -> Any:  # noqa: ANN401 - of a JVM
        """Call with a login; where that fails the next exchange logs in anew.

        Kafka's thread that renews tickets ends with the first failure: a keytab that is exported anew later
        would not help.
        """
        try:
            return self._call(act)
        except DependencyError:
            with self._lock:
                if self._made is made:
                    self._made = None
                    made.release()
            raise

    def _current(self) -> _Made:
        with self._lock:
            jvm = self._call(SHARED_JVM.for_logins)
            if self._made is None or self._made.jvm is not jvm:
                if self._failure and time.monotonic() < self._again_at:
                    raise self._failure.with_traceback(None)
                self._again_at = time.monotonic() + AGAIN_S
                self._made = self._call(lambda: _made(jvm, self._own_line()))
            return self._made

    def _own_line(self) -> dict[str, str]:
        """Return the properties with a login line that no login has had: Kafka shares those of one line."""
        self._logins += 1
        line = {JAAS: self._properties[JAAS] + " " * self._logins} if JAAS in self._properties else {}
        return self._properties | line

    def _call(self, act: Any) -> Any:  # noqa: ANN401 - as above
        try:
            require_py4j()
        except DependencyError as error:
            more = " Kerberos needs neither with the extra `kerberos`." if self.mechanism == "GSSAPI" else ""
            what = f"This login is made by Java's Kafka client. {error.what}"
            raise DependencyError(what, f"{error.remedy}{more}") from None
        from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark

        try:
            return act()
        except DependencyError as error:
            self._failure = error
        except Py4JJavaError as error:
            raised = error.java_exception
            words = words_of(raised, self._properties)
            self._failure = login_error(words, self._properties, " ".join(chain_of(raised)))
        except (Py4JError, TypeError) as error:
            # So py4j says that there is no such class or method, or that the JVM has ended.
            what = f"Java's Kafka client could not log in: {type(error).__name__}: {error}."
            self._failure = DependencyError(what, "See the JVM's version and `jars:`.")
        raise self._failure


@dataclass(slots=True)
class Exchange:
    """The client's half of one SASL exchange (RFC 4422), as kafka-python's mechanisms have it."""

    login: JavaLogin
    made: _Made
    client: Any
    host: str
    answer: bytes | None = None
    complete: bool = False

    def auth_bytes(self) -> bytes:
        """Give what is sent next."""
        if self.answer is None:
            self.login.attempts.begin(self.host)
            starts = self.made.starts(self.client)
            self.answer = self.login.answer_challenge(self.made, self.client, b"") if starts else b""
            self.complete = self.made.is_complete(self.client)
        return self.answer

    def receive(self, challenge: bytes) -> None:
        """Take what the broker sends; an empty one ends an exchange that Java's client holds for done."""
        ends = self.complete and not challenge
        self.answer = b"" if ends else self.login.answer_challenge(self.made, self.client, challenge)
        self.complete = self.made.is_complete(self.client)
        if self.is_done():
            self.login.attempts.end(self.host)

    def is_done(self) -> bool:
        """Whether nothing is to be sent any more."""
        return self.complete and not self.answer

    def is_authenticated(self) -> bool:
        """Whether we are logged in."""
        return self.complete

    def auth_details(self) -> str:
        """Say it, for the library's log."""
        return f"Authenticated by Java's {self.login.mechanism}"


@dataclass(frozen=True, slots=True)
class _Made:
    """A login that Java holds: its LoginManager's subject, and what an exchange is made of."""

    jvm: Any
    mechanism: str
    values: Any
    handler: Any
    manager: Any
    _handles: dict[str, Any] = field(default_factory=dict)

    def client(self, host: str) -> Any:  # noqa: ANN401 - of a JVM
        """Make a javax.security.sasl.SaslClient for a broker."""
        name = None
        if self.mechanism == "GSSAPI":
            name = next((one.getName() for one in self.manager.subject().getPrincipals()), None)
            if name is None:
                # Java's thread has logged out, and could not log in again.
                raise AccessDeniedError("There is no valid Kerberos ticket.", "See the keytab.")
        mechanisms = self._array("java.lang.String", [self.mechanism])
        service = self.manager.serviceName()
        return self._call("createSaslClient", mechanisms, name, service, host, self.values, self.handler)

    def step(self, client: Any, challenge: bytes) -> bytes | None:  # noqa: ANN401 - as above
        """Evaluate a challenge with what the login's subject holds."""
        return self._call("evaluateChallenge", client, challenge)  # type: ignore[no-any-return]  # of a JVM

    def starts(self, client: Any) -> bool:  # noqa: ANN401 - as above
        """Whether the client speaks first."""
        return bool(self._call("hasInitialResponse", client))

    def is_complete(self, client: Any) -> bool:  # noqa: ANN401 - as above
        """Whether the exchange is over."""
        return bool(self._call("isComplete", client))

    def release(self) -> None:
        """Give the login up; exchanges under way may go on."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

        # The JVM may have ended.
        with suppress(Py4JError, OSError):
            self.manager.release()

    def _call(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401 - as above
        """Call a method of SASL's as the login's subject.

        By method handles: Java's own SaslClients are not accessible by reflection, and an action to be
        done as a subject would otherwise have to be written in Java.
        """
        invoke, security = self.jvm.java.lang.invoke, self.jvm.javax.security
        bound = invoke.MethodHandles.insertArguments(
            self._handle(name), 0, self._array("java.lang.Object", arguments)
        )
        kind = class_named(self.jvm, "java.security.PrivilegedExceptionAction")
        action = invoke.MethodHandleProxies.asInterfaceInstance(kind, bound)
        return security.auth.Subject.doAs(self.manager.subject(), action)

    def _handle(self, name: str) -> Any:  # noqa: ANN401 - as above
        if name not in self._handles:
            self._handles[name] = self._found(name)
        return self._handles[name]

    def _found(self, name: str) -> Any:  # noqa: ANN401 - as above
        lookup = self.jvm.java.lang.invoke.MethodHandles.publicLookup()
        owner = "javax.security.sasl.Sasl" if name == "createSaslClient" else "javax.security.sasl.SaslClient"
        kind = class_named(self.jvm, owner)
        method = next(one for one in kind.getMethods() if one.getName() == name)
        return lookup.unreflect(method)

    def _array(self, kind: str, values: Any) -> Any:  # noqa: ANN401 - as above
        reflect = self.jvm.java.lang.reflect.Array
        array = reflect.newInstance(class_named(self.jvm, kind), len(values))
        for place, value in enumerate(values):
            reflect.set(array, place, value)
        return array


def _made(jvm: Any, properties: Mapping[str, str]) -> _Made:  # noqa: ANN401 - of a JVM
    """Log in as SaslChannelBuilder does."""
    mechanism, given = properties[MECHANISM], jvm.java.util.HashMap()
    for name, value in ({"bootstrap.servers": PLACEHOLDER} | dict(properties)).items():
        given.put(name, value.replace(SHADED, ""))
    security = jvm.org.apache.kafka.common.security
    values = jvm.org.apache.kafka.clients.admin.AdminClientConfig(given).values()
    context = security.JaasContext.loadClientContext(values)
    login = class_named(jvm, LOGIN_CLASSES.get(mechanism, OTHER_LOGIN))
    manager = security.authenticator.LoginManager.acquireLoginManager(context, mechanism, login, values)
    name = properties.get(CLIENT_HANDLER, "").replace(SHADED, "") or HANDLERS.get(mechanism, OTHER_HANDLER)
    handler = jvm.org.apache.kafka.common.utils.Utils.newInstance(
        name, class_named(jvm, f"{SECURITY}.auth.AuthenticateCallbackHandler")
    )
    handler.configure(values, mechanism, context.configurationEntries())
    return _Made(jvm, mechanism, values, handler, manager)


_logins: dict[frozenset[tuple[str, str]], JavaLogin] = {}
_sharing = threading.Lock()


def java_login(properties: Mapping[str, str]) -> JavaLogin:
    """Return the login of these properties (Java's names) that all clients of this process share."""
    of_login = {name: value for name, value in properties.items() if name.startswith(("sasl.", "security."))}
    with _sharing:
        return _logins.setdefault(frozenset(of_login.items()), JavaLogin(of_login))
