"""Which form of a table a client wants: by the suffix of the path, else by the header Accept."""

import re

from fastapi import Request

from headcount.api.formats import MEDIA_TYPES
from headcount.api.parquet import can_write_parquet
from headcount.api.problems import Problem

_FORMS = {media.partition(";")[0]: form for form, media in MEDIA_TYPES.items()}
"""Media type to form, in the order of our preference."""


def suffix_form(suffix: str) -> str:
    """The form that a suffix names; 406 with the list for one that there is not."""
    if suffix not in MEDIA_TYPES or not _can_write(suffix):
        raise _not_acceptable(f".{suffix}")
    return suffix


def accepted_form(request: Request) -> str:
    """The form that Accept likes best, JSON where it leaves the choice; 406 with the list where none fits."""
    accept = ",".join(request.headers.getlist("accept")) or "*/*"
    liked = [_quality(accept, media) * _can_write(form) for media, form in _FORMS.items()]
    best = max(liked)
    if best <= 0:
        raise _not_acceptable(accept[:200])
    return list(_FORMS.values())[liked.index(best)]


def _can_write(form: str) -> bool:
    return form != "parquet" or can_write_parquet()


def _quality(accept: str, media: str) -> float:
    """The weight of a media type in an Accept header, by its most specific match; 0 without one."""
    kind = media.partition("/")[0]
    weights: dict[str, float] = {}
    for item in accept.split(","):
        pattern, *parameters = (part.strip().lower() for part in item.split(";"))
        weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        weights[pattern] = float(weight) if re.fullmatch(r"0(\.\d{0,3})?|1(\.0{0,3})?", weight) else 0.0
    return next((weights[p] for p in (media, f"{kind}/*", "*/*") if p in weights), 0.0)


def _not_acceptable(wanted: str) -> Problem:
    forms = ", ".join(f".{form} ({media})" for media, form in _FORMS.items() if _can_write(form))
    return Problem(406, "not_acceptable", f"a table is not to be had as {wanted}; there are {forms}")
