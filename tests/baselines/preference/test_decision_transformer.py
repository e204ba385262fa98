"""The Decision Transformer goes on from a state as the episodes that it learnt from do."""

import numpy as np
import pytest

from guidebench.baselines.preference.decision_transformer import DecisionTransformer, ExpertTrajectory

LENGTH = 6


def towards(goal: np.ndarray, start: np.ndarray, steps: int) -> ExpertTrajectory:
    """Return an episode in which a point covers a fifth of the remaining way at each step."""
    places = [start]
    for _ in range(steps - 1):
        places.append(places[-1] + 0.2 * (goal - places[-1]))
    states = np.stack([np.concatenate([place, goal]) for place in places]).astype(np.float32)
    return ExpertTrajectory(states, -np.linalg.norm(states[:, :2] - states[:, 2:], axis=1))


@pytest.fixture(scope="module")
def episodes() -> list[ExpertTrajectory]:
    rng = np.random.default_rng(0)
    return [towards(rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2), 20) for _ in range(30)]


def test_the_same_episodes_make_the_same_model_and_leave_global_generators_alone(
    episodes: list[ExpertTrajectory],
) -> None:
    import torch

    before = torch.get_rng_state()
    first, second = (DecisionTransformer(episodes[:3], LENGTH, 5) for _ in range(2))
    assert (first.imagine(np.zeros(4, np.float32)) == second.imagine(np.zeros(4, np.float32))).all()
    assert (torch.get_rng_state() == before).all()


def test_what_it_tells_of_a_step_depends_on_no_later_one(episodes: list[ExpertTrajectory]) -> None:
    import torch

    model = DecisionTransformer(episodes[:3], LENGTH, 0)
    states, togo = torch.randn(1, LENGTH, 4), torch.randn(1, LENGTH)
    full, part = model(togo, states), model(togo[:, :3], states[:, :3])
    torch.testing.assert_close(full[:, :3], part)
