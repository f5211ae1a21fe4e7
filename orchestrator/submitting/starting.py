"""What a sweep's `init.from` stands for: a model that lies somewhere, put among the artifacts."""

from pathlib import Path

from headcount.orchestrator.artifacts.weights import publish_weights, weights_key
from headcount.orchestrator.instruments.models import MODEL_FILE, find_model
from headcount.orchestrator.settings import Settings
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.planning.initial import check_stream, with_initial
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.model_header import job_fields, routes
from headcount.trainer.starting import INIT_FROM


def start_for_all(spec: SweepSpec, settings: Settings) -> SweepSpec:
    """The sweep with its initial weights, if it names some, where every node finds them.

    Raises `SpecError` for what is no model, or another one than the sweep needs.
    """
    source = spec.job.get(INIT_FROM)
    if source is None:
        return spec
    try:
        sha256 = publish_weights(_file(source, spec.folder, settings), settings)
        file = settings.artifacts / weights_key(sha256)
        fields, trained = job_fields(file), routes(file)
    except UserError as error:
        raise spec.error(str(error), f"job.{INIT_FROM}") from error
    started = with_initial(spec, sha256, fields)
    if trained:
        check_stream(started, fields["model.residual"])
    return started


def _file(source: str, folder: Path | None, settings: Settings) -> Path:
    beside = (folder or Path()) / Path(source).expanduser()
    if beside.is_dir():
        beside = beside / MODEL_FILE
    return beside if beside.is_file() else find_model(source, settings)
