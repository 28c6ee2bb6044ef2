"""Storms, rolling restarts, crash loops, and static members that take over from each other."""
