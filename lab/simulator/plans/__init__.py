"""What a simulation is asked for: groups, client families, timers, faults; written by hand or drawn."""
