"""CPU, memory and growth of processes, and where the time of a profile goes."""
