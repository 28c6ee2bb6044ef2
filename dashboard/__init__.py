"""For people and machines: the findings table, metrics, pages."""
