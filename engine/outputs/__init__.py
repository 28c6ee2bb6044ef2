"""Where a committed batch goes: files, tables, alerts, the page; who may be named in them."""
