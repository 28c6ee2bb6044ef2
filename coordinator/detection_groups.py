"""The prose of docs/detection.md, its second half: across groups, and groups of other protocols."""

MORE = """## Across groups

Five or more groups that rebalance among the same members within ten seconds share a coordinator that
moved or restarted (franz-go and sarama groups all do within three seconds of its reload): one
cluster-level finding. A group that does so again within a minute is left out, unless the probe saw that its
coordinator moved: its own members ask for that. Likewise for expiries (a host or network), and within the
storm window, once none has followed for a minute, for rolling restarts and for groups all of whose members,
at work for two minutes and more, said goodbye within a minute of the coming of others in their place
(`renewed`: a deployment of groups of one member or few). Where the members of most of the restarted groups
expired that is a warning, and no deployment. Groups that follow within the window are told once more, with
all the others. It is one incident: what follows, or another burst of its kind, updates it, and it is resolved
once nothing more was told of it for `storm_quiet_ms`, and for longer than its window.

## Epoch-based groups

KIP-848 consumer groups bump their epoch once per member, so one `rebalance` is one convergence: from the
first bump until every member has acknowledged the newest assignment. Its duration is read, not bounded.
Leaving, a session fence and a rebalance-timeout fence write the same tombstones:

- a member that still had to give up partitions for its whole rebalance timeout was fenced for that
  (`join_deadline_missed`), near-certainly; for longer only where its coordinator moved, which sets that timer
  again, so it may as well have gone by itself meanwhile (0.5); likewise one of the classic protocol that had
  not rejoined for a new epoch within its rebalance timeout and a heartbeat (0.9);
- a static member expired (0.9) where it announced its departure (epoch -2), or its silence fits; was removed
  where its session cannot have expired yet (0.5); else silence says nothing (expired, 0.55);
- a member that never acknowledged an epoch that others had for more than a third of the session was dead
  (`session_timeout`; asked where its commits tell nothing);
- the rest is told by silence. No barrier stands between removal and record, so the windows are sharp;
  heartbeats, not commits, keep the session, so it may end up to a heartbeat earlier. An acknowledged epoch is
  a heartbeat and no sign of the application: where commits tell, stalls and leaves are counted from these.
  Who commits by a timer is given 0.75 s more to leave after a breach: it commits and gives up partitions
  first.

Where nobody came or went, a member with another subscription (`subscription_changed`) or what the group
notes of its topics, since 4.1 by a hash (`partitions_changed`), tells why, as does a pattern that the
coordinator resolved anew in the same write (`subscription_changed`). librdkafka stalls its heartbeats
with the application and leaves only when it polls again: a departure right after a commit that came after a
silence of the rebalance timeout is a poll breach.

The session timeout is in no record. When the job starts, every five minutes and within a minute after one is
new it reads those of consumer, share and streams groups from the brokers where it may, and those of groups
that have one of their own; one that has changed begins the query again, for a batch that runs again must have
the same. A setting wins, also per pattern of groups (`session_timeout_ms`). A silence says what was assumed:
so is the brokers' value for a group that may have one of its own that could not be read. Where only some
groups' can be read, that is said of every group of which no timeout of its own is known.

Tombstones are cleaned away after a day. After a pause in which records were, a member that acknowledged
nothing since and has been behind for its session and rebalance timeout is gone: untold, for nothing says when
and why.

Commits name topics and assignments topic ids; with several topics the names are learned from
which partitions one request commits together (what a pattern matches stands in a record of its own), and
until then members get `unknown` unless a fence is plain. In streams groups (KIP-1071) the topology
record names the topics that each subtopology reads, and a task reads its own number's partition of all of
them; so commits belong to members as in other groups, and their silence tells why one went. Kafka Streams
commits only progress, and on close; from these groups it says goodbye.

Share groups: membership, convergences and removal; what their members acknowledge is in another topic. One
that went before a session timeout had passed since it last acknowledged an epoch left; of the others the
tombstones say nothing, and leaving and expiry get their priors, each below one half. Most recorded leaves
came later than that, so they are not claimed. Partitions are handed out once initialised: one more rebalance.

## What `explain` advises

Nothing that a client of the group is known to lack: an assignor, static membership, a setting.

<ADVICE>
## Thresholds

<SETTINGS>"""
