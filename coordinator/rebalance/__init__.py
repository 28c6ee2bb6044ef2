"""A completed generation or convergence as a finding, and the causes of it."""
