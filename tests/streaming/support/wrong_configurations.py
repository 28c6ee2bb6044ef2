"""Wrong configurations, each with a sentence that it gets; `{tmp}` stands for a folder with certificates."""

from __future__ import annotations

from typing import Any

import pytest

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hunter2hunter2"  # noqa: S105 - made up, to be looked for
USER = f'username="monitor" password="{SECRET}"'
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f"{SCRAM} required {USER};",
}
HOOK = {"url": "https://hooks.example/x"}


def alerting(**ways: object) -> dict[str, Any]:
    return {"receivers": [{"name": "a", **ways}], "route": {"receiver": "a"}}


def kafka(**changes: object) -> dict[str, Any]:
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return {"kafka": {name: value for name, value in (LOGIN | changed).items() if value is not None}}


OAUTH = kafka(
    sasl__mechanism="OAUTHBEARER",
    sasl__jaas__config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'clientId="monitor" clientSecret="{SECRET}";',
    sasl__login__callback__handler__class="org.apache.kafka.common.security.oauthbearer"
    ".OAuthBearerLoginCallbackHandler",
    sasl__oauthbearer__token__endpoint__url="https://idp.invalid/token",  # noqa: S106 - an address
)
KERBEROS = kafka(
    sasl__mechanism="GSSAPI",
    sasl__jaas__config="com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;",
    sasl__kerberos__service__name="kafka",
)
# What is wrong, and the sentence. `{tmp}` is a folder with the files below.
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"kafka": {"security.protocol": "SASL-SSL"}},
        (
            "`security.protocol` must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not "
            "'SASL-SSL': did you mean SASL_SSL?"
        ),
    ),
    ({"kafka": {"security.protocol": "TLS"}}, "not 'TLS': did you mean SSL?"),
    ({"kafka": {"security.protocol": ""}}, "`security.protocol` must be one of"),
    (
        kafka(sasl__mechanism="SCRAM-SHA512"),
        (
            "`sasl.mechanism` must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, "
            "AWS_MSK_IAM, not 'SCRAM-SHA512': did you mean SCRAM-SHA-512?"
        ),
    ),
    (kafka(sasl__mechanism="DIGEST-MD5"), "`sasl.mechanism` must be one of PLAIN"),
    (kafka(sasl__mechanism="OAUTHBEARER"), "OAUTHBEARER logs in with OAuthBearerLoginModule"),
    (KERBEROS | {"source": {"reader": "python"}}, "that does not log in by Kerberos: leave it at `spark`"),
    (
        KERBEROS | {"alerts": alerting(kafka={"topic": "incidents"})},
        "librdkafka, which writes here, does not log in by Kerberos: give `properties` with a login",
    ),
    (kafka(sasl__mechanism=None), "the property `kafka: sasl.mechanism` is missing"),
    (kafka(sasl__mechanism="PLAIN"), "names ScramLoginModule, and PLAIN logs in with PlainLoginModule"),
    (kafka(sasl__jaas__config=None), "the login is missing: set `kafka: sasl.jaas.config`, or"),
    (
        kafka(sasl__jaas__config=f"{SCRAM} required {USER}"),
        "`kafka: sasl.jaas.config` cannot be read: it must end with `;`",
    ),
    (kafka(sasl__jaas__config=f"KafkaClient {{ {SCRAM} required {USER}; }};"), "it is a whole JAAS file"),
    (
        kafka(sasl__jaas__config=f'x.OAuthBearerLoginModule required token="{SECRET}";'),
        "logs in with ScramLoginModule",
    ),
    (
        kafka(sasl__username="another"),
        "`kafka: sasl.username` and `kafka: sasl.jaas.config` differ in the username",
    ),
    (
        kafka(security__protocol=None),
        (
            "`kafka: sasl.jaas.config` logs in, and `security.protocol` is PLAINTEXT, the default, "
            "which does not"
        ),
    ),
    (kafka(security__protocol="SSL"), "logs in, and `security.protocol` is SSL, which does not"),
    (
        {"kafka": {"ssl.truststore.location": "{tmp}/ca.pem"}},
        "is for TLS, and `security.protocol` is PLAINTEXT, the default, which has none",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/ca.pem", security__protocol="SASL_PLAINTEXT"),
        "which has none: set it to SASL_SSL",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/nowhere.pem"),
        "`kafka: ssl.truststore.location` names {tmp}/nowhere.pem, which cannot be read: No such file",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/empty.pem"),
        "{tmp}/empty.pem, which holds no certificate in PEM form",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/trust.jks"),
        "names {tmp}/trust.jks, which cannot be read: No such file",
    ),
    pytest.param(
        kafka(ssl__truststore__location="{tmp}/ca.pem", ssl__truststore__type="PKCS12"),
        "names {tmp}/ca.pem, which Java cannot read: toDerInputStream rejects",
        marks=pytest.mark.spark,
    ),
    (kafka(ssl__keystore__location="{tmp}/ca.pem"), "{tmp}/ca.pem, which holds no private key in PEM form"),
    (
        kafka(ssl__keystore__location="{tmp}/pkcs1.pem"),
        "not in the form of PKCS#8, which Spark's client needs",
    ),
    (kafka(ssl__keystore__location="{tmp}/locked.pem"), "is encrypted, and `ssl.key.password` is not set"),
    (
        kafka(ssl__certificate__location="{tmp}/ca.pem", ssl__key__location="{tmp}/key.pem"),
        "does not fit the first certificate",
    ),
    (
        kafka(ssl__endpoint__identification__algorithm="off"),
        "must be https, or empty for no check of host names, not 'off'",
    ),
    (kafka(ssl__engine__factory__class="x.Y"), "has no counterpart in the Python clients"),
    ({"kafka": {"request.timeout.ms": "30s"}}, "`request.timeout.ms` must be a whole number, not '30s'"),
    ({"kafka": {"request.timeout.ms": "1_000"}}, "`request.timeout.ms` must be a whole number"),
    ({"kafka": {"client.dns.lookup": "default"}}, "`client.dns.lookup` must be one of"),
    (
        {"kafka": {"metadata.max.age.ms": "0"}},
        'the Kafka client refuses `kafka:`: Configuration property "metadata.max.age.ms"',
    ),
    ({"kafka": {"bootstrap_servers": ""}}, "`kafka.bootstrap_servers` in the file {tmp}/c.yaml: is empty"),
    ({"kafka": {"bootstrap_servers": []}}, "is empty: write `host:port`"),
    ({"kafka": {"bootstrap_servers": "SASL_SSL://kafka:9093"}}, "begins with a scheme: leave it out"),
    ({"kafka": {"bootstrap_servers": "a:9092;b:9092"}}, "separate several by commas"),
    ({"kafka": {"bootstrap_servers": "a:9092 b:9092"}}, "separate several by commas"),
    ({"kafka": {"bootstrap_servers": "kafka"}}, "has the entry 'kafka', which has no port: write kafka:9092"),
    ({"kafka": {"bootstrap_servers": "kafka:99999"}}, "which has no port from 1 to 65535"),
    ({"kafka": {"bootstrap_servers": "::1:9092"}}, "write an IPv6 address as [::1]:9092"),
    (
        {"kafka": {"bootstrap_servers": f"u:{SECRET}@kafka:9092"}},
        "has the entry 'kafka:9092', which is not `host:port`",
    ),
    ({"kafka": {"bootstrap_servers": [{"kafka": 9092}]}}, "is not `host:port`"),
    (
        {"kafka": {"sasl.jaas.config_file": "{tmp}/nowhere"}},
        "`sasl.jaas.config_file` names {tmp}/nowhere, which cannot be read",
    ),
    ({"jars": ["{tmp}/nowhere.jar"]}, "The jar {tmp}/nowhere.jar does not exist."),
    ({"packages": ["spark-sql-kafka"]}, "`spark-sql-kafka` is not a package coordinate."),
    (
        {"spark": {"spark.sql.shuffle.partitions": "two"}},
        "spark.sql.shuffle.partitions must be a whole number",
    ),
    ({"storage": {"path": "s3x://bucket/monitor"}}, "s3x://bucket/monitor cannot be used"),
    ({"detection": {"severity_overrides": [{"kind": "strom", "severity": "info"}]}}, "strom"),
    (
        {"web": {"host": "::", "token_file": "{tmp}/nowhere"}},
        "`web.token_file` names {tmp}/nowhere, which cannot be read",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"ca_file": "{tmp}/nowhere.pem"})},
        "`ca_file` names {tmp}/nowhere.pem, which cannot be used: No such file",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"ca_file": "{tmp}/empty.pem"})},
        "`ca_file` names {tmp}/empty.pem, which cannot be used: it holds no PEM",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"proxy": f"ftp://u:{SECRET}@proxy"})},
        "`proxy` must be an address that begins with",
    ),
    (
        {"alerts": alerting(kafka={"topic": "t", "properties": {"security.protocol": "TLS"}})},
        "not 'TLS': did you mean SSL?",
    ),
    (
        {"alerts": alerting(kafka={"topic": "t", "properties": {"bootstrap.servers": "a"}})},
        "`bootstrap.servers` has the entry 'a', which has no port",
    ),
    ({"kafka": {"bootstrap_servers": "a..b:9092"}}, "has the entry 'a..b:9092', which is not `host:port`"),
    ({"kafka": {"bootstrap_servers": "<broker>:9092"}}, "has the entry '<broker>:9092', which is not"),
    ({"kafka": {"request.timeout.ms": 99999999999999}}, "must be a whole number up to 2147483647"),
    ({"kafka": {"fetch.max.bytes": "50MB"}}, "`fetch.max.bytes` must be a whole number, not '50MB'"),
    ({"kafka": {"max.poll.records": "0"}}, "may not be set: use `source.max_poll_records`"),
    (
        kafka(
            sasl__mechanism="GSSAPI",
            sasl__jaas__config="com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            'keyTab="{tmp}/nowhere" principal="monitor";',
            sasl__kerberos__service__name="kafka",
        ),
        "`keyTab` in `kafka: sasl.jaas.config` names {tmp}/nowhere, which cannot be read",
    ),
    (
        {"source": {"topic": "consumer offsets"}},
        "must be a topic's name, up to 249 letters, digits, dots, dashes and underscores",
    ),
    ({"storage": {"path": "s3://"}}, "names no place: write a path, or a URI such as s3://bucket/monitor"),
    ({"storage": {"path": f"s3:u:{SECRET}@monitor"}}, "names no place: write a path, or a URI"),
    ({"storage": {"path": "{tmp}/key.pem/monitor"}}, "leads to {tmp}/key.pem, which is no folder"),
    (
        {"spark": {"spark.master": "yarn cluster"}},
        "spark.master must be local[n], yarn, k8s://… or spark://…",
    ),
    ({"spark": {"spark.driver.memory": "2 GB"}}, "spark.driver.memory must be a size such as 2g or 512m"),
    (
        {"alerts": alerting(webhook={"url": f"https://hooks example/{SECRET}"})},
        "`url` must name a host, and a port only from 1 to 65535, without blanks",
    ),
    (
        {"alerts": alerting(alertmanager={"urls": ["http://alertmanager:port"]})},
        "`urls` must name a host, and a port only from 1 to 65535",
    ),
    (
        {"alerts": alerting(kafka={"topic": "__consumer_offsets"})},
        "must be a topic of its own: brokers alone write __consumer_offsets",
    ),
    ({"alerts": alerting(kafka={"topic": "alerts/prod"})}, "must be a topic's name"),
    (
        {"kafka": {"securty.protocol": "SSL"}},
        "`securty.protocol` is unknown; did you mean `security.protocol`?",
    ),
    ({"kafka": {"Security.Protocol": "SSL"}}, "did you mean `security.protocol`?"),
    (
        kafka(ssl__key__password="a\0b"),  # noqa: S106 - refused
        "`ssl.key.password` holds the character NUL: write it as text in UTF-8",
    ),
    ({"storage": {"path": "a\0b"}}, "must be a path or URI of up to 1024 printable characters"),
    ({"spark": {"spark.master ": "local[2]"}}, "its name must begin with `spark.` and have no blanks"),
    ({"trigger": "٣s"}, "`trigger` in the file {tmp}/c.yaml: '٣s' is no duration"),
    ({"kafka": {"bootstrap_servers": "[:::::]:9092"}}, "write an IPv6 address as [::1]:9092"),
    ({"kafka": {"bootstrap_servers": "10.0.0.256:9092"}}, "has the entry '10.0.0.256:9092', which is not"),
    ({"kafka": {"bootstrap_servers": "9092"}}, "which is a port alone: write host:port"),
    ({"kafka": {"security": {"protocol": "SSL"}}}, "write its whole name, as `security.protocol: …`"),
    (
        {"cluster_name": "prod\x1b[31m"},
        "`cluster_name` holds the character U+001B: write one",
    ),
    ({"web": {"host": "http://localhost"}}, "must be a host's name or address, without scheme, port and"),
    (
        {"web": {"token": f"{SECRET}{SECRET}é"}},
        "`token` must be letters, digits and signs of ASCII, without blanks around",
    ),
    ({"web": {"proxies": ["10.0.0.1/8"]}}, "must be addresses or networks, as 10.0.0.0/8, not '10.0.0.1/8'"),
    (
        {"alerts": alerting(webhook=HOOK | {"authorization": f"Bearer {SECRET}\nX: y"})},
        "`authorization` holds a line break",
    ),
    ({"alerts": alerting(webhook={"url": f"https://a..example/{SECRET}"})}, "`url` must name a host"),
    (
        {"alerts": alerting(alertmanager={"urls": ["http://alertmanager:9093/#/alerts"]})},
        "`urls` must be the address of the service alone, without `?` and `#`",
    ),
    (
        {"alerts": alerting(alertmanager={"urls": ["http://alertmanager:9093"], "password": SECRET})},
        "`username` is missing: the service would be asked without a login",
    ),
    (
        {"alerts": alerting(email={"to": ["a@b.example"], "sender": "m@b.example", "host": "smtp://mail"})},
        "must be a host's name or address, without scheme, port and brackets",
    ),
    (
        {"alerts": alerting(kafka={"topic": "t", "proxy": f"http://u:{SECRET}@proxy:1"})},
        "`proxy` has no effect here: brokers are reached without a proxy",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"timeout": "1h"})},
        "must be at most 10m: other alerts",
    ),
    ({"source": {"skip": {3: 2**63}}}, "`skip` names a partition or an offset that no topic has"),
    ({"storage": {"path": "${DATA}/monitor"}}, "holds a `$`, which nobody fills in: write the whole path"),
    ({"storage": {"path": " /data"}}, "begins or ends with a blank: leave it out"),
    ({"web": {"url": "monitor.example"}}, "`web.url` in the file {tmp}/c.yaml: does not fit: Address under"),
    (
        {"kafka": {"spring.kafka.properties.security.protocol": "SASL_SSL"}},
        "`spring.kafka.properties.security.protocol` is unknown; did you mean `security.protocol`?",
    ),
    (
        {"kafka": {"security": "", "protocol": "SSL"}},
        "`security` is unknown; did you mean `security.protocol`",
    ),
    (
        {"kafka": {"<properties><entry": f"key='sasl.password'>{SECRET}</entry>"}},
        "a property's name has characters that none has: write `name=value` lines",
    ),
]
