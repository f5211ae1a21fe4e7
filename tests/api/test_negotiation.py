"""Any Accept header has an answer, and a form is given only where it is accepted."""

from fastapi import Request
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.api.formats import MEDIA_TYPES
from headcount.api.negotiation import accepted_form
from headcount.api.problems import Problem

TYPES = [media.partition(";")[0] for media in MEDIA_TYPES.values()]
RANGES = st.sampled_from(["*/*", "text/*", "application/*", "text/html", *TYPES])
ITEMS = st.tuples(RANGES, st.sampled_from(["", ";q=0", ";q=0.3", "; q=1.000", ";q=x", ";level=1;q=0.5"]))


def answer(accept: str) -> str | int:
    """The form chosen for an Accept header, or the status of the refusal."""
    headers = [(b"accept", accept.encode("latin-1"))]
    try:
        return accepted_form(Request({"type": "http", "headers": headers}))
    except Problem as problem:
        return problem.status


@settings(deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=5))
def test_a_form_is_given_only_where_it_is_accepted(items: list[tuple[str, str]]) -> None:
    found = answer(", ".join(name + parameters for name, parameters in items))
    liked = {name for name, parameters in items if parameters not in (";q=0", ";q=x")}
    if isinstance(found, int):
        assert found == 406
    else:
        media = MEDIA_TYPES[found].partition(";")[0]
        assert liked & {media, media.partition("/")[0] + "/*", "*/*"}
    if liked & {"*/*"} and len(items) == 1:
        assert found == "json"


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=255), max_size=200))
def test_any_header_has_an_answer(accept: str) -> None:
    assert answer(accept) in {*MEDIA_TYPES, 406}
