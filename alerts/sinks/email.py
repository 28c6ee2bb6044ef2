"""Mail by SMTP: HTML and text, one conversation per thread.

The subject is the title, the headers of all mails of a thread refer to one made-up message id, so that mail
programs show them together. A mail's own id comes from its key: many servers and programs drop a second mail
with the same id, but none promises to.
"""

from __future__ import annotations

import smtplib
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import structlog

from rebalance_monitor.alerts.messages.blocks import Tone
from rebalance_monitor.alerts.messages.notification import Phase, Sent, SinkError
from rebalance_monitor.alerts.render import html, plain
from rebalance_monitor.alerts.sinks.deadline import Deadline, deadline
from rebalance_monitor.alerts.sinks.http import Net, unreached
from rebalance_monitor.alerts.sinks.quiet import short

if TYPE_CHECKING:
    from io import BufferedReader
    from socket import socket

    from pydantic import SecretStr

    from rebalance_monitor.alerts.messages.notification import Notification

log = structlog.get_logger()
MAX_ANSWERS = 256 * 1024
"""Bytes of all that a mail server says in one connection, before TLS and again after it."""


class Security(StrEnum):
    """How the connection is protected: STARTTLS is demanded, not merely offered."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Server:
    """The mail server. User and password are sent over TLS only."""

    host: str
    port: int = 587
    security: Security = Security.STARTTLS
    user: str | None = None
    password: SecretStr | None = None


class EmailSink:
    """Mails to `recipients`; ValueError for addresses with line breaks or a password without TLS."""

    kind = "email"
    resend_ms = None

    def __init__(
        self,
        name: str,
        server: Server,
        sender: str,
        recipients: tuple[str, ...],
        *,
        net: Net | None = None,
    ) -> None:
        if any("\n" in address or "\r" in address or "@" not in address for address in (sender, *recipients)):
            raise ValueError("an email address of the receiver is not valid")
        if server.password is not None and server.security is Security.NONE:
            raise ValueError("a password goes to the mail server only over tls or starttls")
        self.name = name
        self._server = server
        self._sender = sender
        self._recipients = recipients
        self._net = Net() if net is None else net

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Send one mail over a connection of its own."""
        mail = mail_of(notification, self._sender, self._recipients, now_ms)
        try:
            with deadline(self._net.timeout_s) as whole:
                return self._mailed(mail, whole)
        except smtplib.SMTPException as error:
            raise _refused(error) from None
        except (OSError, ValueError) as error:
            raise unreached("the mail server", error) from None

    def _mailed(self, mail: EmailMessage, whole: Deadline) -> Sent:
        server = self._connected(whole)
        try:
            refused = server.send_message(mail, self._sender, list(self._recipients))
        except BaseException:
            server.close()
            raise
        if refused:
            # The others have it: to fail would mail them again and again.
            codes = {address: code for address, (code, _) in refused.items()}
            log.warning("the mail server refused some recipients", receiver=self.name, refused=codes)
        _leave(server)
        return Sent()

    def close(self) -> None:
        """Nothing is kept open between mails."""

    def _connected(self, whole: Deadline) -> smtplib.SMTP:
        where, net = self._server, self._net
        if where.security is Security.TLS:
            server: smtplib.SMTP = _Tls(
                whole, where.host, where.port, timeout=net.timeout_s, context=net.tls()
            )
        else:
            server = _Plain(whole, where.host, where.port, timeout=net.timeout_s)
        try:
            if where.security is Security.STARTTLS:
                server.starttls(context=net.tls())
            if where.user and where.password is not None:
                server.login(where.user, where.password.get_secret_value())
        except BaseException:
            server.close()
            raise
        return server


class _Watched(smtplib.SMTP):
    """A connection that a deadline ends, from before its greeting or handshake on, with bounded answers."""

    whole: Deadline

    def _get_socket(self, host: str, port: int, timeout: float) -> socket:
        found: socket = super()._get_socket(host, port, timeout)  # type: ignore[misc] # not in the stubs
        self.whole.watch(found)
        return found

    def getreply(self) -> tuple[int, bytes]:
        """Return an answer; its lines are read from a file that ends after `MAX_ANSWERS` bytes."""
        if self.file is None and self.sock is not None:
            self.file = _Bounded(self.sock.makefile("rb"))
        return super().getreply()


class _Plain(_Watched):
    def __init__(self, whole: Deadline, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as smtplib has it
        self.whole = whole
        super().__init__(*given, **named)


class _Tls(smtplib.SMTP_SSL, _Watched):
    def __init__(self, whole: Deadline, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as smtplib has it
        self.whole = whole
        super().__init__(*given, **named)


class _Bounded:
    """The lines of a mail server, up to `MAX_ANSWERS` bytes; OSError for one that says more."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._left = MAX_ANSWERS

    def readline(self, limit: int) -> bytes:
        """Return the next line, at most `limit` bytes of it."""
        line = self._file.readline(limit)
        self._left -= len(line)
        if self._left < 0:
            raise OSError("the mail server's answer is too long")
        return line

    def close(self) -> None:
        """Close it."""
        self._file.close()


def mail_of(
    notification: Notification, sender: str, recipients: tuple[str, ...], now_ms: int
) -> EmailMessage:
    """Return the mail of a notification; `Date` is `now_ms`."""
    domain = sender.rpartition("@")[2].rstrip(">")
    root = f"<{short(notification.thread)}@{domain}>"
    mail = EmailMessage()
    mail["Subject"] = _subject(notification)
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Date"] = formatdate(now_ms / 1000)
    mail["Message-ID"] = f"<{short(notification.key)}@{domain}>"
    mail["In-Reply-To"] = root
    mail["References"] = root
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Rebalance-Monitor-Key"] = short(notification.key)
    mail.set_content(plain.render(notification.message))
    page = f'<!doctype html><html><body style="font-family:sans-serif">{html.render(notification.message)}'
    mail.add_alternative(page + "</body></html>", subtype="html")
    return mail


def _subject(notification: Notification) -> str:
    """Return the title as letters: `=?utf-8?q?=0D=0A?=` in a name would be decoded and end the header."""
    before = "" if notification.phase is Phase.OPENED else "Re: "
    if notification.message.tone is Tone.RESOLVED:
        before = "RESOLVED "
    return before + notification.message.title.replace("=?", "= ?")


def _leave(server: smtplib.SMTP) -> None:
    """Send QUIT; the mail is accepted, so the server's answer does not matter."""
    with suppress(smtplib.SMTPException, OSError):
        server.quit()
    server.close()


# smtplib's own words, with the code of a refusal, for more than it reads of a line.
TOO_LONG = "Line too long."
BROKEN_OFF = (
    "the mail server broke off the connection, or is none: is it the right port, and is `security` right?"
)


def _refused(error: smtplib.SMTPException) -> SinkError:
    """Return the error by its SMTP code; 5xx is permanent. The server's words may hold names: left out."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = {code for code, _ in error.recipients.values()}
        why = f"the mail server refused every recipient: {min(codes, default=0)}"
        return SinkError(why, permanent=all(code >= 500 for code in codes))  # noqa: PLR2004 - SMTP's permanent
    if isinstance(error, smtplib.SMTPResponseException) and error.smtp_error == TOO_LONG:
        return SinkError("what answers is no mail server: its line has no end")
    if isinstance(error, smtplib.SMTPResponseException):
        login = ": the username or the password is wrong"
        advice = login if isinstance(error, smtplib.SMTPAuthenticationError) else f" ({type(error).__name__})"
        why = f"the mail server answered {error.smtp_code}{advice}"
        return SinkError(why, permanent=error.smtp_code >= 500)  # noqa: PLR2004 - SMTP's permanent
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return SinkError(BROKEN_OFF)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        # smtplib's own words, which name the extension and nothing else.
        return SinkError(f"the mail server lacks what is asked of it: {error}", permanent=True)
    return SinkError(f"the mail server failed: {type(error).__name__}")
