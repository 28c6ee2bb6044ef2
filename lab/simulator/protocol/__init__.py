"""Group coordinator and client in virtual time, classic and KIP-848, and the records that they write."""
