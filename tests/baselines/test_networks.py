from __future__ import annotations

import numpy as np
import pytest
import torch

from guidebench.baselines.networks import (
    MLP,
    ToOne,
    conv2d,
    ensemble,
    ensemble_over,
    linear,
    one_hot,
)
from guidebench.baselines.parameters import Parameters, SeedBlock
from guidebench.harness.interfaces import Observations
from tests.baselines.builds import codes, initialised

GRID = Observations((5, 6, 3), "uint8", (11, 6, 4))


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_linear_multiplies_each_seed_by_its_own_weights() -> None:
    inputs = torch.tensor([[[1.0, 2.0]], [[1.0, 2.0]]])
    weight = torch.tensor([[[1.0], [10.0]], [[3.0], [0.0]]])
    assert linear(inputs, weight, torch.tensor([[0.5], [-1.0]])).tolist() == [[[21.5]], [[2.0]]]


@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_conv2d_sums_the_dilated_neighbourhood_and_sees_zero_outside(dilation: int) -> None:
    x, weight, bias = random(2, 3, 5, 6, 2), random(2, 4, 3, 3, 2), random(2, 4)
    expected = bias[:, None, None, None].repeat(1, 3, 5, 6, 1)
    for row, column, i, j in np.ndindex(5, 6, 3, 3):
        y, z = row + (i - 1) * dilation, column + (j - 1) * dilation
        if 0 <= y < 5 and 0 <= z < 6:
            expected[:, :, row, column] += torch.einsum("sbc,soc->sbo", x[:, :, y, z], weight[:, :, i, j])
    torch.testing.assert_close(conv2d(x, weight, bias, dilation), expected, atol=1e-5, rtol=1e-5)


def test_one_hot_times_tables_is_the_sum_of_embeddings() -> None:
    tables = [random(categories, 8) for categories in (11, 6, 4)]
    x = codes(GRID, 1, 2)
    expected = sum(table[x[..., channel].long()] for channel, table in enumerate(tables))
    torch.testing.assert_close(one_hot(x, (11, 6, 4)) @ torch.cat(tables), expected)


def test_summed_tables_are_concatenated_embeddings_mixed_pointwise() -> None:
    narrow = [random(categories, 3) for categories in (11, 6, 4)]
    mix = random(9, 8)
    x = codes(GRID, 1, 2)
    concatenated = torch.cat([table[x[..., channel].long()] for channel, table in enumerate(narrow)], -1) @ mix
    tables = [table @ mix[3 * k : 3 * k + 3] for k, table in enumerate(narrow)]
    torch.testing.assert_close(one_hot(x, (11, 6, 4)) @ torch.cat(tables), concatenated)


def test_mlp_equals_torch_modules_for_each_seed() -> None:
    mlp = MLP(4, (7, 5), 2)
    parameters, x = initialised(mlp, 2, together=True), random(2, 6, 4)
    outputs = mlp(parameters.blocks[0].views, x)
    for row in range(2):
        arrays = {name: torch.from_numpy(array) for name, array in parameters.arrays(row).items()}
        hidden = x[row]
        for layer in range(3):
            hidden = torch.nn.functional.linear(
                hidden.relu() if layer else hidden, arrays[f"mlp.{layer}.weight"].T, arrays[f"mlp.{layer}.bias"]
            )
        torch.testing.assert_close(outputs[row], hidden)


def test_an_mlps_activation_may_be_another() -> None:
    """w = 1, b = 0: a leaky layer passes on 2 as it is and a hundredth of −2."""
    mlp = MLP(1, (1,), 1, activation=torch.nn.functional.leaky_relu_)
    parameters = Parameters(mlp.specs(), 1, trainable=False)
    for name in ("mlp.0.weight", "mlp.1.weight"):
        parameters.blocks[0].views[name].fill_(1)
    outputs = mlp(parameters.blocks[0].views, torch.tensor([[[2.0], [-2.0]]]))
    assert outputs.flatten().tolist() == pytest.approx([2, -0.02])


def test_a_hidden_layer_is_normalised_before_its_relu() -> None:
    """x = (1, 2), identity weights: mean 1.5, deviation ½, normal (−1, 1); scale (2, 3), shift (3, −1) -> (1, 2)."""
    mlp = MLP(2, (2,), 1, norm=True)
    parameters = initialised(mlp, 1, together=True)
    assert parameters.arrays(0)["mlp.0.scale"].tolist() == [1, 1] and "mlp.1.scale" not in parameters.specs
    weights = {
        "mlp.0.weight": np.eye(2), "mlp.0.bias": np.zeros(2), "mlp.0.scale": [2, 3], "mlp.0.shift": [3, -1],
        "mlp.1.weight": np.array([[10], [1]]), "mlp.1.bias": [0.5],
    }  # fmt: skip
    parameters.load(0, weights)
    x = torch.tensor([[[1.0, 2.0]]])
    assert mlp(parameters.blocks[0].views, x).item() == pytest.approx(12.5, abs=1e-3)
    parameters.load(0, {**weights, "mlp.0.shift": [-3, -1]})  # 2·(−1) − 3 is cut off at 0
    assert mlp(parameters.blocks[0].views, x).item() == pytest.approx(2.5, abs=1e-3)


def test_a_single_number_is_the_linear_layers_in_value_and_gradient() -> None:
    x, weight, bias = (random(*shape).double().requires_grad_() for shape in ((3, 7, 5), (3, 5, 1), (3, 1)))
    torch.testing.assert_close(ToOne.apply(x, weight, bias), linear(x, weight, bias))
    assert torch.autograd.gradcheck(ToOne.apply, (x, weight, bias))


@pytest.mark.parametrize("together", [False, True])
def test_members_of_an_ensemble_are_networks_of_their_own(together: bool) -> None:
    """Two seeds, three members each, by turns; the whole ensemble and two chosen members of it."""
    mlp = MLP(4, (8,), 1, norm=True)
    parameters = Parameters(mlp.specs(), 2, members=3, together=together)
    parameters.initialise([np.random.default_rng(row) for row in range(2)])
    x = random(2, 6, 4)
    chosen = torch.tensor([[2, 0], [1, 2]])
    for rows, views in parameters.blocks:
        values = ensemble(mlp, views, x[rows])
        some = ensemble(mlp, parameters.subset(SeedBlock(rows, views), chosen[rows]), x[rows])
        assert values.shape == (rows.stop - rows.start, 3, 6)
        for number, row in enumerate(range(rows.start, rows.stop)):
            arrays = parameters.arrays(row)
            for member in range(3):
                single = Parameters(mlp.specs(), 1)
                single.load(0, {name: array[member] for name, array in arrays.items()})
                expected = mlp(single.blocks[0].views, x[row : row + 1])[0, :, 0]
                torch.testing.assert_close(values[number, member], expected)
            torch.testing.assert_close(some[number], values[number, chosen[row]])


@pytest.mark.parametrize(("hidden", "norm"), [((7, 5), False), ((7, 5), True), ((), False)])
@pytest.mark.parametrize("together", [False, True])
def test_many_inputs_that_share_a_part_give_what_each_gives_whole_and_the_same_gradients(
    hidden: tuple[int, ...], norm: bool, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs of 3 shared and 2 own numbers, four of them for each of six states; on a CPU in pieces of two."""
    monkeypatch.setattr("guidebench.baselines.networks.ROWS", 12)
    network, seeds = MLP(5, hidden, 1, norm=norm), 2 if together else 1
    parameters = Parameters(network.specs(), seeds, members=3, together=True)
    parameters.initialise([np.random.default_rng(seed) for seed in range(seeds)])
    views = parameters.blocks[0].views
    shared, separate = random(seeds, 6, 3).requires_grad_(), random(seeds, 6, 4, 2)
    outputs = ensemble_over(network, views, shared, separate)
    joined = torch.cat([shared.unsqueeze(2).expand(-1, -1, 4, -1), separate], 3).flatten(1, 2)
    expected = ensemble(network, views, joined).view(seeds, 3, 6, 4)
    torch.testing.assert_close(outputs, expected)
    leaves = [shared, *views.values()]
    weights = random(seeds, 3, 6, 4)
    pairs = [torch.autograd.grad((values * weights).sum(), leaves) for values in (outputs, expected)]
    for gradient, reference in zip(*pairs, strict=True):
        torch.testing.assert_close(gradient, reference)
