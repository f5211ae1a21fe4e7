"""docs/training.md against the code: every scale, every field of the recipe, every measurement."""

import re
from pathlib import Path

from headcount.trainer.config import FIELDS, job_from_fields
from headcount.trainer.execution import micro_batch_rule
from headcount.trainer.flops import parameter_count
from headcount.trainer.scales import SCALES

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
UNITS = {"M": 1e6, "B": 1e9}


def test_the_table_of_scales() -> None:
    rows = [
        line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| `\w+` \| [\d,]+ \| \d+ \|", line)
    ]
    assert [row[0].strip("| `") for row in rows] == list(SCALES)
    for name, *cells in rows:
        config = job_from_fields({"model.scale": name.strip("| `"), "model.vocab_size": 151_936})
        model, windows = config.model, config.train.batch_tokens // config.data.context
        numbers = [int(n) for cell in cells[:-1] for n in cell.replace(",", "").split()]
        heads = cells[2].replace(",", "").split()
        assert heads == [str(model.heads), str(model.kv_heads)]
        shape = (model.d_model, model.layers, model.heads, model.kv_heads, model.d_ff)
        assert numbers == [*shape, config.data.context, windows]
        size, unit = cells[-1].split()[:2]
        stated = float(size) * UNITS[unit.strip(";")]
        assert abs(stated - parameter_count(config)) / stated < 0.03


def test_every_field_of_the_recipe_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    given_by_scale = {"steps", "batch_tokens"}
    fields = {name.partition(".")[2] for name in FIELDS if name.startswith("train.")} - given_by_scale
    assert fields - named == set()


def test_the_table_of_micro_batches() -> None:
    table = PAGE[PAGE.index("| card | `50m` |") :].partition("\n\n")[0].splitlines()
    scales = re.findall(r"`(\w+)`", table[0])
    assert scales == ["50m", "100m", "124m", "350m", "1b"]
    told: dict[int, list[int]] = {}
    for card, *windows in (line.strip("| ").split(" | ") for line in table[2:]):
        told |= {int(size): list(map(int, windows)) for size in re.findall(r"\d+", card)}
    jobs = [job_from_fields({"model.scale": scale, "model.vocab_size": 151_936}) for scale in scales]
    assert told == {
        size: [micro_batch_rule(job, size * 1.06e9) for job in jobs] for size in (24, 40, 48, 80, 141)
    }
