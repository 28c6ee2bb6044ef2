"""Client families in the simulator: the default behaviour of each library.

Sources: the clients' code (facts of `docs/detection.md`) and recordings of real ones. Where an application
decides (poll gap, commit by hand) the plan says so, not the family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_monitor.lab.simulator.plans.plan import Mode

_BY_HAND = (Mode.PER_POLL, Mode.PER_RECORD, Mode.OWN_TIMER)


@dataclass(frozen=True, slots=True)
class Family:
    """Behaviour of one client library.

    `auto`: its automatic commit, if it has one. `commits_idle`: which repeats unchanged offsets.
    `enforces_poll`: leaves when the application stops polling; it checks every `poll_check` ms, or with its
    heartbeats (`poll_at_beat`). `beats_in_poll`: heartbeats come from the processing loop: a stall ends them.
    `goodbye`: sends LeaveGroup on close. `beat_lag` and `beat_drift`: a heartbeat is sent at most so much
    after it is due (ms, and a share of the interval: libraries that check in a loop whether it is due
    are late in proportion), and the next one is due an interval later. `timer_with_generation`: the commit
    timer starts anew with each generation. `rejoins_after_load`: share of members that rejoin after their
    coordinator's reload.
    `commit_lag`: a commit that is due while the library waits in poll, or that a timer makes, is sent at most
    so late (ms).
    `early_beat`: so long (ms) after its assignment it sends one more heartbeat (0: none).
    `refused_ms`: so long after a refused SyncGroup it joins again.
    `fetches_first`: so many fetches are answered before its heartbeat, or before it rejoins.
    `ends_fetch`: it closes when its fetch has been answered, and does not rejoin meanwhile.
    `keeps_id`: makes its member id itself, for the life of the process, and says goodbye (-2) as a static
    member too. `leaves_after_stall`: at a breach it falls silent, and leaves when the stall ends.
    `assign_ms`: median time that a leader takes to assign: as a rule, and the first time.
    `close_lag`: median time (ms) from its final commit to its LeaveGroup, and its spread (of the logarithm).
    """

    name: str
    auto: Mode | None
    commits_idle: bool
    enforces_poll: bool
    poll_check: float = 100.0
    poll_at_beat: bool = False
    beats_in_poll: bool = False
    goodbye: bool = True
    beat_lag: float = 2.0
    beat_drift: float = 0.013
    early_beat: float = 0.0
    refused_ms: float = 0.0
    timer_with_generation: bool = True
    polls_to_rejoin: bool = True
    deaf_when_stalled: bool = False
    rejoins_after_load: float = 0.0
    commit_lag: float = 12.0
    close_lag: tuple[float, float] = (9.0, 0.8)
    assign_ms: tuple[float, float] = (6.0, 20.0)
    fetches_first: int = 0
    ends_fetch: bool = False
    keeps_id: bool = False
    leaves_after_stall: bool = False
    client_id: str = ""
    modes: tuple[Mode, ...] = _BY_HAND


_JAVA = Family(
    "java",
    Mode.IN_POLL,
    commits_idle=True,
    enforces_poll=True,
    assign_ms=(9.0, 60.0),
    client_id="consumer-{group}-{n}",
    modes=(*_BY_HAND, Mode.TRANSACTION),
)
_LIBRDKAFKA = Family(
    "librdkafka",
    Mode.BACKGROUND,
    commits_idle=False,
    enforces_poll=True,
    poll_check=500.0,
    beat_lag=3.0,
    beat_drift=0.008,
    close_lag=(5.0, 1.8),
    timer_with_generation=False,
    client_id="rdkafka",
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _JAVA,
        replace(_JAVA, name="java-cooperative"),
        Family(
            "kafka-python",
            Mode.IN_POLL,
            commits_idle=True,
            enforces_poll=True,
            poll_at_beat=True,
            beat_lag=10.0,
            beat_drift=0.0,
            commit_lag=30.0,
            close_lag=(22.0, 1.0),
            client_id="kafka-python-3.0.12",
        ),
        _LIBRDKAFKA,
        replace(_LIBRDKAFKA, name="librdkafka-cooperative"),
        Family(
            "aiokafka",
            Mode.BACKGROUND,
            commits_idle=True,
            enforces_poll=True,
            # It sleeps until the limit, or the next heartbeat if that is sooner.
            poll_check=15.0,
            beat_lag=3.0,
            beat_drift=0.008,
            close_lag=(4.0, 1.6),
            timer_with_generation=False,
            polls_to_rejoin=False,
            client_id="aiokafka-0.14.0",
        ),
        Family(
            "sarama",
            Mode.BACKGROUND,
            commits_idle=False,
            enforces_poll=False,
            beat_lag=10.0,
            polls_to_rejoin=False,
            deaf_when_stalled=True,
            rejoins_after_load=0.9,
            # Consumer.Group.Rebalance.Retry.Backoff.
            refused_ms=2_000.0,
            assign_ms=(5.0, 5.0),
            fetches_first=2,
            client_id="sarama",
        ),
        Family(
            "franz-go",
            Mode.BACKGROUND,
            commits_idle=False,
            enforces_poll=False,
            beat_lag=10.0,
            timer_with_generation=False,
            polls_to_rejoin=False,
            rejoins_after_load=0.9,
            # cooperativeFastCheck.
            early_beat=500.0,
            assign_ms=(4.0, 8.0),
            client_id="kgo",
        ),
        Family(
            "kafka-go",
            None,
            commits_idle=False,
            enforces_poll=False,
            beat_lag=10.0,
            polls_to_rejoin=False,
            ends_fetch=True,
            client_id="app@{host} (github.com/segmentio/kafka-go)",
        ),
        Family(
            "kafkajs",
            Mode.PER_POLL,
            commits_idle=False,
            enforces_poll=False,
            beats_in_poll=True,
            beat_lag=300.0,
            fetches_first=1,
            client_id="kafkajs",
        ),
        Family(
            "streams",
            Mode.OWN_TIMER,
            commits_idle=False,
            enforces_poll=True,
            goodbye=False,
            client_id="{group}-{n}-StreamThread-1-consumer",
            modes=(Mode.OWN_TIMER, Mode.TRANSACTION),
        ),
        Family(
            "connect",
            Mode.NEVER,
            commits_idle=False,
            enforces_poll=True,
            client_id="connect-{host}",
            modes=(Mode.NEVER,),
        ),
        Family(
            "java-848",
            Mode.IN_POLL,
            commits_idle=True,
            enforces_poll=True,
            beat_lag=10.0,
            keeps_id=True,
            client_id="consumer-{group}-{n}",
        ),
        replace(_LIBRDKAFKA, name="librdkafka-848", keeps_id=True, leaves_after_stall=True),
    )
}
"""name -> behaviour."""
