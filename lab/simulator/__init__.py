"""Coordinators and clients in virtual time: records of `__consumer_offsets` and the truth, no broker."""

from rebalance_monitor.lab.simulator.engine import Simulation, simulate
from rebalance_monitor.lab.simulator.plans.draw import draw_plan
from rebalance_monitor.lab.simulator.plans.plan import Plan

__all__ = ["Plan", "Simulation", "draw_plan", "simulate"]
