"""Record layouts as data, and the readers that are compiled from them."""
