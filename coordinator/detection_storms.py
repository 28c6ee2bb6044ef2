"""The prose of docs/detection.md on storms and rolling restarts."""

STORMS = """## Storms and rolling restarts

Counted in a sliding window:

- members that come and go: a loss of one that itself came after the first loss of the window, and, from the
  fourth time on that what came in place of others is lost, each return for which a young member was lost
  before, whoever comes, from whichever host: a rollout, its roll-back and the next rollout are none yet;
- a loss of one that is to blame: it stopped polling, missed a deadline of a barrier, or its client expired
  for the third time within an hour, each time one that came after the time before, from whichever host;
- all losses and returns of a client on one host that lost a young member twice;
- a rebalance among the same members, and generations that failed.

Nothing else counts: not that older members are replaced, nor more returns than losses, which are a scale-out.
An empty generation counts where it lost a young member without a goodbye; with goodbyes alone it ends what
was noted (of an `always_on` group a goodbye that is no guess): a job that runs again and again is none, but
for one that three times in a row ends within 30 s, and begins again within 15.

A group storms at `storm_threshold`; or, by the probe, when seen rebalancing in half of the looks of two
minutes that its coordinator answered, in three separate runs, but for barriers that ended in a generation
that does not count. It is over once nothing has counted for `storm_quiet_ms`, whatever else goes on, unless
looks see it go on: then it ends with those. Brokers list a KIP-848 group as reconciling while a static member
that said so is away: such looks count for nothing. `group_overrides` change either rule for the groups of a
pattern. First starts, scale-outs, cooperative follow-ups, Kafka Streams' probing and Connect's
reconfigurations do not count. When every member was replaced once, the group never being empty, and they are
as many as before, it is a `rolling_restart`, however long, which says whether most of them expired; with
fewer it is none, for it may be stuck. So is a second one that begins within the window after it, but no
third. New members may come up to a minute before the first old one goes. In epoch-based groups departures,
when they happen, and returns count, never plain joins. The worst offender is the client id in most of what
counts, at least a tenth of it, with its newest member, and with its host unless it comes from one after the
other; generations that failed are nobody's. Of a storm by sightings it is the client that was new at most
times in the lists of its barriers within the window, three times at least; it is told again, once a window at
most, when another one comes twice as often. Where the same members rebalance on and on nobody is named.

"""
