"""Mail against aiosmtpd: TLS and passwords, threads, refusals, and names that would like to be headers."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
from contextlib import contextmanager
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.sinks.email import EmailSink, Security, Server
from rebalance_monitor.alerts.sinks.http import Net
from rebalance_monitor.lab.cluster.node import free_ports
from tests.alerts.sinks.contract import RemoteContract, Trouble
from tests.alerts.sinks.notes import HOSTILE, NOW, note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

PASSWORD = "a-mail-password"  # noqa: S105 - opens nothing but the server of these tests
TO = ("oncall@example.org", "team@example.org")
FROM = "Rebalance Monitor <monitor@example.org>"


class Mailbox:
    """Keeps what it gets; `says` holds replies to the next DATA commands."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.says: list[str] = []
        self.refuses_recipients = ""
        self.refuses_one = ""
        self.parting = ""

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd calls
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        if self.refuses_recipients or address == self.refuses_one:
            return self.refuses_recipients or "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_QUIT(self, _: SMTP, __: Session, ___: Envelope) -> str:  # noqa: N802 - as above
        return self.parting or "221 bye"

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802 - as above
        if self.says:
            return self.says.pop(0)
        assert isinstance(envelope.content, bytes)
        self.mails.append(envelope.content)
        return "250 OK"

    def read(self) -> list[EmailMessage]:
        return [message_from_bytes(mail, policy=policy.default) for mail in self.mails]


class MailHarness:
    secrets = (PASSWORD,)
    troubles = (Trouble.RETRYABLE, Trouble.PERMANENT, Trouble.SILENCE)

    def __init__(self, mailbox: Mailbox, sink: EmailSink) -> None:
        self.mailbox, self.sink = mailbox, sink

    def received(self) -> list[str]:
        return [f"{mail['Subject']}\n{_text(mail)}\n{_html(mail)}" for mail in self.mailbox.read()]

    def goes_wrong(self, trouble: Trouble) -> None:
        if trouble is Trouble.SILENCE:
            self.mailbox.says.append("421 shutting down")
        elif trouble is Trouble.RETRYABLE:
            self.mailbox.says.append("451 try again later")
        else:
            self.mailbox.says.append(f"554 no, and your password is {PASSWORD}")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=IP:127.0.0.1"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem"]
    made = ["-x509", "-out", "cert.pem", "-days", "2", "-subj", "/CN=loopback", "-addext", names]
    subprocess.run(["openssl", "req", *key, *made], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    # The server's own log is not the monitor's.
    monkeypatch.setattr(logging.getLogger("mail.log"), "disabled", True)
    return Mailbox()


@pytest.fixture
def served(mailbox: Mailbox, certificate: Path) -> Iterator[Controller]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with _running(mailbox, tls_context=context, authenticator=_authenticate, auth_required=True) as server:
        yield server


@pytest.fixture
def sink(served: Controller, certificate: Path) -> EmailSink:
    return _sink(served, Security.STARTTLS, str(certificate / "cert.pem"))


class TestEmail(RemoteContract):
    @pytest.fixture
    def harness(self, mailbox: Mailbox, sink: EmailSink) -> MailHarness:
        return MailHarness(mailbox, sink)


def test_a_mail_has_both_forms_and_belongs_to_its_thread(mailbox: Mailbox, sink: EmailSink) -> None:
    for phase in (Phase.OPENED, Phase.RESOLVED, Phase.RESOLVED):
        sink.send(note(phase), NOW)
    opened, resolved, again = mailbox.read()
    assert opened["Subject"] == "[prod] orders is in a rebalance storm"
    assert resolved["Subject"] == "RESOLVED [prod] orders rebalance storm is over"
    assert opened["References"] == resolved["References"]
    assert resolved["Message-ID"] == again["Message-ID"] != opened["Message-ID"]
    assert opened["Auto-Submitted"] == "auto-generated"
    assert (opened["From"], opened["To"]) == (FROM, ", ".join(TO))
    assert "https://runbooks.example/page#storm" in _text(opened)
    assert 'href="https://runbooks.example/page#storm"' in _html(opened)


def test_a_hostile_group_cannot_add_headers_recipients_or_markup(mailbox: Mailbox, sink: EmailSink) -> None:
    evil = "x\r\nBcc: evil@example.org\r\n\r\n<script>alert(1)</script>" + HOSTILE
    sink.send(note(group=evil), NOW)
    (mail,) = mailbox.read()
    assert mail["Bcc"] is None
    assert "<script>" not in _html(mail)
    assert "\\x0d\\x0aBcc" in str(mail["Subject"])


def test_a_wrong_password_is_permanent_and_not_shown(served: Controller, certificate: Path) -> None:
    sink = _sink(served, Security.STARTTLS, str(certificate / "cert.pem"), "wrong-password")
    with pytest.raises(SinkError, match="535") as raised:
        sink.send(note(), NOW)
    assert raised.value.permanent
    assert "wrong-password" not in str(raised.value)


def test_an_unknown_certificate_keeps_the_password_at_home(served: Controller, mailbox: Mailbox) -> None:
    with pytest.raises(SinkError, match="set `ca_file`"):
        _sink(served, Security.STARTTLS, None).send(note(), NOW)
    assert mailbox.mails == []


def test_a_server_without_starttls_gets_neither_password_nor_mail(mailbox: Mailbox) -> None:
    with _running(mailbox) as plain, pytest.raises(SinkError) as raised:
        _sink(plain, Security.STARTTLS, None).send(note(), NOW)
    assert raised.value.permanent
    assert mailbox.mails == []


def test_tls_from_the_first_byte(mailbox: Mailbox, certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with _running(mailbox, ssl_context=context) as server:
        where = Server("127.0.0.1", server.port, Security.TLS)
        net = Net(timeout_s=5, ca_file=str(certificate / "cert.pem"))
        EmailSink("mail", where, FROM, TO, net=net).send(note(), NOW)
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize(("said", "permanent"), [("550 no such user", True), ("450 busy", False)])
def test_refused_recipients_are_distinguished(
    mailbox: Mailbox, sink: EmailSink, said: str, *, permanent: bool
) -> None:
    mailbox.refuses_recipients = said
    with pytest.raises(SinkError, match=said[:3]) as raised:
        sink.send(note(), NOW)
    assert raised.value.permanent is permanent


def test_a_recipient_that_is_refused_is_said_and_keeps_the_mail_from_nobody(
    mailbox: Mailbox, sink: EmailSink, capfd: pytest.CaptureFixture[str]
) -> None:
    mailbox.refuses_one = TO[0]
    sink.send(note(), NOW)
    assert len(mailbox.mails) == 1
    said = "".join(capfd.readouterr())
    assert TO[0] in said
    assert "550" in said


def test_a_mail_that_was_taken_counts_as_sent_whatever_the_server_says_at_parting(
    mailbox: Mailbox, sink: EmailSink
) -> None:
    mailbox.parting = "421 too many"
    sink.send(note(), NOW)
    assert len(mailbox.mails) == 1


def test_a_server_that_is_not_there_is_retryable() -> None:
    server = Server("127.0.0.1", 1, Security.NONE)
    with pytest.raises(SinkError, match="cannot be reached") as raised:
        EmailSink("mail", server, FROM, TO, net=Net(timeout_s=1)).send(note(), NOW)
    assert not raised.value.permanent


def test_an_encoded_word_in_a_name_stays_letters_and_adds_neither_headers_nor_a_body(
    mailbox: Mailbox, sink: EmailSink
) -> None:
    # What it says in quoted-printable: two line ends, and words that would be the whole mail.
    sink.send(note(group="=?utf-8?q?=0D=0AX-Mine:_1=0D=0A=0D=0AAll_is_well?="), NOW)
    (mail,) = mailbox.read()
    assert "= ?utf-8?q?=0D=0AX-Mine:_1=0D=0A=0D=0AAll_is_well?=" in mail["Subject"]
    assert mail["X-Mine"] is None
    assert "storm" in _text(mail)


def test_a_password_without_tls_and_a_broken_address_are_refused() -> None:
    open_door = Server("127.0.0.1", 25, Security.NONE, "user", SecretStr(PASSWORD))
    with pytest.raises(ValueError, match="only over tls"):
        EmailSink("mail", open_door, FROM, TO)
    with pytest.raises(ValueError, match="is not valid"):
        EmailSink("mail", Server("127.0.0.1"), FROM, ("x@example.org\nBcc: y@example.org",))


@contextmanager
def _running(mailbox: Mailbox, **options: Any) -> Iterator[Controller]:  # noqa: ANN401 - aiosmtpd's options
    server = Controller(mailbox, hostname="127.0.0.1", port=free_ports(1)[0], **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _sink(server: Controller, security: Security, roots: str | None, password: str = PASSWORD) -> EmailSink:
    where = Server("127.0.0.1", server.port, security, "monitor", SecretStr(password))
    return EmailSink("mail", where, FROM, TO, net=Net(timeout_s=5, ca_file=roots))


def _authenticate(_: SMTP, __: Session, ___: Envelope, ____: str, given: LoginPassword) -> AuthResult:
    return AuthResult(success=given.password == PASSWORD.encode(), handled=False)


def _text(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def _html(mail: EmailMessage) -> str:
    part = mail.get_body(("html",))
    assert part is not None
    return str(part.get_content())
