"""Frames drawn from snapshots of any MuJoCo model."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from guidebench.suites.mujoco import gl  # noqa: E402
from guidebench.suites.mujoco.drawing import ModelDrawer  # noqa: E402
from guidebench.suites.mujoco.perturbations import INKS, exchange, invert, texture, turned  # noqa: E402
from tests.refusals import check_refused  # noqa: E402

RED, WHITE = (0.9, 0.1, 0.1), (0.8, 0.8, 0.8)
WORLD = f"""
<mujoco>
  <asset>
    <material name="floor" rgba=".2 .2 .3 1"/>
    <material name="wood" rgba=".1 .8 .1 1" shininess="1"/>
    <material name="steel" rgba=".2 .2 .9 1" shininess="0"/>
  </asset>
  <worldbody>
    <light pos="0 0 4" dir="0 0 -1"/>
    <camera name="above" pos="0 0 2" xyaxes="1 0 0 0 1 0"/>
    <geom type="plane" size="3 3 .1" material="floor"/>
    <body name="left" pos="-.4 .3 .2"><joint name="slide" type="slide" axis="0 1 0"/>
      <geom name="box" type="box" size=".15 .15 .15" material="wood"/></body>
    <body name="right" pos=".4 .3 .2"><geom name="ball" size=".2" material="steel"/></body>
    <body name="lamp" pos="0 -.4 .2"><geom name="lamp" size=".2" rgba="{" ".join(map(str, RED))} 1"/></body>
  </worldbody>
</mujoco>
"""
SNAPSHOT = np.dtype([("qpos", "<f8", 1), ("body_pos", "<f8", (1, 3)), ("geom_rgba", "<f4", (1, 4))])
ROWS = {"body_pos": ["right"], "geom_rgba": ["lamp"]}
LEFT_PLACE, RIGHT, LAMP = (35, 30), (35, 97), (86, 64)
"""Pixels (row, column) of 128 x 128 at which the left box, the right ball and the lamp are visible."""


def shot(slide=0.0, ball=(0.4, 0.3, 0.2), lamp=RED):
    return np.frombuffer(np.array((slide, [ball], [(*lamp, 1)]), SNAPSHOT).tobytes(), np.uint8)


def draw_frames(*snapshots, model=None, **settings):
    model = mujoco.MjModel.from_xml_string(WORLD) if model is None else model
    return ModelDrawer(model, SNAPSHOT, "above", (128, 128), rows=ROWS, **settings)(np.stack(snapshots)).astype(int)


def colour(frame, place):
    """Return the strongest channel at a pixel: 0 red, 1 green, 2 blue; 3 if none is."""
    pixel = frame[place]
    return 3 if np.ptp(pixel) < 20 else int(pixel.argmax())


@pytest.fixture
def renderer(monkeypatch, opengl):
    monkeypatch.setattr("mujoco.gl_context.GLContext", gl.context)
    model = mujoco.MjModel.from_xml_string(WORLD)
    renderer = mujoco.Renderer(model, 128, 128)
    yield model, renderer
    renderer.close()


def test_full_frames_are_those_of_mujocos_own_renderer(renderer):
    model, reference = renderer
    data = mujoco.MjData(model)
    data.qpos[0], model.body("right").pos, model.geom("lamp").rgba = 0.1, (0.3, 0.3, 0.2), (*WHITE, 1)
    mujoco.mj_forward(model, data)
    reference.update_scene(data, "above")
    (frame,) = draw_frames(shot(0.1, (0.3, 0.3, 0.2), WHITE), full=True)
    assert np.array_equal(frame, reference.render())


def test_a_frame_shows_positions_and_colours_of_its_snapshot_alone(opengl):
    first, moved, again = draw_frames(shot(), shot(-0.6, (0.4, -0.3, 0.2), (0.1, 0.1, 0.9)), shot())
    assert np.array_equal(first, again)
    assert [colour(first, place) for place in (LEFT_PLACE, RIGHT, LAMP)] == [1, 2, 0]
    has_changed = [(moved[place] != first[place]).any() for place in (LEFT_PLACE, RIGHT)]
    assert has_changed == [True, True] and colour(moved, LAMP) == 2


def test_the_callers_model_is_never_touched(opengl):
    model = mujoco.MjModel.from_xml_string(WORLD)
    before = mujoco.MjModel.from_xml_string(WORLD)
    draw_frames(shot(0.2, (1, 1, 1), WHITE), model=model, change=turned)
    for name in ("geom_rgba", "mat_rgba", "body_pos", "tex_data"):
        assert np.array_equal(getattr(model, name), getattr(before, name))
    assert model.vis.quality.offsamples == before.vis.quality.offsamples > 0


def test_drawers_of_other_sizes_take_turns_in_one_process(opengl):
    model = mujoco.MjModel.from_xml_string(WORLD)
    small, large = (ModelDrawer(model, SNAPSHOT, "above", (side, side), rows=ROWS) for side in (64, 128))
    first = small(shot()[None])
    assert large(shot()[None]).shape == (1, 128, 128, 3)
    assert np.array_equal(small(shot()[None]), first)


def test_snapshots_of_another_length_are_refused(opengl):
    check_refused(rf"\(1, 7\) given, \[L, {SNAPSHOT.itemsize}\] expected", draw_frames, np.zeros(7, np.uint8))


def test_exchanged_looks_change_places_and_nothing_else_does(opengl):
    plain, swapped = draw_frames(shot())[0], draw_frames(shot(), change=exchange([("material:wood", "geom:lamp")]))[0]
    assert [colour(swapped, place) for place in (LEFT_PLACE, RIGHT, LAMP)] == [0, 2, 1]
    unchanged = (plain == swapped).all(axis=-1)
    assert unchanged[:20].all() and unchanged[RIGHT] and not unchanged[LEFT_PLACE]


def test_exchanged_materials_take_their_gloss_along():
    model = mujoco.MjModel.from_xml_string(WORLD)
    exchange([("material:wood", "material:steel")])(model)
    assert model.material("wood").shininess[0] == 0 and model.material("steel").shininess[0] == 1
    check_refused("'wood' names no look", exchange([("wood", "material:steel")]), model)


def test_inverted_colours_follow_the_snapshot_in_every_frame(opengl):
    change = invert(["geom:lamp"], RED, WHITE)
    red, white, other = draw_frames(shot(), shot(lamp=WHITE), shot(lamp=(0.1, 0.1, 0.9)), change=change)
    assert [colour(frame, LAMP) for frame in (red, white, other)] == [3, 0, 2]


def test_texture_covers_everything_but_the_world_by_its_seed_alone(opengl):
    plain = draw_frames(shot())[0]
    first, again, other = (
        draw_frames(shot(), model=texture(mujoco.MjSpec.from_string(WORLD), seed), change=turned)[0]
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    changed = (first != plain).any(axis=-1)
    assert all(
        changed[row - 6 : row + 7, column - 6 : column + 7].mean() > 0.8 for row, column in (LEFT_PLACE, RIGHT, LAMP)
    )
    assert not changed[:8].any() and not changed[-8:].any()


def test_a_pattern_is_of_two_complementary_inks():
    model = texture(mujoco.MjSpec.from_string(WORLD), 3)
    assert model.ntex == 3  # wood, steel, and the lamp, which has no material
    for number in range(3):
        start, size = model.tex_adr[number], model.tex_height[number] * model.tex_width[number] * 3
        inks = np.unique(model.tex_data[start : start + size].reshape(-1, 3), axis=0)
        assert len(inks) == 2 and (inks.astype(int).sum(axis=0) == 255).all()
        assert any((inks == ink).all(axis=1).any() for ink in INKS)


def test_a_tint_is_another_one_for_another_state(opengl):
    model = texture(mujoco.MjSpec.from_string(WORLD), 0)
    red, white = draw_frames(shot(), shot(lamp=WHITE), model=model, change=turned)
    assert (red != white).any() and np.array_equal(red[:60], white[:60])
