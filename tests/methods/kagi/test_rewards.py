"""The dense reward against values worked by hand."""

import numpy as np
import pytest

from guidebench.methods.kagi.rewards import Shape, dense, targets, usable

SIMULATION = Shape(0.1, 15.0)
WAY = np.array([(0.0, 0, 0), (30, 0, 0), (30, 40, 0)])


@pytest.mark.parametrize(
    ("position", "shape", "reward"),
    [
        # tanh(-1.5) = -.90515, so .5 (1 + .90515) = .95257; at d = 15 tanh is 0; at d = 25 it is tanh(1) = .76159.
        ((30, 40, 0), SIMULATION, 0.95257), ((45, 40, 0), SIMULATION, 0.5), ((30, 40, 25), SIMULATION, 0.11920),
        ((30, 40, 0), Shape(0.02, 100.0), 0.98201),  # the robot's λ .02 and φ 100: tanh(-2) = -.96403
        ((1, 0, 0), SIMULATION, 0.05732),  # 29 from (30, 0, 0): .5 (1 - tanh(1.4)) = .5 (1 - .88535)
        ((30, 40), SIMULATION, 0.95257),  # without heights only x and y count
        ((np.nan, 0, 0), SIMULATION, np.nan),
    ],
)  # fmt: skip
def test_the_reward_is_953_at_the_waypoint_and_half_at_the_offset(
    position: tuple[float, ...], shape: Shape, reward: float
) -> None:
    rewards = dense(np.array([position], float), WAY[:, : len(position)], shape)
    assert rewards == pytest.approx([reward], abs=1e-5, nan_ok=True) and rewards.dtype == np.float32


def test_the_aim_is_the_waypoint_after_the_nearest_and_the_last_stays_the_last() -> None:
    positions = np.array([(1.0, 0, 0), (29, 0, 0), (30, 39, 0)])
    assert targets(positions, WAY).tolist() == [1, 2, 2]
    assert targets(np.array([(15.0, 0, 0)]), WAY).tolist() == [1], "of the first two, equally near, the first counts"
    assert targets(np.array([(0.0, 0, 0)]), np.zeros((3, 3))).tolist() == [1]


def test_onward_the_nearest_waypoint_never_goes_back() -> None:
    positions = np.array([(0.0, 0, 0), (30, 1, 0), (0, 0, 0)])
    assert targets(positions, WAY).tolist() == [1, 2, 1]
    assert targets(positions, WAY, onward=True).tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    "answer",
    [
        None, [], {}, {"waypoints": "a"}, {"waypoints": [[0.1, 0.2, 0.3]]}, {"waypoints": [[0.1, 0.2], [0.3, 0.4]]},
        {"waypoints": [[0.1, 0.2, 0.3], [0.4, 1.2, 0.3]]}, {"waypoints": [[0.1, 0.2, 0.3], [float("nan"), 0.2, 0.3]]},
        {"waypoints": [[0.1, 0.2, 0.3], [0.4]]}, {"waypoints": [[0.1, 0.2, None], [0.4, 0.5, 0.6]]},
    ],
)  # fmt: skip
def test_answers_that_are_no_way_are_left_aside(answer: object) -> None:
    """None, another form, fewer than two points, no heights, outside the image, not finite."""
    assert usable(answer, 3) is None


def test_of_a_way_with_heights_a_single_view_reads_x_and_y() -> None:
    waypoints = usable({"waypoints": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]}, 2)
    assert waypoints is not None and waypoints.tolist() == [[0.1, 0.2], [0.4, 0.5]]
