"""A whole Arrow batch: numpy finds the commits and folds them into runs; other records are read singly."""
