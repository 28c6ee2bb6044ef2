"""The driver of a job: batch writer, pure parts, notices between batches, and all outputs around them."""
