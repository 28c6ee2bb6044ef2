"""What the contract tests of HTTP sinks share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.sinks.http import Net
from tests.alerts.sinks.contract import Trouble
from tests.alerts.support.fakes import Answer, Fake, PagerDutyFake, json_answer

if TYPE_CHECKING:
    from rebalance_monitor.alerts.messages.notification import Sink

NET = Net(timeout_s=5)
SECRET = "a-signing-secret"  # noqa: S105 - signs nothing but these tests
TOKEN = "Bearer a-token-in-a-header"  # noqa: S105 - opens nothing
TROUBLES = {
    Trouble.RETRYABLE: Answer(503, b"over capacity"),
    Trouble.SILENCE: Answer(cut=True),
    Trouble.RATE_LIMIT: Answer(429, b"slow down", {"Retry-After": "7"}),
    Trouble.PERMANENT: json_answer(400, {"errors": [SECRET, TOKEN, PagerDutyFake.KEY]}),
}


class HttpHarness:
    def __init__(self, fake: Fake, sink: Sink, *secrets: str) -> None:
        self.fake, self.sink, self.secrets = fake, sink, secrets
        self.troubles = tuple(Trouble)

    def received(self) -> list[str]:
        return [json.dumps(json.loads(call.body), ensure_ascii=False) for call in self.fake.calls]

    def goes_wrong(self, trouble: Trouble) -> None:
        self.fake.script.append(TROUBLES[trouble])
