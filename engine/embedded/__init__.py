"""The embedded engine: one process reads the topic, keeps every coordinator open, and needs no Spark."""
