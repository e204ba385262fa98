"""Where the views show the gripper, by the suite's projection and by its regressors."""

import numpy as np
import pytest

pytest.importorskip("ogbench")

from guidebench.harness.errors import UserError
from guidebench.methods.kagi.sight import Sight, views
from guidebench.suites.bin_sorting import BinSorting

SUITE = BinSorting(observation="state")


def test_a_frame_shows_two_views_side_by_side() -> None:
    frames = np.zeros((3, 40, 80, 3), np.uint8)
    frames[:, :, 40:] = 1
    for images, shape in ((frames, (3, 40, 40, 3)), (frames[0], (40, 40, 3))):
        above, side = views(images)
        assert above.shape == side.shape == shape and (above == 0).all() and (side == 1).all()
    with pytest.raises(UserError, match=r"40 by 40 pixels .* set drawing.camera=both"):
        views(frames[:, :, :40])


def test_the_tip_has_column_and_row_from_above_and_row_from_the_side_and_places_are_fractions() -> None:
    task = SUITE.make("forward")
    observations = np.stack([task.reset(0), task.step((1, 0, -1, 0, 0, 0, 0)).observation])
    tips = Sight(SUITE, "forward", 100, False).tips(observations)
    above, side = (
        SUITE.project("forward", camera, SUITE.tip("forward", observations), 100) for camera in ("top", "side")
    )
    assert tips.dtype == np.float32 and tips == pytest.approx(np.stack([*above.T, side[:, 1]], axis=1), abs=1e-4)
    assert tips[1, 1] < tips[0, 1] and tips[1, 2] > tips[0, 2], "forward is up from above, down is down from the side"
    task.reset(0)
    places = Sight(SUITE, "forward", 100, False).places(task.snapshot())
    thing = SUITE.located("forward", task.snapshot())[:1]
    assert places.shape == (2, 3) and places.dtype == np.float32 and ((places > 0) & (places < 1)).all()
    assert places[0, :2] == pytest.approx(SUITE.project("forward", "top", thing, 100)[0] / 100, abs=1e-6)


@pytest.mark.slow
def test_regressors_agree_with_the_projection(opengl: None) -> None:
    task = SUITE.make("forward")
    observations = np.stack([task.reset(0)] + [task.step(task.expert()).observation for _ in range(12)])
    true, fitted = (Sight(SUITE, "forward", 100, regressed).tips(observations) for regressed in (False, True))
    assert 0 < np.median(np.abs(true - fitted)) < 0.6
