"""How a client proves who it is: the login that Kafka client properties describe, by Java's names.

`login_kind` says which of the kinds below it is, `login_problems` what is missing or contradicts itself.
Which client can log in that way is decided in cluster/logins/held.py. KIP-43 (mechanisms), KIP-48
(delegation tokens), KIP-255 and KIP-768 (OAUTHBEARER, client credentials). Nothing here quotes a secret or
opens a file.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from rebalance_monitor.config.kafka.jaas import JaasError, Login, parse

PROTOCOL, MECHANISM = "security.protocol", "sasl.mechanism"
JAAS, USER, PASSWORD = "sasl.jaas.config", "sasl.username", "sasl.password"
LOGIN_HANDLER, CLIENT_HANDLER = "sasl.login.callback.handler.class", "sasl.client.callback.handler.class"
LOGIN_CLASS, RETRIEVER = "sasl.login.class", "sasl.oauthbearer.jwt.retriever.class"
TOKEN_URL, SERVICE = "sasl.oauthbearer.token.endpoint.url", "sasl.kerberos.service.name"

SECURITY = "org.apache.kafka.common.security"
# Mechanism -> the login modules that go with it, by their names without package; the first is Kafka's own.
MODULES: dict[str, str] = {
    "PLAIN": f"{SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}
MECHANISMS = tuple(MODULES)
BY_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
# Kafka moved its handler in 3.4; both names are taken.
OIDC_HANDLER = "OAuthBearerLoginCallbackHandler"
# Client credentials stand in the login line, or (Kafka 4.1 on) in properties of their own.
CREDENTIALS = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
# What says how Java's client logs in, and nothing of who we are: the other clients have their own ways.
JAVA_TUNING = frozenset(
    {
        *(f"sasl.login.{name}.timeout.ms" for name in ("connect", "read")),
        *(f"sasl.login.retry.backoff.{name}" for name in ("ms", "max.ms")),
        *(f"sasl.login.refresh.{name}" for name in ("buffer.seconds", "min.period.seconds")),
        *(f"sasl.login.refresh.window.{name}" for name in ("factor", "jitter")),
        *(f"sasl.kerberos.ticket.renew.{name}" for name in ("jitter", "window.factor")),
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    }
)
# What only Java's client logs in by.
JAVA_LOGINS = (LOGIN_HANDLER, CLIENT_HANDLER, LOGIN_CLASS, RETRIEVER)
JAVA_SASL = frozenset({JAAS, SERVICE, TOKEN_URL, *JAVA_LOGINS, *CREDENTIALS.values(), *JAVA_TUNING})


class LoginKind(StrEnum):
    """By what a client logs in. NONE: without SASL, perhaps by certificate."""

    NONE = "none"
    PASSWORD = "user and password"  # noqa: S105 - a kind, not a password
    DELEGATION_TOKEN = "delegation token"  # noqa: S105 - as above
    OIDC = "OAuth client credentials"
    KERBEROS = "Kerberos"
    JAVA_CLASS = "a class of Java's"


BY_LIBRDKAFKA = frozenset({LoginKind.NONE, LoginKind.PASSWORD, LoginKind.OIDC})
"""What librdkafka has of its own. For all else somebody must speak the SASL exchange in its place."""


def login_of(properties: Mapping[str, str]) -> Login | None:
    """Return the login of `sasl.jaas.config`, None without one. Raises ValueError, without quoting it."""
    line = properties.get(JAAS)
    if line is None:
        return None
    try:
        return parse(line)
    except JaasError as error:
        raise ValueError(f"the property `kafka: {JAAS}` cannot be read: {error}") from None


def login_kind(properties: Mapping[str, str]) -> LoginKind:
    """Return by what these properties log in. Raises ValueError for a line that cannot be read."""
    mechanism, login = properties.get(MECHANISM, ""), login_of(properties)
    if not properties.get(PROTOCOL, "").startswith("SASL_"):
        return LoginKind.NONE
    if mechanism == "GSSAPI":
        return LoginKind.KERBEROS
    if mechanism == "OAUTHBEARER" and _is_oidc(properties):
        return LoginKind.OIDC
    if mechanism not in BY_PASSWORD or any(name in properties for name in JAVA_LOGINS):
        return LoginKind.JAVA_CLASS
    by_token = login is not None and login.options.get("tokenauth", "").lower() == "true"
    return LoginKind.DELEGATION_TOKEN if by_token else LoginKind.PASSWORD


def _is_oidc(properties: Mapping[str, str]) -> bool:
    """Whether Kafka's own handler fetches tokens from an endpoint; it can also read them from a file."""
    handler, url = properties.get(LOGIN_HANDLER, ""), properties.get(TOKEN_URL, "")
    others = (name for name in JAVA_LOGINS if name != LOGIN_HANDLER)
    fetches = handler.rpartition(".")[2] == OIDC_HANDLER and not url.startswith("file:")
    return fetches and not any(name in properties for name in others)


def client_credentials(properties: Mapping[str, str]) -> dict[str, str]:
    """Return clientId, clientSecret and scope, as far as they are given; the properties win, as in Java."""
    login = login_of(properties)
    options = {} if login is None else login.options
    given = {name: properties.get(key, options.get(name, "")) for name, key in CREDENTIALS.items()}
    return {name: value for name, value in given.items() if value}


def token_trust(properties: Mapping[str, str]) -> str:
    """Return the PEM file of the token endpoint's authority, from the login line; "" for the system's."""
    login = login_of(properties)
    return "" if login is None else login.options.get("ssl.truststore.location", "")


def login_problems(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield what is missing in a login, or contradicts itself. Raises ValueError as `login_of`."""
    mechanism, login = properties.get(MECHANISM), login_of(properties)
    if mechanism is None:
        yield f"the property `kafka: {MECHANISM}` is missing: set one of {', '.join(MECHANISMS)}"
        return
    fits = MODULES[mechanism].rpartition(".")[2]
    if login is not None and login.name != fits:
        yield f"the property `kafka: {JAAS}` names {login.name}, and {mechanism} logs in with {fits}"
        return
    if login is None and mechanism not in BY_PASSWORD:
        yield f"the login is missing: set `kafka: {JAAS}` to a line that names {MODULES[mechanism]}"
        return
    kind = login_kind(properties)
    if kind in {LoginKind.PASSWORD, LoginKind.DELEGATION_TOKEN}:
        yield from _password_problems(properties, login)
    elif kind is LoginKind.OIDC:
        yield from _oidc_problems(properties)
    elif login is not None and kind is LoginKind.KERBEROS and not service_of(properties, login):
        yield f"the property `kafka: {SERVICE}` is missing: the brokers' service, mostly `kafka`"
    elif mechanism == "OAUTHBEARER" and LOGIN_HANDLER not in properties and RETRIEVER not in properties:
        yield (
            f"the property `kafka: {LOGIN_HANDLER}` is missing: without it Java's client makes unsigned "
            f"tokens of its own. Name {SECURITY}.oauthbearer.{OIDC_HANDLER}, or a class of your own"
        )


def service_of(properties: Mapping[str, str], login: Login) -> str:
    """Return the brokers' Kerberos service, "" where none is named."""
    return login.options.get("serviceName") or properties.get(SERVICE, "")


def _password_problems(properties: Mapping[str, str], login: Login | None) -> Iterator[str]:
    if login is None:
        if not all(properties.get(name) for name in (USER, PASSWORD)):
            yield f"the login is missing: set `kafka: {JAAS}`, or `{USER}` and `{PASSWORD}`"
        return
    if not {"username", "password"} <= login.options.keys():
        yield f'the property `kafka: {JAAS}` must have username="…" and password="…"'
        return
    for name, option in ((USER, "username"), (PASSWORD, "password")):
        if name in properties and properties[name] != login.options[option]:
            yield f"`kafka: {name}` and `kafka: {JAAS}` differ in the {option}: keep one of them"


def _oidc_problems(properties: Mapping[str, str]) -> Iterator[str]:
    url, given = properties.get(TOKEN_URL, ""), client_credentials(properties)
    if not url.startswith(("http://", "https://")):
        yield f"the property `kafka: {TOKEN_URL}` must be where tokens are fetched: https://…"
    login = login_of(properties)
    if login and token_trust(properties) and login.options.get("ssl.truststore.type", "").upper() != "PEM":
        yield f'the truststore in `kafka: {JAAS}` must be a PEM file: add ssl.truststore.type="PEM" to it'
    for name in ("clientId", "clientSecret"):
        if name not in given:
            own = CREDENTIALS[name]
            yield f'the login has no {name}: write {name}="…" in `kafka: {JAAS}`, or set `{own}`'


def jaas_line(mechanism: str, user: str, password: str) -> str:
    """Return the line of `sasl.jaas.config` for a user."""
    return f"{MODULES[mechanism]} required username={_quoted(user)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{plain}"'
