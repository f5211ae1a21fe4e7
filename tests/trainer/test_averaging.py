import copy

import torch
from torch import nn

from headcount.trainer.averaging import WeightAverage


def test_the_average_is_that_of_all_weights_so_far() -> None:
    model = nn.Linear(2, 1)
    average = WeightAverage(model, 0.75)
    expected = model.weight.detach().clone()
    for n in range(5):
        with torch.no_grad():
            model.weight.fill_(float(n))
        average.update()
        expected = 0.75 * expected + 0.25 * n
    assert torch.allclose(average.state()["weight"], expected, atol=1e-6)


def test_inside_the_model_has_the_average_and_outside_its_own_weights_bit_for_bit() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.5)
    with torch.no_grad():
        model.weight.mul_(3)
    average.update()
    before, kept, place = copy.deepcopy(model.state_dict()), average.state(), model.weight.data_ptr()
    kept = {name: value.clone() for name, value in kept.items()}
    with average.in_place():
        assert torch.equal(model.weight, kept["weight"])
        assert not torch.equal(model.weight, before["weight"])
        assert model.weight.data_ptr() == place
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    assert all(torch.equal(average.state()[name], kept[name]) for name in kept)


def test_a_restored_average_goes_on() -> None:
    model = nn.Linear(2, 2)
    first, second = WeightAverage(model, 0.9), WeightAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1)
    first.update()
    second.restore(first.state())
    for average in (first, second):
        average.update()
    assert torch.equal(first.state()["weight"], second.state()["weight"])
