"""What people and machines look at: the findings table, metrics, pages."""
