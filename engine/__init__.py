"""The engine without Spark: batches of the coordinators' outputs in; ledger, tables, alerts and page out."""
