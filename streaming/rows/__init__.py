"""Rows as they cross the shuffle: lanes, packs and the clock."""
