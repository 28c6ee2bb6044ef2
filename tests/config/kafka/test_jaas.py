"""Lines of `sasl.jaas.config` are read as Kafka's Java client reads them; what it refuses is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rebalance_monitor.cluster.jars.gateway import java_gateway
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.config.kafka.jaas import JaasError, parse
from rebalance_monitor.config.kafka.logins import jaas_line, login_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# What lines are made of, right and wrong.
PARTS = (
    *(
        "x.PlainLoginModule",
        "KafkaClient",
        "required",
        "REQUISITE",
        "user",
        "a-b_c$d",
        "password",
        "1234",
        "-",
        ".",
    ),
    *(
        "=",
        ";",
        " ",
        "\n",
        "\r",
        "\t",
        "{",
        "}",
        ",",
        "/",
        "//",
        "/*",
        "*/",
        "#",
        "\\",
        "ä",
        "団",
        "\u0085",
        "-5",
        "a.5",
    ),
    *(
        '"',
        "'",
        '"u"',
        "'p w'",
        '"a\\"b"',
        '"\\101\\7x"',
        '"\\477"',
        '"\\n\\q"',
        '="v"',
        ' username="u"',
        ' required x="y";',
    ),
)


def ours(line: str) -> tuple[str, dict[str, str]] | None:
    try:
        login = parse(line)
    except JaasError:
        return None
    return login.module, login.options


@pytest.mark.parametrize(
    ("line", "user", "password"),
    [
        (f'{PLAIN} required username="u" password="p";', "u", "p"),
        (f"{PLAIN} required username='u' password='p\"q';", "u", 'p"q'),
        (f'{PLAIN} required\n  username="u" // who\n  password="a\\"b\\\\;" /* what */ ;\n', "u", 'a"b\\;'),
        (f'{PLAIN} REQUIRED username=u password=p-q.r more="x";', "u", "p-q.r"),
        (f'{PLAIN} required password="p" username="\\165";', "u", "p"),
    ],
)
def test_user_and_password_are_what_java_reads(line: str, user: str, password: str) -> None:
    login = login_of({"sasl.jaas.config": line})
    assert login is not None
    assert (login.options["username"], login.options["password"]) == (user, password)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "it names no login module"),
        (f'{PLAIN} required username="u" password="hunter2"', "it must end with `;`"),
        (f"{PLAIN} required username=u password=12345;", "option 2 has no value: write `name="),
        (f'{PLAIN} required username="u", password="hunter2";', "option 2 has no value"),
        (f"{PLAIN} required username=“u” password=“hunter2”", "it must end with `;`"),
        (f'{PLAIN} username="u" password="hunter2";', "`required` must stand behind the login module"),
        (f"{PLAIN};", "`required` must stand behind"),
        (PLAIN, "no `required` stands behind the login module"),
        (
            f'KafkaClient {{ {PLAIN} required username="u" password="hunter2"; }};',
            "it is a whole JAAS file: leave",
        ),
        (f'{PLAIN} required username="u" password="hunter2"; {PLAIN} required;', "it names 2 login modules"),
        (f'{PLAIN} required username="u" password="hunt"er2";', "option 3 has no value"),
    ],
)
def test_what_java_refuses_is_refused_with_what_to_do_and_without_a_quote(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"the property `kafka: sasl\.jaas\.config`") as told:
        login_of({"sasl.jaas.config": line})
    assert sentence in str(told.value)
    assert "hunter2" not in str(told.value)


@given(st.text(min_size=1), st.text())
def test_a_line_of_ours_is_read_back(user: str, password: str) -> None:
    login = parse(jaas_line("PLAIN", user, password))
    assert login.options == {"username": user, "password": password}


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java_gateway(resolve_spark_kafka(*installed_spark())) as found:
        yield found


def javas(jvm: Any, line: str) -> tuple[str, dict[str, str]] | None:  # noqa: ANN401 - of a JVM
    from py4j.protocol import Py4JJavaError

    given_ = jvm.java.util.HashMap()
    given_.put("sasl.jaas.config", jvm.org.apache.kafka.common.config.types.Password(line))
    try:
        context = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(given_)
    except Py4JJavaError:
        return None
    entry = context.configurationEntries()[0]
    options = {str(key or ""): str(value) for key, value in dict(entry.getOptions()).items()}
    return str(entry.getLoginModuleName()), options


@pytest.mark.spark
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
@example(lines="/\n")
def test_every_line_is_read_as_kafkas_own_parser_reads_it(jvm: Any, lines: str) -> None:  # noqa: ANN401 - of a JVM
    for line in (lines, f"x.PlainLoginModule required {lines};"):
        assert ours(line) == javas(jvm, line), line
