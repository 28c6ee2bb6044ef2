"""The tables: findings, groups, quarantine; their files and upkeep."""
