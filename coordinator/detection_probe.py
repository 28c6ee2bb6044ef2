"""More prose of docs/detection.md: what looks of the probe tell of a rebalance."""

PROBE = """## What only the probe adds to a rebalance

Its looks narrow the start to a second (and as long as a look takes), and list who is in the barrier: who left
is missing at once, who died is listed until its session has ended. So a member of a classic group that went
is judged by the silence that it had between the last list with it and the first without it, however long the
others took to rejoin, whoever began the barrier, and however many went or came in it. Where members may not
be listed, or are too many to be remembered (100), the start of the barrier tells:

- of one that went alone, the silence at that start is judged; that is a leave only where those that stayed
  took so long to rejoin themselves (else the barrier waited for the one that went: it had expired in it);
- where several went, or others came, it tells of those whose silence fits that start. A leave is told up to
  2.2 s into it; of one that is back in the barrier with 0.8 at most, for who was killed and was back within a
  second looks the same. One that committed within a heartbeat after the start had heard of it and rejoined,
  or closed: it left (0.75), for no session ends while its member waits.

Of a group that the brokers do not list to the monitor (`probe_partial`), and of one whose coordinator's clock
is known to be off (`clock_skew`), looks time no barrier: it is judged by records alone. A look describes 50
groups a broker and 200 members a group at most.

A barrier seen to last for the rebalance timeout dropped those that are missing (`join_deadline_missed`). A
rebalance among the same members within half a minute of a coordinator move is given to that, and of two looks
or more on end that its coordinator left unanswered before it began, for a restart need not step the leader
epoch (0.7); where looks went on and nothing moved, a member asked for it (`leader_rejoined`) unless
generations failed before it, or a look listed one that no record has. Members that were active until their
coordinator moved, and are gone after it, hint at `group_over_capacity`. A member that goes active to the last
and is back within the same barrier hints at `member_removed_by_admin` (0.2), beside `member_left`: a quick
restart looks the same. An administrator's removal of a dynamic member cannot be told from a clean leave: it
is the same request, and neither writes its reason. A static member that goes before its session could expire
was removed, or told to leave; one silent for longer only if it had nothing to commit. One whose session
outlasts a barrier is kept in the generation that this ends though it is dead: its silence is from before
that.

Where members came or went in the same barrier, nobody says that the leader had asked for it: the record is
the same. So `leader_rejoined` is told of 84 % of the generations that a leader's rejoining began; in the
others that were looked at somebody came or went as well.

"""
