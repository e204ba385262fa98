"""Sample frames of a perturbation matrix: the same moments of an episode, drawn with each perturbation."""

from pathlib import Path

import imageio.v2 as imageio
import numpy as np

from guidebench.harness.plan import matrix, variations
from guidebench.harness.playback import sample_frames


def test_each_perturbation_draws_the_same_moments_of_one_episode(tmp_path: Path) -> None:
    overrides = ["suite=minigrid_doorkey", "profile=smoke", "method=vlm_rb,per", "task=5x5,6x6", "drawing.tile_size=8"]
    plan = variations.perturbations(matrix.plan(overrides))
    sample_frames.write(plan, tmp_path)
    for task, cells in (("5x5", 5), ("6x6", 6)):
        images = {path.stem: imageio.imread(path) for path in (tmp_path / "frames/minigrid_doorkey" / task).iterdir()}
        assert set(images) == {"standard", "sprite_swap", "texture"}
        judged = next(cell for cell in plan.cells if cell.names.task == task)
        moments = sample_frames.moments(judged)
        assert len(moments) > 1 and not np.array_equal(moments[0], moments[-1])
        side, count = 8 * cells, len(moments)
        assert {image.shape for image in images.values()} == {(side, count * side + (count - 1) * sample_frames.GAP, 3)}
        frames = judged.section("drawing").spawn(task)(moments)
        assert np.array_equal(images["standard"][:, :side], frames[0])
        assert np.array_equal(images["standard"][:, -side:], frames[-1])
        assert not np.array_equal(images["standard"], images["sprite_swap"])


def test_moments_are_the_start_and_the_first_of_each_event() -> None:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "method=vlm_rb", "task=5x5"]).cells
    moments = sample_frames.moments(cell)
    task = cell.section("suite").make("5x5")
    task.reset(sample_frames.SEED)
    assert np.array_equal(moments[0], task.snapshot())
    rng, events = np.random.default_rng(sample_frames.SEED), set()
    for moment in moments[1:]:
        while True:
            task.step(rng.integers(5))
            new = set(np.flatnonzero(task.events())) - events
            if new:
                break
        events |= new
        assert np.array_equal(moment, task.snapshot())
