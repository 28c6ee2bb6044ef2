"""Where a committed batch goes: files, tables, alerts, the page; which clients may be named in them."""
