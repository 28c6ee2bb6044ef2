"""A webhook of your own: a JSON payload, or what a Jinja2 template makes of it, signed if you wish.

Signature and headers follow Standard Webhooks 1.0: `webhook-id` (of the notification's key, the same for
every attempt), `webhook-timestamp` (seconds) and `webhook-signature` (`v1,` and the base64 of an HMAC-SHA256
over `id.timestamp.body`). The template runs in Jinja2's sandbox and has access to the payload's keys only.
Any client of Kafka chooses the names in it, so JSON templates pipe values through `tojson`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from hashlib import sha256
from typing import TYPE_CHECKING

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rebalance_monitor.alerts.messages.notification import Sent, SinkError
from rebalance_monitor.alerts.render.markdown import escape
from rebalance_monitor.alerts.sinks.http import Net, Poster
from rebalance_monitor.alerts.sinks.payload import payload_of
from rebalance_monitor.alerts.sinks.quiet import short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Template
    from pydantic import SecretStr

    from rebalance_monitor.alerts.messages.notification import Notification
    from rebalance_monitor.alerts.sinks.payload import Json

MAX_BODY = 512_000
JSON_TYPE = "application/json"


class WebhookSink:
    """Posts to one address. ValueError for a template that is not one, or a secret that is not base64.

    `path`: a template of what is appended to the address. `secret`: any text, or `whsec_` and base64 as the
    standard has it. `headers` are sent as they are.
    """

    kind = "webhook"
    resend_ms = None

    def __init__(
        self,
        name: str,
        url: SecretStr,
        *,
        template: str | None = None,
        path: str = "",
        content_type: str = JSON_TYPE,
        secret: SecretStr | None = None,
        headers: Mapping[str, SecretStr] | None = None,
        net: Net | None = None,
    ) -> None:
        self.name = name
        self._url = url
        self._template = None if template is None else compiled(template)
        self._path = compiled(path)
        self._type = content_type
        self._secret = None if secret is None else _key(secret)
        self._headers = dict(headers or {})
        self._poster = Poster("the webhook", Net() if net is None else net)

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Post one notification."""
        payload = payload_of(notification, now_ms)
        body = self.body(payload)
        headers = {name: value.get_secret_value() for name, value in self._headers.items()}
        headers |= {"Content-Type": self._type, "webhook-id": short(notification.key)}
        headers["webhook-timestamp"] = str(now_ms // 1000)
        if self._secret is not None:
            headers["webhook-signature"] = signature(
                self._secret, headers["webhook-id"], now_ms // 1000, body
            )
        url = self._url.get_secret_value() + _rendered(self._path, payload)
        self._poster.post(url, body, headers, now_ms, takes_pages=True)
        return Sent()

    def close(self) -> None:
        """Let the connections go."""
        self._poster.close()

    def body(self, payload: Json) -> bytes:
        """Return what is posted for a payload; permanent SinkError where the template cannot make it."""
        if self._template is None:
            return json.dumps(payload).encode()
        made = _rendered(self._template, payload).encode(errors="backslashreplace")
        if len(made) > MAX_BODY:
            raise SinkError(f"the template made {len(made):,} bytes, limit {MAX_BODY:,}", permanent=True)
        if self._type == JSON_TYPE:
            _check_json(made)
        return made


def compiled(template: str) -> Template:
    """Return a template of the sandbox; ValueError says what is wrong and in which line."""
    sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    sandbox.filters |= {"markdown": escape, "short": short}
    try:
        return sandbox.from_string(template)
    except TemplateError as error:
        line = getattr(error, "lineno", "?")
        raise ValueError(f"the webhook's template is wrong in line {line}: {error}") from None


def signature(secret: bytes, key: str, seconds: int, body: bytes) -> str:
    """Return the `webhook-signature` header of Standard Webhooks."""
    digest = hmac.digest(secret, f"{key}.{seconds}.".encode() + body, sha256)
    return "v1," + base64.b64encode(digest).decode()


def _key(secret: SecretStr) -> bytes:
    text = secret.get_secret_value()
    if not text.startswith("whsec_"):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("a webhook secret that starts with whsec_ must continue in base64") from None


def _rendered(template: Template, payload: Json) -> str:
    try:
        return template.render(payload)
    except Exception as error:  # noqa: BLE001 - a template may fail in any way
        raise SinkError(f"the webhook's template failed: {type(error).__name__}", permanent=True) from None


def _check_json(body: bytes) -> None:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        why = "the webhook's template did not produce JSON: pipe every value through tojson"
        raise SinkError(why, permanent=True) from None
