"""Why members left a group: one explicit model of the coordinator's timers and of its clients.

Theory of operation. A record says when a join phase ended (`currentStateTimestamp`) and who is in the group
no more; it does not say why. Each departed member is explained by one `Way` (`hypotheses.py`): it left, its
session expired, its application stalled, it did not rejoin in time, it did not sync. Each way predicts how
long after the member's last commit the coordinator removed it, as a mixture of uniform waits (`timers.py`):
Kafka's timers run for known times from moments that are known up to a heartbeat or a commit interval.

A rebalance is explained as a whole (`explain.py`): one *trigger* began it (a departure, a newcomer, a leader
that rejoined), and one *holder* ended it (the last survivor that rejoined, a departed member that the join
phase had waited for, or the join deadline). How long the join phase lasted is not known. It is summed out on
a grid (`phase.py`), together with the heartbeat interval, by which survivors hear of a rebalance.

Constants are of three kinds: facts of the protocol and of clients' sources (in `hypotheses.py` and
`timers.py`), what a group's own rebalances teach (in the evidence), and the fitted ones of `fitted.py`.

One function, `explain`, answers for records alone and for records with probe samples: samples only narrow
bounds in the same `Evidence` (`evidence.py`), which the operator sends along and the driver completes.
"""
