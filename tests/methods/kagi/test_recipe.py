"""Cells of KAGI and RoboFuME: their parts, settings and ablations, where the guide works, and what is refused."""

import pytest

from guidebench.harness import registry
from guidebench.harness.identity import cells
from guidebench.harness.plan import config, matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.methods.kagi import keypoints
from guidebench.methods.kagi.waypoints import Waypoints
from tests.refusals import check_refused

pytest.importorskip("ogbench")
MODELS = ("scripted", "transformers")
SCRIPTED = ("segmenter=scripted", "waypoints=scripted", "classifier=oracle")


def cell(*words: str, suite: str = "bin_sorting") -> Cell:
    (planned,) = matrix.plan([f"suite={suite}", "profile=smoke", "seeds=1", *words]).cells
    return planned


def test_the_methods_learn_offline_and_then_online_from_the_papers_reward() -> None:
    kagi, robofume = cell("method=kagi", *SCRIPTED), cell("method=robofume", "classifier=oracle")
    for planned in (kagi, robofume):
        names = {part.role: part.name for part in planned.names.parts}
        assert (names["agent"], names["learner"], names["replay"]) == ("offline_online", "cal_ql", "uer")
        assert names["offline"] == "bin_sorting" and planned.section("drawing").camera == "both"
    guide = kagi.section("guide")
    assert (guide.formulation, guide.lam, guide.phi, guide.pixels, guide.views) == ("both", 0.1, 15.0, 100, "dual")
    assert {part.role: part.name for part in kagi.names.parts}["waypoints"] == "scripted_waypoints"


def test_a_formulation_asks_those_models_alone_that_it_needs() -> None:
    unasked_roles = {
        words: Waypoints(**dict(words)).unasked
        for words in (
            (), (("formulation", "sparse"),), (("formulation", "dense"),), (("sparse", "task"),),
            (("formulation", "sparse"), ("sparse", "task")), (("object", True),),
            (("object", True), ("formulation", "sparse")),
        )
    }  # fmt: skip
    assert [*unasked_roles.values()] == [
        ("tracker",), ("segmenter", "waypoints", "tracker"), ("classifier", "tracker"), ("classifier", "tracker"),
        ("classifier", "segmenter", "waypoints", "tracker"), (), ("segmenter", "waypoints", "tracker"),
    ]  # fmt: skip


def test_a_plan_tells_how_often_each_model_is_asked() -> None:
    """Of 100 steps, 70 are online: 4 episodes of 20 steps begin, of which 3 end. The dataset has 2 * 4 + 2 + 5 = 15."""
    sizes = ("offline.demonstrations=4", "offline.failures=2", "offline.others=5")
    run = ("training.steps=100", "agent.offline_share=0.3", "suite.length=20", *sizes)
    usages = []
    for words in ((), ("guide.views=single", "guide.every=7", "guide.consensus=true")):
        cell_view = config.cell_view(cell("method=kagi", *SCRIPTED, *run, *words))
        by_role = [
            cell_view["guide"].expected_usage(cell_view, role) for role in ("segmenter", "waypoints", "classifier")
        ]
        usages.append([(role_usage.calls, role_usage.images) for role_usage in by_role])
    assert usages == [[(19, 19), (19, 38), (60, 60)], [(19, 19), (19, 19), (36, 36)]]
    cell_view = config.cell_view(cell("method=kagi", *SCRIPTED, *run, "guide.object=true", "tracker=scripted"))
    tracked = cell_view["guide"].expected_usage(cell_view, "tracker")
    assert (tracked.calls, tracked.images) == (6, 126), "3 episodes of 21 states, in two views"


def test_a_cell_without_the_object_is_the_cell_that_it_was_before_there_was_a_tracker() -> None:
    """The id does not depend on the tracker, and a record without that role and setting has the same id."""
    plain = cell("method=kagi", *SCRIPTED)
    for word in ("tracker=scripted", "guide.object=false"):
        assert cell("method=kagi", *SCRIPTED, word).id == plain.id
    trackers = [cell("method=kagi", *SCRIPTED, "guide.object=true", f"tracker={name}") for name in MODELS]
    assert len({plain.id, *(planned.id for planned in trackers)}) == 3
    record = cells.record(plain)
    assert cells.rehashed(record) == cells.recorded(record).id == plain.id
    del record["parts"]["tracker"], record["versions"]["tracker"]
    record["settings"] = {
        key: setting
        for key, setting in record["settings"].items()
        if not key.startswith("tracker.") and key != "guide.object"
    }
    assert cells.rehashed(record) == cells.recorded(record).id == plain.id
    assert "scripted_tracker" not in plain.model and trackers[0].model.endswith("scripted_tracker")


@pytest.mark.parametrize(
    ("suite", "task"), [("bin_sorting", "sorting"), ("metaworld_mt10", "drawer-open"), ("ogbench_scene", "drawer")]
)
def test_waypoints_never_reward_at_a_discount_at_which_freezing_on_the_way_pays(suite: str, task: str) -> None:
    words = [f"suite={suite}", f"task={task}", "models=oracle", "seeds=1"]
    for profile in ("paper", "quick", "smoke"):
        for cell in matrix.plan([*words, "method=kagi", f"profile={profile}"]).cells:
            assert cell.section("learner").discount >= 0.97, f"{profile}, {cell.task_id}"


@pytest.mark.parametrize(("suite", "task"), [("metaworld_mt10", "mt10"), ("ogbench_scene", "drawer")])
def test_the_guide_works_with_sac_on_other_suites_that_project(suite: str, task: str) -> None:
    words = ("method=sac", f"task={task}", "guide=waypoints", "drawing.camera=both", "segmenter=transformers")
    planned = cell(*words, "waypoints=oracle", "classifier=oracle", suite=suite)
    assert {part.role: part.name for part in planned.names.parts}["guide"] == "waypoints"


def test_every_ablation_is_a_cell_of_its_own() -> None:
    plan = variations.ablations(
        matrix.plan(["suite=bin_sorting", "method=kagi", "profile=smoke", *SCRIPTED[:1], "waypoints=openai", "seeds=1"])
    )
    called = {name for name in registry.get("method", "kagi").ablations}
    assert len({cell.id for cell in plan.cells}) == len(plan.cells) == 1 + len(called)
    assert {"formulation=dense", "formulation=sparse", "views=single", "sparse=task", "demos=2x", "demos=5x"} < called
    assert [cell.section("guide").follows for cell in plan.cells].count(True) == 1 and "object" in called
    assert {cell.section("waypoints").model for cell in plan.cells} == {
        "gpt-4o", "gpt-4-turbo", "gemini-1.5-pro", "qwen2_5_vl_7b",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("suite", "words", "message"),
    [
        ("bin_sorting", ("drawing.camera=top",), "set drawing.camera=both"),
        ("ogbench_scene", (), "set drawing.camera=both"),
        ("metaworld", ("drawing.camera=both", "drawing.orientation=mirrored"), "upright frames"),
        ("metaworld", ("drawing.camera=both", "guide.projection=regressors"), "fits no regressors"),
        ("minigrid_doorkey", (), "has no calibrated cameras"),
        ("bin_sorting", ("guide.object=true", "guide.views=single"), "followed in both views, and guide.views=single"),
        (
            "ogbench_scene",
            ("drawing.camera=both", "guide.object=true", "guide.every=2", "task=task4", "training.capacity=2000"),
            "an episode has 750 steps, and the object is followed in at most 500",
        ),
        ("bin_sorting", ("training.capacity=20",), "training.capacity=20 does not hold an episode of 40 steps"),
    ],
)
def test_cells_in_which_it_cannot_work_are_refused(suite: str, words: tuple[str, ...], message: str) -> None:
    models = ("segmenter=transformers", "waypoints=openai", "waypoints.model=m", "classifier=oracle")
    method = {"bin_sorting": "kagi", "minigrid_doorkey": "uer"}.get(suite, "sac")
    check_refused(message, cell, f"method={method}", "guide=waypoints", *models, *words, suite=suite)


def test_too_many_judged_states_and_guides_of_one_store_are_refused() -> None:
    check_refused(
        r"an episode has 750 steps, and at most 500.*guide\.every to 2",
        cell,
        "method=sac",
        "task=task4",
        "guide=success_classifier",
        "classifier=oracle",
        suite="ogbench_scene",
    )
    check_refused("this agent keeps the dataset in a store of its own", cell, "method=cal_ql", "guide=rnd")


def test_regressors_without_inliers_are_refused_before_work_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from guidebench.suites.bin_sorting import calibration

    planned = cell("method=kagi", *SCRIPTED, "guide.projection=regressors")
    monkeypatch.setattr(calibration, "FEWEST", 1000)
    calibration.calibrate.cache_clear()
    check_refused(
        "a regressor needs 1000 calibration points", planned.section("guide").ready, config.cell_view(planned)
    )
    calibration.calibrate.cache_clear()


def test_a_segmenter_that_sees_the_object_in_no_first_frame_is_refused_before_work_starts(
    opengl: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the block grasped, the arm hides it from above."""
    monkeypatch.setattr(keypoints, "LOOKS", 2)
    for start, segmenter in (("homed", "scripted"), ("grasped", "oracle")):
        planned = cell("method=kagi", f"suite.start={start}", f"segmenter={segmenter}", *SCRIPTED[1:])
        planned.section("guide").ready(config.cell_view(planned))
    hidden = cell("method=kagi", "suite.start=grasped", *SCRIPTED)
    check_refused(
        r"in the first frames of 0 of 2 layouts.*choose segmenter=oracle",
        hidden.section("guide").ready,
        config.cell_view(hidden),
    )
