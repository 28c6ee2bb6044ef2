"""Logins: what is made once for all clients of this process, held and renewed."""
