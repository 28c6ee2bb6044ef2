"""The Spark job: its stages, batches, restarts, growth and live page."""
