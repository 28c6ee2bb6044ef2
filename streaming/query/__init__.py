"""One streaming query: the decode stage, the stateful operator, and how they are put together."""
