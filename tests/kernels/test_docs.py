"""The example of docs/kernels.md, as it stands there."""

import re
from pathlib import Path

import torch
from torch import nn

from headcount.kernels import route_by_definition

PAGE = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")


def test_the_model_of_the_page_reads_by_the_definition():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"MLP": lambda width: nn.Linear(width, width)}
    exec(example, names)
    torch.manual_seed(0)
    model = names["Model"](width=32, layers=3, heads=2, vocab=11)
    nn.init.normal_(model.queries)
    tokens = torch.tensor([[3, 1, 4]])
    sources = [model.embedding(tokens)]
    for site, sublayer in enumerate(model.sublayers):
        x = route_by_definition(sources, model.queries[site], model.key_weights[site], 2)
        sources.append(sublayer(x))
    last = route_by_definition(sources, model.queries[3], model.key_weights[3], 2)
    torch.testing.assert_close(model(tokens), model.head(model.norm(last)))
