"""The prose of docs/detection.md; `reference.detection_markdown` puts the tables in."""

from rebalance_monitor.coordinator.detection_groups import MORE
from rebalance_monitor.coordinator.detection_probe import PROBE
from rebalance_monitor.coordinator.detection_storms import STORMS

PROSE = (
    """# Detection: every rule, its evidence and its limits

The tables on this page are generated (`make docs`); do not edit it.

## What the topic says, and what it never says

A classic group writes ONE record per completed rebalance, one when it becomes empty, and one when a
static member is replaced. Nothing is written when a rebalance starts, while the join barrier is held,
when a member joins, leaves or expires, and a commit names no member. So the monitor reads generations,
members, timeouts and assignments; derives failed generations and sync times; and only suspects why a
member went.

Never told from records alone: who triggered first inside one barrier; a client's reason; a crash from a
network partition or a long pause; a clean leave from an administrator's kick; anything about members
that came and went between two records; anything while a barrier is held, unless the probe looks.

## Every rule

<RULES>
## The state machine

<DIAGRAM>
<TRANSITIONS>
An event that is not in the table changes nothing and raises nothing: the record becomes a new baseline.
The state of an epoch-based group follows from its epochs, as the coordinator's API computes it; within one
write of the coordinator it may pass through an edge that nobody else sees.

## Rebalances

`rebalance` is a new generation with members. Its time is the record's; the end of the join phase is the
record's `currentStateTimestamp`; the difference is `sync_ms`, exact. The join phase began between the record
before (`started_at_min`; or as late as rebalance timeouts and failed generations allow) and its own end; the
probe narrows that: it began between the last look that did not see it and the first that did, and one that no
look saw lasted no longer than it is between two of them. So the group was without an assignment for `join_ms`
+ `sync_ms`, between its bounds. `stopped_ms` is what commits show of the members that stayed: eager ones
stop for the sync at least, and for as long as commits tell that the barrier was held; at most since the first
of those that stayed, and commit when idle or steadily, committed last, and not before the join phase can have
begun. Partitions of members that went stood still for longer, since these committed last: that is the
`silence_ms` of each member that left. Members of epoch-based groups do not stop together, so there it is all.

Beside what the following sections say: `member_joined` (0.95) is a member that the record before has not;
`protocol_changed` (0.9) another assignor; `offsets_reset` (0.7) a commit for the members' own topics while
the group had no members, told with its next start; `group_id_shared` (0.8) at least three commits in that
time for topics that members subscribe to neither before nor after: another application uses assign() with the
group id. Where a group's generations failed and its leader is gone, the finding says so.
The same generation written again is a static member's return (`static_member_replaced`), never a rebalance.
From the third time within 15 minutes on it is a warning: a process that crashes and comes back, or two with
one `group.instance.id`, which fence each other. Where its returns cause rebalances (another assignor was
chosen, or others came and went) those from the third on count towards a storm.

`rebalance_failed`: every completed join phase uses up a generation number, so a hole between two records that
were both read live counts rebalances that never produced an assignment. A hole that touches history, a
tombstone or a change of group type says nothing, nor does one in what was written while the monitor was away
for more than two minutes, if an offset is missing there: compaction may have been first (the one rule that
depends on when records were read). At a group's start holes are normal, and marked (`at_start`) up to three,
but not once more while it is empty. Nor do up to three count (as repeated, or towards a storm) where members
came and none went: each that comes before the others have synced makes theirs fail. Where the shard was read
from its beginning a group not known is a new one, so numbers missing before its first record failed at its
start: the Scala coordinator writes no other trace. After a failover an unsynced number is used again, and a
failure leaves no hole. A group whose record neared max.message.bytes likely could not store its assignment
(`assignment_not_stored`).

Java's members say with their subscription which generation they believe to be in. Where such a member rejoins
under its old id and without one, its coordinator no longer knew the generation that it had begun: it was
reloaded in the middle of a rebalance (`coordinator_moved`, 0.55).

## Why a member went

The measure is its silence: from its last commit on partitions assigned to it, to the end of the barrier
that dropped it. With S = session timeout, P = rebalance timeout (max.poll.interval for most clients), c
= its commit cadence, J = the survivors' wait until they rejoined:

- `session_timeout` predicts S to S + c + J;
- `poll_interval_exceeded` predicts P to P + c + J, for a static member P + S less a heartbeat;
- `member_left` predicts 0 to J, or 0 to c + J where the client does not commit on close;
- `join_deadline_missed` needs a barrier that was held for nearly the whole rebalance timeout, by the
  commits of those that stayed or by the probe's looks;
- `sync_deadline_missed`: it never committed, and went a rebalance timeout after the generation began. A
  member that crashed soon after joining may fit as well, and where both timeouts are equal each fits the
  other's window: it is named with confidence only where the session timeout does not fit. A member that
  never committed and went within 0.1 s of the end of the session that began by joining expired. Whoever
  worked in generations before, with a client that enforces max.poll.interval and so syncs within its poll,
  has stalled in its first batch rather than missed its sync: that is thirty times rarer.

Each window is a trapezoid, the sum of two uniform waits; its height at the measured silence is the
likelihood, the priors below weigh it, and the shares, to the power 1.3, are the confidences (squared
once more where one has two thirds of them: recorded runs proved these right nearly always). Between the
windows of a close S and P (6 s, 8 s) both get middling confidences. What narrows the windows:

- A session runs from its last commit, or from a heartbeat after that: in half of all losses, or more where
  commits are more frequent than heartbeats, it ends S after the last commit to the millisecond.
- Commits within transactions do not keep a session: it ends up to a heartbeat sooner after the last of them.
  No record says who commits so: that is given 3 %, and 80 % where Kafka Streams commits more than once a
  second. Where nothing else explains a silence no timeout is claimed above 0.55, but of Kafka Streams.
- Where a poll interval ends against the last commit depends on who commits. A timer within the poll (Java,
  kafka-python): up to c after P. librdkafka's own timer, and an application that commits what it has
  processed: up to c before P, for the last poll came before the last commit. Java and
  kafka-python that were not seen to commit when idle are taken to commit by hand with 0.3.
- J is measured. A client that rejoins within its poll commits nothing between the moment it heard of the
  rebalance and the barrier's end, so the first survivor's last commit is an upper bound of when the member
  went (so in 98 % of 900 recorded losses, cooperative or not), and no two survivors rejoined further apart
  than a heartbeat and a poll take. How long these take is in no record: between 0.5 s and a third of the
  session timeout, at most the default of 3 s, a short one likelier than a long one. Of clients with a longer
  heartbeat.interval.ms than that, expiries may be told as `unknown`. Where one of them was busy, and so
  rejoined later than that, the first one still came in time.
- Those that stayed may all have been busy: each committed, and then nothing for longer than its commits are
  apart where it polls all the time (1.25 times the shortest cadence of the group, 5 s at most, and 0.5 s;
  twice its own where it commits only what is new). Then the barrier may have begun at any time since the
  last of these commits, and a clean leave may fit where an expiry does. No cause reaches 0.6 then (0.55 at
  most) unless no other fits; the sentence says for how long they may have been busy. One that had been
  silent for longer than that had not left before. Where one of them was not busy J stays what it was; but
  where another one held the barrier until a session had ended, and a member that came or went as well may
  have begun it, no leave is claimed above 0.55 of one whose last commit was too early to be its closing.
- A barrier that stayed shut after all that stayed had rejoined (two at least, which commit when idle) waited
  for one of those that went, to its end: so that one had not left before. Of several the one whose silence
  fits that best is likeliest, and the rest of them are told as ever.
- A client that commits only what is new repeats itself where an answer is late. Such a repeat came after the
  last poll; it does not make its member one that commits when idle.
- A member whose client and host are back in the same barrier crashed and restarted rather than stalled.

What stays unsure: where P is less than S + c + one heartbeat the windows overlap, whatever is known; with
librdkafka's automatic commits, and an application that commits what it has processed, where it is less
than S + 2c. Confidences are those of clients that are not starved. An offset that the last commit moved by
less than usual might tell a stall from a kill, but of offsets only whether they moved is used.

<PRIORS>
Silence means most for members that were SEEN to commit unchanged offsets: twice at least and in one commit of
ten, or ten times, without those that end a generation (or whose family was seen to, by a member that is still
there; but not one that has committed ten times, never unchanged, and lived through a silence longer than its
session). For others it may only mean that there was nothing to commit: that is given a probability, 5 % for
a member with steady traffic of its own, 15 % where only its siblings had and went on, 40 % where it never
committed in the generation, and mixed into every explanation. A long silence that fits no window proves
nothing. Without any such traffic no timeout is claimed above one half, and no leave above 0.55 after a
session. Of one that never committed in its generation, in a group without traffic, only the time speaks: what
it does not rule out (leaving, expiry, a breach; a missed sync where it fits) shares 0.9 evenly, `unknown` has
the rest. Gone before its session or its poll interval could have ended, it left. Who commits on close has
hardly left without a commit: there expiry gets a little over a half. With traffic a breach is less likely,
for it was not seen to work; but what stalled it is given to it again when it is back. A static member that
never committed rather expired (0.55), unless it went too soon; one that came back lives from then on.

Silence inside a barrier says nothing: an eager member commits as it rejoins and then waits, however long
another one holds the barrier. Where at least two members stopped together, and one that went with them had
gone on committing for half a session or more, leaving gets no less than a timeout does, and no timeout
reaches the threshold. That is the price of not naming two that crashed together while the third was closed.
Nor are members of an eager group told as silent (`member_silent`) that stopped within a heartbeat of each
other while another one goes on: two that crash together are told by the rebalance.
A barrier held for the whole rebalance timeout was held by the one that went on committing while those that
commit when idle had stopped, or all of several with traffic (`join_deadline_missed`); who stopped as it began
had rejoined, or left. Of the last two members, the one that stopped a rebalance timeout before the other did.

`session_timeout` and `poll_interval_exceeded` stand beside the rebalance from `attribution_confidence` on.

## What a client family changes

The family is recognised by default client id, protocol name and subscription shape; by the pair of
timeouts where no shape tells otherwise. Of default client ids only `consumer-` gives way to a shape, that of
librdkafka or aiokafka: anybody may choose it. It is a prior.

<FAMILIES>
Java as cooperative-sticky sends its generation alone, where other clients put their partitions before it.

Kafka Streams with classic groups never says goodbye, so a planned stop and a crash look the same: info, and
the sentence says so. aiokafka goes on committing while its application is stalled, and its max.poll.interval
is in no record: its poll breach looks like a clean close but for what it commits. Where its last commit moved
nothing, and so many did not that they span its session timeout, it may have been stalled. If its siblings'
offsets moved meanwhile (their share of unmoved commits does not account for its own) the breach is claimed,
with 0.9 at most; if theirs did not, or there are none, breach and leave get one half each. Where it commits
by hand it falls silent at the stall, and the interval is not known: what the session timeout hardly explains
may be a breach, or a death amid a long batch, and neither is claimed; from 300 s on, its default, a breach is
(0.9 at most). With `detection.max_poll_interval_ms`, for all or for the groups of a pattern, it is judged as
other clients that commit by hand are. Where both limits are close it may be taken for an expired session.

Kafka Connect's assignments say more than any silence: the config offset moved (`connect_reconfigured`; so it
is when a worker rejoins within a minute, to catch up), a scheduled delay begins with a worker's loss or ends
(`connect_delayed`; without a loss the leader only spaces out revocations that follow each other),
tasks were revoked (`cooperative_follow_up`). Its workers commit nothing, so why one of them went is not told:
the delay begins after a clean stop and after a crash alike. A worker's sink tasks are consumers of groups of
their own (`connect-` and the connector's name): why these went is told there. Kafka Streams' assignments
announce the next probing rebalance (`streams_probing`): one among the same members that comes then, or, less
surely, within the longest rebalance timeout after it, for its barrier waits for the slowest thread.

## Deleted topics

No assignor withholds a topic that has partitions and that somebody subscribes to. So a topic of which
partitions were assigned and now are none, while a kept member still asks for it, has lost them all:
`topic_deleted`. librdkafka's members drop the topic from their subscriptions one after the other; only the
first such generation, where somebody still asks, says so, beside `subscription_changed`. In cooperative
groups partitions are withheld between phases, and where members came or went too: nothing is said there.

## Spread

Range, RoundRobin, Sticky and CooperativeSticky, and the server's uniform and range, are reimplemented as
pure functions and held against Kafka's own classes over random memberships: Range and RoundRobin are equal
partition by partition, with racks as well; Sticky and CooperativeSticky too, but for ties that Kafka leaves
to a hash map, where replicas have no racks (the topic knows none), and with racks equally spread for equal
subscriptions; uniform is spread and moves alike for equal subscriptions, and nearly so for unequal ones.

`assignment_skewed` opens (rule `spread`) when the best of them would give the busiest member fewer
partitions and a narrower spread: five against three, or ten against five, of co-subscribed topics under
Range. Where members idle because there are more members than partitions it opens as information (rule
`idle`). It is silent while partitions are withheld (first phase of a cooperative rebalance, a member that
is joining), for protocols it does not know, and for groups too large to try.

## Deadlines

`member_silent` opens when a member that commits when idle has passed its last sign of life by one cadence and
the session timeout plus `grace_ms`, while another member of the group still commits. Where its client
enforces max.poll.interval and the session holds (heartbeats have a thread of their own) the poll deadline
follows as an update. It is confirmed when the next record drops the member, withdrawn when it commits or
rejoins. When the whole group is silent nobody is named; of one member alone its shard must go on meanwhile.

A member that commits only what is new (librdkafka's, or one whose application commits by hand) has a
deadline, too, while its silence means something: it has committed ten times in its generation, steadily and
for two partitions at least, and others of its group still move offsets of the same topics. It then has ten
of its cadences, the session timeout at least. A producer that stops for all of its partitions, and for no
other, looks the same, for the end offsets of topics are not read: so its confidence is 0.4, none of its
causes is above one half, and the finding says `basis: traffic`. Where the others' offsets stand still as
well nothing is said, and a single member has nobody to be compared with.

In KIP-848 groups commits do not extend the session and the timeout is in no record (`assumed`); a member that
has to give up partitions passes its rebalance deadline from the moment it was told; so does a member of a
streams group that has to give up tasks. The others' silence counts while the group converges, too, from what
they last acknowledged, but not that of members of the classic protocol, which rejoin. Members of share groups
commit nothing here, those of streams groups only what is new: no other deadline is judged. Deadlines start
anew after the start of the monitor, after a coordinator move, and where a whole group had been silent for
longer than any of its deadlines: a silence that lasts is told once a session after that is answered for, and
read.

## In progress and stuck

The probe lists the groups that rebalance, once a second: `rebalance_in_progress` is opened and resolved with
a measured duration, `rebalance_stuck` once one unbroken barrier is past `stuck_after_ms`. A look that finds
the join phase over (CompletingRebalance) before one that finds it begun again breaks it: that generation
failed, unwritten. Members that have not rejoined are those still listed that fell silent before the barrier
though they commit when idle, or still commit: suspected (0.6); of cooperative groups only in Java's.

Without the probe, or for groups that it may not see, commits say it later and less surely: when at least two
idle committers of an eager group stop within a heartbeat of each other, nobody of the group commits any more,
and others in the shard go on. ListGroups leaves out, without an error, what may not be seen; so every five
minutes all groups are listed and compared with those alive by the topic: missing ones open `monitor_degraded`
(`probe_partial`) and fall back on commits. What the probe sees overrules commits of a group whose own
coordinator answered.

An epoch-based group's records say themselves that it has not converged, and who has not acknowledged: not one
that only waits for partitions of others. It is stuck when one member has acknowledged nothing for
`stuck_after_ms`, and had something to: from the first target past its own epoch on, for a group that grows
has a newer one all the time. Named are those that are late by more than the longest heartbeat interval
(15 s), and it is over once nobody is. Looks add nothing to that.

"""
    + STORMS
    + """## The end of a group

A tombstone is `group_migrated` where the next record is the other protocol's and of the same write, else
`group_removed`: by an administrator when it came before the offsets could expire; share groups never do. But
where an offset of the empty group was removed within the ten minutes before, and not by the same write, its
topic was rather deleted, and the next sweep took the group without offsets (`group_expired`, 0.7). What
a group has open ends with its state, also where that is dropped without a tombstone; but that it is empty
goes on over a migration, which a client begins that may never become a member. What comes first after a
migration is the migration's, and so is the rebalance among the same members by which the coordinator ends a
downgrade; of another group it is a `first_start` only where no record before is missing.

## State that is begun anew

A rebuild (`--rebuild-state`, a new word in `storage.rebuild`, a lost checkpoint, the damaged state of a
shard) makes state that knows of no incident. The driver holds what is open and compares once history has
been read: what the new state finds again about the same goes on under its incident; the rest is resolved,
`expired`, with a `why` that says so: a storm after its quiet time, a silent member after as long a
silence, a suspected barrier after `stuck_after_ms`, others after five seconds. A group that is still
empty stays so until it has members; one of `always_on` that is empty when history ends, at any start without
a state, is told then, once. Groups of which the topic has no record any more are `group_removed`.

"""
    + PROBE
    + MORE
)
