"""What a simulated client is called: its client id, its host, and the member ids that name it.

A coordinator appends a UUID to the client id, or to the instance id of a static member. KIP-848 clients draw
a UUID themselves and keep it for as long as their process lives (KIP-1082).
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.families import Family
    from rebalance_monitor.lab.simulator.plans.plan import ClientPlan


def identity(plan: ClientPlan, number: int, group: str, family: Family) -> tuple[str, str]:
    """Return client id and host of client `number` of a group."""
    host = plan.host or f"/10.{number // 250}.{number % 250}.{len(group)}"
    own = plan.client_id or family.client_id
    return own.format(group=group, n=number, host=host.lstrip("/")), host


def own_id(plan: ClientPlan, family: Family, rng: Random) -> str:
    """Draw the member id that a client keeps, "" where its coordinator makes one for each join."""
    if not family.keeps_id:
        return ""
    encode = urlsafe_b64encode if plan.family.startswith("java") else b64encode
    return encode(rng.randbytes(16)).decode().rstrip("=")


def given_id(name: str, rng: Random) -> str:
    """Make a member id as the coordinator does; `name`: the client id, or the instance id."""
    digits = f"{rng.getrandbits(128):032x}"
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return f"{name}-{uuid}"
