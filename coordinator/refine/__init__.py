"""Findings of records and the clock, refined by what probe samples add; ids never change."""
