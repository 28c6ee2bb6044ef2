"""The Spark query: source, decode UDF, state operator, batch writer. Thin shells over the pure parts."""
