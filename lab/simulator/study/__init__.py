"""What is learned from simulations: agreement with recordings, and how sure an observer could be."""
