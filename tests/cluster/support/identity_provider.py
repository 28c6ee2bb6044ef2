"""An OpenID provider on loopback for client credentials: real tokens, signed (RS256) and soon expired.

`POST /token` (RFC 6749, 4.4) and `GET /jwks` (RFC 7517). What is wrong with it is set while it runs.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

if TYPE_CHECKING:
    from pathlib import Path

CLIENT, SECRET = "monitor", "s3cret-of-oidc"
AUDIENCE, SCOPE = "kafka", "offsets"


class IdentityProvider:
    """life_s: for how long a token holds. clock_s: how far its clock is ahead. answers: else HTTP 503.

    certificate: with its key in a PEM file, for TLS. signer: the key that signs, that of `/jwks` unless it is
    set to another.
    """

    def __init__(self, life_s: int = 300, certificate: Path | None = None) -> None:
        self.life_s, self.clock_s, self.answers = life_s, 0, True
        self.issued: list[str] = []
        self._key = self.signer = new_key()
        self._server, self._scheme = ThreadingHTTPServer(("127.0.0.1", 0), self._handler()), "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def login(self, secret: str = SECRET) -> dict[str, str]:
        """Java's properties of the monitor's login."""
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        credentials = f'clientId="{CLIENT}" clientSecret="{secret}" scope="{SCOPE}"'
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{module} required {credentials};",
            "sasl.login.callback.handler.class": handler,
            "sasl.oauthbearer.token.endpoint.url": f"{self.url}/token",
        }

    def answer(self, login: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if not self.answers:
            return 503, {"error": "temporarily_unavailable"}
        if login != f"Basic {wanted}":
            return 401, {"error": "invalid_client", "error_description": "Client authentication failed."}
        if form.get("grant_type") != ["client_credentials"] or form.get("scope") != [SCOPE]:
            return 400, {"error": "invalid_scope"}
        self.issued.append(self.token())
        return 200, {"access_token": self.issued[-1], "token_type": "Bearer", "expires_in": self.life_s}

    def keys(self) -> dict[str, Any]:
        public = self._key.public_key().public_numbers()
        names = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig"}
        return {"keys": [{**names, "n": _number(public.n), "e": _number(public.e)}]}

    def token(self) -> str:
        """Sign a token that holds from now on."""
        now = int(time.time()) + self.clock_s
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": CLIENT, "scope": SCOPE}
        claims |= {"iat": now, "exp": now + self.life_s}
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
        signature = self.signer.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self._send(*provider.answer(self.headers.get("Authorization", ""), form))

            def do_GET(self) -> None:
                self._send(200, provider.keys())

            def _send(self, status: int, answer: dict[str, Any]) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def new_key() -> rsa.RSAPrivateKey:
    """Make a key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))
