from __future__ import annotations

import numpy as np
import pytest
import torch

from guidebench.baselines.parameters import Adam, Parameters, Spec, clip_by_norm
from tests.refusals import check_refused

SPECS = {"weight": Spec((5, 3), "uniform", 0.5), "bias": Spec((3,), "uniform", 0.5), "table": Spec((7,), "normal", 1.0)}


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def initialised(rows: int) -> Parameters:
    parameters = Parameters(SPECS, rows)
    parameters.initialise(generators(rows))
    return parameters


@pytest.mark.parametrize("together", [False, True])
def test_parts_look_into_one_buffer(together: bool) -> None:
    parameters = Parameters(SPECS, 2, together=together)
    parameters.blocks[-1].views["bias"].data[-1] = torch.tensor([1.0, 2.0, 3.0])
    assert parameters.flat.sum() == 6 and parameters.flat[0].abs().sum() == 0
    assert parameters.arrays(1)["bias"].tolist() == [1.0, 2.0, 3.0]


def test_every_parameter_of_every_row_is_aligned() -> None:
    parameters = Parameters(SPECS, 3)
    views = [view for part in parameters.blocks for view in part.views.values()]
    assert len(views) == 9 and all(view.data_ptr() % 64 == 0 for view in views)


def test_a_row_starts_the_same_beside_any_others() -> None:
    alone = Parameters(SPECS, 1)
    alone.initialise(generators(3)[2:])
    assert torch.equal(initialised(3).flat[2], alone.flat[0])


def test_initial_values_follow_their_distribution() -> None:
    specs = {"uniform": Spec((40_000,), "uniform", 0.5), "normal": Spec((40_000,), "normal", 2.0)}
    parameters = Parameters(specs, 1)
    parameters.initialise(generators(1))
    arrays = parameters.arrays(0)
    assert np.abs(arrays["uniform"]).max() <= 0.5
    assert arrays["uniform"].std() == pytest.approx(0.5 / np.sqrt(3), rel=0.02)
    assert arrays["normal"].std() == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize("together", [False, True])
def test_gradient_of_each_row_is_of_its_own_loss(together: bool) -> None:
    parameters = Parameters(SPECS, 2, together=together)
    parameters.initialise(generators(2))
    scale = torch.tensor([1.0, 10.0])
    losses = [
        scale[rows] * views["bias"].sum(1) + views["table"].square().sum(1) + 0 * views["weight"].sum((1, 2))
        for rows, views in parameters.blocks
    ]
    out = parameters.empty_like()
    assert parameters.gradient(losses, out) is out.flat
    assert out.arrays(0)["bias"].tolist() == [1.0] * 3 and out.arrays(1)["bias"].tolist() == [10.0] * 3
    np.testing.assert_allclose(out.arrays(1)["table"], 2 * parameters.arrays(1)["table"])


def test_a_step_of_adam_is_the_fused_one_of_torch_adam_to_the_bit() -> None:
    """torch._fused_adam_ is private: it has to remain what the public optimiser calls."""
    parameters = initialised(2)
    rivals = [torch.nn.Parameter(parameters.flat[row].clone()) for row in range(2)]
    public = torch.optim.Adam(rivals, lr=1e-2, betas=(0.8, 0.99), eps=1e-5, fused=True)
    ours = Adam(parameters, 1e-2, (0.8, 0.99), 1e-5)
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        gradient = torch.randn(parameters.flat.shape, generator=random)
        ours.step(gradient, np.ones(2, bool))
        for row, rival in enumerate(rivals):
            rival.grad = gradient[row].clone()
        public.step()
    assert all(torch.equal(parameters.flat[row], rival) for row, rival in enumerate(rivals))


def test_an_inactive_row_keeps_parameters_moments_and_step_count() -> None:
    """Row 1 is inactive for five steps, with NaN gradients; afterwards it goes on as if these had not been."""
    gradients = torch.randn(15, *initialised(2).flat.shape, generator=torch.Generator().manual_seed(1))
    resting, never = initialised(2), initialised(2)
    adam_resting, adam_never = Adam(resting, 1e-2), Adam(never, 1e-2)
    for step, gradient in enumerate(gradients):
        active = np.array([True, not 5 <= step < 10])
        spoilt = gradient.clone()
        spoilt[1] = gradient[1] if active[1] else torch.nan
        before = resting.flat.clone(), adam_resting.first.flat.clone(), adam_resting.second.flat.clone()
        adam_resting.step(spoilt, active)
        if active[1]:
            adam_never.step(gradient, np.array([False, True]))
        else:
            after = resting.flat, adam_resting.first.flat, adam_resting.second.flat
            for old, new in zip(before, after, strict=True):
                assert torch.equal(old[1], new[1]) and not torch.equal(old[0], new[0])
    assert torch.equal(resting.flat[1], never.flat[1])
    assert adam_resting.steps.tolist() == [15, 10]


def test_a_row_that_is_drawn_and_reset_alone_begins_as_at_first_while_others_go_on() -> None:
    first, again = initialised(2), initialised(2)
    adams = Adam(first, 1e-2), Adam(again, 1e-2)
    gradient, only = torch.ones_like(first.flat), np.array([False, True])
    adams[1].step(gradient, np.ones(2, bool))
    before = again.flat[0].clone(), adams[1].state(0)
    adams[1].reset(only)
    again.initialise([np.random.default_rng(row) for row in (9, 1)], only)
    assert torch.equal(again.flat[0], before[0]) and adams[1].state(0)["steps"] == before[1]["steps"] == 1
    drawn = Parameters(SPECS, 2)
    drawn.initialise([np.random.default_rng(row) for row in (0, 1)])
    expected = drawn.arrays(1)
    assert all(np.array_equal(array, expected[name]) for name, array in again.arrays(1).items())
    first.flat[1] = again.flat[1]
    for adam in adams:
        adam.step(gradient, only)
    assert torch.equal(again.flat[1], first.flat[1])


def test_clipping_equals_torch_for_each_row() -> None:
    gradient = torch.randn(3, 48, generator=torch.Generator().manual_seed(3)) * torch.tensor([[0.01], [1.0], [100.0]])
    rivals = [torch.nn.Parameter(torch.zeros(48)) for _ in range(3)]
    for rival, row in zip(rivals, gradient, strict=True):
        rival.grad = row.clone()
    expected = [torch.nn.utils.clip_grad_norm_([rival], 1.0) for rival in rivals]
    unclipped = gradient[0].clone()
    torch.testing.assert_close(clip_by_norm(gradient, 1.0), torch.stack(expected))
    assert torch.equal(gradient[0], unclipped)
    for rival, row in zip(rivals, gradient, strict=True):
        torch.testing.assert_close(row, rival.grad)


def test_a_row_saved_and_loaded_elsewhere_is_the_same() -> None:
    source, other = initialised(3), Parameters(SPECS, 2)
    arrays = source.arrays(2)
    source.flat.zero_()
    other.load(0, arrays)
    assert torch.equal(other.flat[0], initialised(3).flat[2]) and other.flat[1].abs().sum() == 0


@pytest.mark.parametrize(
    "change", [{"bias": np.zeros(4, np.float32)}, {"extra": np.zeros(1, np.float32)}], ids=["shape", "name"]
)
def test_parameters_of_another_network_are_refused(change: dict[str, np.ndarray]) -> None:
    parameters = initialised(1)
    check_refused(f"{next(iter(change))!r} has shape", parameters.load, 0, {**parameters.arrays(0), **change})


def test_a_row_of_an_ensemble_holds_its_members_one_after_the_other() -> None:
    """Members are drawn in turn from their seed's generator, constants without it; a row loaded is that saved."""
    specs = {**SPECS, "scale": Spec((3,), "constant", 2.0)}
    many = Parameters(specs, 2, members=3)
    many.initialise(generators(2))
    generator = generators(2)[1]
    arrays = many.arrays(1)
    for member in range(3):
        single = Parameters(specs, 1)
        single.initialise([generator])
        assert all(np.array_equal(array[member], single.arrays(0)[name]) for name, array in arrays.items())
    assert arrays["scale"].tolist() == [[2.0] * 3] * 3
    other = many.empty_like()
    other.load(0, arrays)
    assert torch.equal(other.flat[0], many.flat[1]) and other.flat[1].abs().sum() == 0


def test_no_limit_leaves_gradients_as_they_are() -> None:
    gradient = torch.tensor([[30.0, 40.0], [3.0, 4.0]])
    assert clip_by_norm(gradient, None).tolist() == [50, 5] and gradient.tolist() == [[30, 40], [3, 4]]
    assert clip_by_norm(gradient[1:], 10.0).tolist() == [5] and gradient[1].tolist() == [3, 4]


def test_orthogonal_matrices_have_orthonormal_columns_or_rows_and_are_each_seeds_and_members_own() -> None:
    specs = {"wide": Spec((3, 8), "orthogonal", 1.0), "high": Spec((8, 3), "orthogonal", 2.0)}
    parameters = Parameters(specs, 2, members=2)
    parameters.initialise([np.random.default_rng(0), np.random.default_rng(1)])
    wide = np.stack([block.views["wide"].detach().numpy() for block in parameters.blocks]).reshape(4, 3, 8)
    high = np.stack([block.views["high"].detach().numpy() for block in parameters.blocks]).reshape(4, 8, 3)
    for wide_matrix, high_matrix in zip(wide, high, strict=True):
        np.testing.assert_allclose(wide_matrix @ wide_matrix.T, np.eye(3), atol=1e-6)
        np.testing.assert_allclose(high_matrix.T @ high_matrix, 4 * np.eye(3), atol=1e-5)
    assert len({matrix.tobytes() for matrix in wide}) == 4
    alone = Parameters(specs, 1, members=2)
    alone.initialise([np.random.default_rng(1)])
    assert torch.equal(alone.flat[0], parameters.flat[1])


def test_truncated_weights_have_their_deviation_and_end_at_two_of_the_normals() -> None:
    """Flax's lecun_normal for 25 inputs: a deviation of .2, and a bound of .2 · 2 / .8796 = .4547."""
    parameters = Parameters({"weight": Spec((25, 800), "truncated", 0.2)}, 1)
    parameters.initialise([np.random.default_rng(0)])
    weight = parameters.blocks[0].views["weight"].detach().numpy()
    assert weight.std() == pytest.approx(0.2, rel=0.02) and abs(weight.mean()) < 0.005
    assert 0.44 < np.abs(weight).max() <= 0.4548
