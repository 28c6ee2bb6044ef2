"""Where the live page, its API and the metrics are served, and who may read them.

On a loopback address everybody on the machine may look. Anything wider needs a bearer token, or a proxy in
front that signs people in and names them in a header; without either it is refused, by name.
"""

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from rebalance_monitor.config.detection import Section
from rebalance_monitor.config.hosts import Host
from rebalance_monitor.config.secrets import read_secret
from rebalance_monitor.config.texts import NO_HEADER, fits_header

MIN_TOKEN = 16
"""Characters that a token has at least."""


class Web(Section):
    """The live page, its API and the metrics."""

    enabled: bool = Field(
        default=True,
        description="Serve them; a port that is taken is warned of and does not stop the monitor.",
    )
    host: Host = Field(
        default="127.0.0.1",
        description="Address to listen on; beyond loopback it needs `token`, `token_file` or `proxies`.",
    )
    port: int = Field(default=8377, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    token: SecretStr | None = Field(
        default=None, description="Bearer token that every reader must send; at least 16 characters."
    )
    token_file: Path | None = Field(default=None, description="File that holds the token.")
    proxy_header: str = Field(
        default="X-Forwarded-User",
        pattern=r"^[A-Za-z0-9-]+$",
        description="Header in which a proxy in front names the person it has signed in.",
    )
    proxies: tuple[str, ...] = Field(
        default=(), description="Addresses or networks of proxies whose header is believed."
    )
    url: str = Field(
        default="",
        pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?$",
        description="Address under which people open the page; links in alerts start with it. Empty: `host` "
        "and `port`, where `host` is one that other machines reach.",
    )

    @field_validator("proxies")
    @classmethod
    def _networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError:
                # Also for a network with bits behind its mask.
                raise ValueError(f"must be addresses or networks, as 10.0.0.0/8, not {proxy!r}") from None
        return proxies

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.token is not None and self.token_file is not None:
            raise ValueError("`token` and `token_file` are given; keep one")
        if self.token is not None:
            _require_token(self.token.get_secret_value(), "`token`")
        if not (self.is_loopback or self.has_token or self.proxies):
            raise ValueError(
                f"`host` {self.host} can be reached from other machines: set `token_file` (or `token`), "
                "or name in `proxies` the proxy that signs people in, or listen on 127.0.0.1"
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach `host`."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def address(self) -> str:
        """Where other machines open the page, without a slash at the end; "" where that is not known."""
        if self.url or not self.enabled:
            return self.url.rstrip("/") if self.enabled else ""
        if self.is_loopback or self.is_everywhere or not self.port or self.proxies:
            return ""
        return self.origin

    @property
    def origin(self) -> str:
        """What is listened on, as an address."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_everywhere(self) -> bool:
        """Whether `host` stands for every address of this machine, and so says none."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def has_token(self) -> bool:
        """Whether readers must send a token."""
        return self.token is not None or self.token_file is not None

    def secret(self) -> str | None:
        """Return the token, None without one. Raises ValueError for a file unreadable or too short."""
        if self.token_file is None:
            return None if self.token is None else self.token.get_secret_value()
        token = read_secret("web.token", self.token_file).get_secret_value()
        _require_token(token, f"`web.token_file` names {self.token_file}, whose text")
        return token


def _require_token(token: str, what: str) -> None:
    """Raise ValueError for a token that is too short, or that no header carries."""
    if len(token) < MIN_TOKEN:
        raise ValueError(f"{what} must have at least {MIN_TOKEN} characters")
    if not fits_header(token):
        raise ValueError(f"{what} {NO_HEADER}")
