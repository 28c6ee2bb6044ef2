"""Epoch-based groups: KIP-848 consumer, KIP-932 share and KIP-1071 streams groups."""
