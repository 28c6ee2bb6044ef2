"""Java, and the jars that Spark and the lab need."""
