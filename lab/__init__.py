"""A real local Kafka cluster, client workloads with faults, and the broker log as ground truth."""
