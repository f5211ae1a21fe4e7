"""A file with one job: `job`, with its fields as in a sweep, and `seed`."""

from pathlib import Path

from headcount.sweeps.file.document import parse_document, read_text
from headcount.sweeps.file.fields import dotted, field_value
from headcount.sweeps.file.values import LARGEST, known, whole
from headcount.trainer.config import FieldError, job_from_fields
from headcount.trainer.starting import INIT_FROM


def read_job(file: Path) -> tuple[dict[str, object], int]:
    """A job's fields by their dotted names, `init.from` among them, and its seed.

    Raises `SpecError` naming file and line.
    """
    top = parse_document(read_text(file), str(file))
    given = known(top, "job", "seed")
    if "job" not in given:
        raise top.error("has no job; add its fields, such as 'job: {model: {scale: nano}}'")
    places = dotted(given["job"])
    fields = {name: field_value(name, node) for name, node in places.items()}
    seed = whole(given["seed"], 0, LARGEST) if "seed" in given else 0
    if INIT_FROM in fields:  # the model's fields are yet to come
        return fields, seed
    try:
        job_from_fields(fields, seed)
    except FieldError as error:
        place = places.get(error.name)
        raise (place.error(error.problem) if place else given["job"].error(str(error))) from error
    return fields, seed
