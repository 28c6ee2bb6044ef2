"""What a login is taken for, and what is refused before any client is made."""

import pytest

from rebalance_monitor.config.kafka.logins import LoginKind, login_kind, login_problems

SECURITY = "org.apache.kafka.common.security"
OAUTH = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required"
HANDLER = f"{SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
SCRAM = f"{SECURITY}.scram.ScramLoginModule required"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
OIDC = {"sasl.login.callback.handler.class": HANDLER, ENDPOINT: "https://idp/token"}


def login(mechanism: str, line: str, **more: str) -> dict[str, str]:
    fixed = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": line}
    return fixed | more


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, LoginKind.NONE),
        ({"security.protocol": "SSL"}, LoginKind.NONE),
        (login("SCRAM-SHA-256", f'{SCRAM} username="u" password="p";'), LoginKind.PASSWORD),
        (
            login("SCRAM-SHA-256", f'{SCRAM} username="u" password="p" tokenauth="true";'),
            LoginKind.DELEGATION_TOKEN,
        ),
        (login("OAUTHBEARER", f'{OAUTH} clientId="c" clientSecret="s";', **OIDC), LoginKind.OIDC),
        (
            login("OAUTHBEARER", f"{OAUTH};", **OIDC | {ENDPOINT: "file:///run/token"}),
            LoginKind.JAVA_CLASS,
        ),
        (
            login("OAUTHBEARER", f"{OAUTH};", **OIDC | {"sasl.login.callback.handler.class": "org.acme.Own"}),
            LoginKind.JAVA_CLASS,
        ),
        (
            login("AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule required;"),
            LoginKind.JAVA_CLASS,
        ),
        (
            login("GSSAPI", f"{KRB5} useTicketCache=true;", **{"sasl.kerberos.service.name": "kafka"}),
            LoginKind.KERBEROS,
        ),
    ],
)
def test_a_whole_login_is_taken_for_what_it_is(given: dict[str, str], kind: LoginKind) -> None:
    assert login_kind(given) is kind
    assert kind is LoginKind.NONE or list(login_problems(given)) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (login("PLAIN", f'{SCRAM} username="u" password="hunter2";'), "PLAIN logs in with PlainLoginModule"),
        (login("SCRAM-SHA-512", f'{SCRAM} user="u" password="hunter2";'), 'must have username="…"'),
        (login("GSSAPI", f"{KRB5} useKeyTab=true;"), "sasl.kerberos.service.name` is missing"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "names com.sun.security"),
        (login("OAUTHBEARER", f"{OAUTH};"), "makes unsigned tokens"),
        (login("OAUTHBEARER", f'{OAUTH} clientId="c";', **OIDC), "the login has no clientSecret"),
        (
            login("OAUTHBEARER", f'{OAUTH} clientId="c" clientSecret="s";', **OIDC | {ENDPOINT: ""}),
            "must be where tokens are fetched",
        ),
    ],
)
def test_what_is_missing_in_a_login_is_named_without_a_secret(given: dict[str, str], says: str) -> None:
    problems = list(login_problems(given))
    assert [says in problem for problem in problems] == [True], problems
    assert "hunter2" not in problems[0]
