"""Cursors: read as they were written, and any other text refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.api.problems import Problem
from headcount.api.results import JobCursor
from headcount.api.routes.jobs import _decode, _encode

KEYS = st.text("0123456789abcdef", min_size=8, max_size=8)
IDS = st.text("0123456789abcdef", min_size=64, max_size=64)


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), IDS, KEYS)
def test_a_cursor_is_read_as_it_was_written(position: int, job_id: str, key: str) -> None:
    cursor = JobCursor(position, job_id)
    assert _decode(_encode(cursor, key), key) == cursor
    with pytest.raises(Problem):
        _decode(_encode(cursor, key), "another!")


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_other_text_is_a_cursor(text: str) -> None:
    with pytest.raises(Problem) as caught:
        _decode(text, "00000000")
    assert (caught.value.status, caught.value.code) == (400, "bad_cursor")
