"""Names of topics, as brokers take them."""

import re

NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
BY_BROKERS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""Topics that brokers alone write."""


def topic_name(text: str) -> str:
    """Return the name of a topic. Raises ValueError: what is wrong, without the field's name."""
    if not NAME.fullmatch(text) or text in {".", ".."}:
        raise ValueError(
            f"must be a topic's name, up to 249 letters, digits, dots, dashes and underscores, not {text!r}"
        )
    return text


def writable_topic(text: str) -> str:
    """Return the name of a topic that clients may write. Raises ValueError, as `topic_name`."""
    if text in BY_BROKERS:
        raise ValueError(f"must be a topic of its own: brokers alone write {text}")
    return topic_name(text)
