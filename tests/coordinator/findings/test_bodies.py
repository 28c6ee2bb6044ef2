import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.bodies import body_of, data_of

TEXT = st.text(st.characters(codec=None, exclude_categories=()))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
DATA = st.dictionaries(TEXT, st.recursive(SCALARS, lambda some: st.lists(some) | st.dictionaries(TEXT, some)))


@given(DATA)
def test_a_body_is_one_line_of_json_that_any_reader_understands(data: dict[str, Any]) -> None:
    body = body_of(data)
    assert "\n" not in body
    assert data_of(body) == json.loads(body) == json.loads(json.dumps(data))


@given(st.dictionaries(st.integers(0, 30), st.integers()), st.tuples(st.integers(), TEXT))
def test_numbers_as_keys_become_text_and_tuples_lists(counts: dict[int, int], pair: tuple[int, str]) -> None:
    read = data_of(body_of({"types": counts, "pair": pair}))
    assert read == {"types": {str(key): value for key, value in counts.items()}, "pair": list(pair)}


@pytest.mark.parametrize("body", ["", "{", "nothing"])
def test_what_is_no_json_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        data_of(body)
