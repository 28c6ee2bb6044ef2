"""Generators of the pages under docs/: a function without arguments returns the whole text of a page."""
