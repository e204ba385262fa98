"""The section `drawing` exists only in cells whose judge looks at frames."""

import pytest

from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from tests.refusals import check_refused


def cells(*overrides: str, suite: str = "minigrid_doorkey") -> list[Cell]:
    return list(matrix.plan([f"suite={suite}", "profile=smoke", *overrides]).cells)


def test_only_a_cell_whose_judge_looks_at_frames_has_a_drawing() -> None:
    (drawn_cell,) = cells("method=vlm_rb")
    assert (drawn_cell.section("drawing").tile_size, drawn_cell.section("drawing").perturbation) == (32, "none")
    for unseen in [*cells("method=uer"), *cells("method=vlm_rb", "judge=oracle")]:
        assert unseen.section("drawing") is None and not any(key.startswith("drawing.") for key in unseen.settings)


def test_a_sweep_of_the_drawing_expands_the_methods_that_have_one_and_is_in_their_ids_and_names() -> None:
    swept = ["drawing.perturbation=none,sprite_swap,texture", "drawing.tile_size=8"]
    planned_cells = cells("method=uer,vlm_rb", *swept)
    assert [cell.names.method for cell in planned_cells] == ["uer"] + ["vlm_rb"] * 3
    assert planned_cells[0].id == cells("method=uer")[0].id and len({cell.id for cell in planned_cells}) == 4
    assert planned_cells[2].variant == "drawing.perturbation=sprite_swap, drawing.tile_size=8"
    assert planned_cells[3].section("drawing").perturbation == "texture"


def test_a_record_keeps_the_drawing() -> None:
    (cell,) = cells("method=vlm_rb", "drawing.perturbation=texture", "drawing.seed=3")
    assert recorded(record(cell)).section("drawing") == cell.section("drawing")


@pytest.mark.parametrize(
    ("suite", "overrides", "says"),
    [
        (
            "minigrid_doorkey",
            ["method=vlm_rb", "drawing.perturbation=foo"],
            "drawing.perturbation=foo: expected one of 'none', 'sprite_swap', 'texture'",
        ),
        ("minigrid_doorkey", ["method=vlm_rb", "drawing.tile_size=2"], "drawing.tile_size=2: expected int in"),
        ("minigrid_doorkey", ["method=vlm_rb", "drawing.tilesize=8"], "did you mean 'drawing.tile_size'"),
        (
            "minigrid_doorkey",
            ["method=uer", "drawing.perturbation=texture"],
            "drawing.perturbation= is given, but none of the chosen methods has a part that looks at frames",
        ),
        (
            "minigrid_doorkey",
            ["method=vlm_rb", "judge=oracle", "drawing.perturbation=texture"],
            "none of the chosen methods has a part that looks at frames",
        ),
        (
            "classic",
            ["method=vlm_rb", "judge=sprite", "drawing.perturbation=texture"],
            "drawing.perturbation= is given, but suite 'classic' has no such setting",
        ),
        ("minigrid_doorkey", ["tile_size=8"], "did you mean 'drawing.tile_size'"),
    ],
)
def test_a_drawing_that_there_is_not_is_refused_with_the_reason(suite: str, overrides: list[str], says: str) -> None:
    check_refused(says, cells, *overrides, suite=suite)


def test_a_setting_added_later_is_hashed_unless_it_has_its_default() -> None:
    """Older cells keep their ids and their records can be read; any other value makes another cell."""
    from guidebench.harness.identity import cells
    from guidebench.harness.plan import matrix

    base_words = ["suite=ogbench_scene", "method=vlm_rb", "profile=smoke", "seeds=1"]
    (plain,), (same,), (other,) = (
        matrix.plan([*base_words, *words]).cells for words in ([], ["drawing.camera=front"], ["drawing.camera=both"])
    )
    assert plain.id == same.id != other.id
    for cell in (plain, other):
        record = cells.record(cell)
        assert cells.rehashed(record) == cell.id and cells.recorded(record).id == cell.id
    before = cells.record(plain)
    del before["settings"]["drawing.camera"]
    assert cells.rehashed(before) == plain.id == cells.recorded(before).id
    assert cells.recorded(before).settings["drawing.camera"].value == "front"
    del before["settings"]["drawing.size"]
    check_refused(r"lacks the setting 'drawing\.size'", cells.recorded, before)
