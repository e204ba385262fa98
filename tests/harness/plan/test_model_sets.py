"""Sets of models: which part each gives to a role, what stands in where it has none, and that a cell is the same as if
its roles had been named by hand.

`ids_by_hand.json` holds the ids of cells from before there were sets. Where a part's version rises they change:

    GUIDEBENCH_GOLDEN=rewrite python -m pytest -n 0 tests/harness/plan/test_model_sets.py
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import StandIns
from tests.refusals import check_refused

FILE = Path(__file__).with_name("ids_by_hand.json")
IDS = json.loads(FILE.read_text())
CRAFTER = ("suite=crafter_ood", "task=wood_sword")
DSADF = (*CRAFTER, "method=dsadf", "profile=smoke")
BY_HAND = ("planner=scripted", "reflector=scripted", "performer=scripted", "scorer=scripted", "text_embedder=scripted")
VLM_RB = ("suite=minigrid_doorkey", "task=5x5", "method=vlm_rb")


def plan_cell(*words: str) -> Cell:
    (cell,) = matrix.plan(words).cells
    return cell


def models(cell: Cell) -> dict[str, str]:
    return {part.role: part.name for part in cell.models}


@pytest.mark.parametrize("words", IDS)
def test_cells_whose_roles_are_named_by_hand_are_what_they_were(words: str) -> None:
    """The cells include stages, sweeps, roles that nothing asks, and widths that the command sets."""
    ids = [cell.id for cell in matrix.plan(words.split()).trained]
    if os.environ.get("GUIDEBENCH_GOLDEN") == "rewrite":
        FILE.write_text(json.dumps(json.loads(FILE.read_text()) | {words: ids}, indent=1) + "\n")
        return
    assert ids == IDS[words]


@pytest.mark.parametrize(
    ("words", "models", "by_hand"),
    [
        (DSADF, "scripted", BY_HAND),
        (
            DSADF,
            "oracle",
            ("planner=oracle", "reflector=oracle", "performer=oracle", "scorer=scripted", "text_embedder=scripted"),
        ),
        (
            ("method=lagea", "suite=metaworld_mt10", "task=reach", "profile=quick"),
            "oracle",
            ("embedder=spatial", "text_embedder=scripted", "feedback=oracle"),
        ),
        (("method=furl", "suite=metaworld_mt10", "profile=quick"), "scripted", ("embedder=spatial",)),
        (
            ("method=furl_no_goal", "suite=minigrid_doorkey", "task=5x5", "profile=quick", "agent=standard"),
            "scripted",
            ("embedder=scripted",),
        ),
        (
            ("method=kagi", "suite=bin_sorting", "profile=quick"),
            "oracle",
            ("segmenter=oracle", "waypoints=oracle", "classifier=oracle"),
        ),
        ((*VLM_RB, "profile=quick"), "oracle", ("judge=oracle",)),
        ((*VLM_RB, "profile=paper"), "scripted", ("judge=sprite",)),
        ((*VLM_RB, "profile=smoke"), "paper", ("judge=transformers",)),
        (("method=rl_sallm_f", "suite=point_maze", "task=umaze"), "scripted", ("chat=scripted",)),
    ],
)
def test_a_cell_is_the_one_whose_roles_are_named_by_hand(
    words: tuple[str, ...], models: str, by_hand: tuple[str, ...]
) -> None:
    assert plan_cell(*words, f"models={models}").id == plan_cell(*words, *by_hand).id


def test_a_profile_has_a_usual_set_and_a_role_that_the_command_names_keeps_its_part() -> None:
    assert plan_cell(*DSADF).id == plan_cell(*DSADF, "models=scripted").id
    assert models(plan_cell(*DSADF)) == {
        "planner": "scripted_planner", "reflector": "scripted_reflector", "performer": "scripted_performer",
        "scorer": "scripted_scorer", "text_embedder": "scripted",
    }  # fmt: skip
    paper = plan_cell(*CRAFTER, "method=dsadf")
    assert paper.id == plan_cell(*CRAFTER, "method=dsadf", "models=paper").id
    assert {part.name for part in paper.models} == {"openai", "transformers_text_embedder"}
    with_performer = plan_cell(*DSADF, "models=oracle", "performer=openai", "performer.temperature=0.5")
    assert models(with_performer)["performer"] == "openai" and models(with_performer)["planner"] == "oracle_planner"


def test_what_stands_in_is_told_by_row_name_and_record_and_is_in_no_id() -> None:
    plan = matrix.plan([*DSADF, "models=oracle"])
    (cell,) = plan.cells
    assert "models=oracle (scorer: scripted; text_embedder: scripted)" in plan.row(cell)
    usual = plan_cell(*DSADF)
    assert usual.standing.roles == () and "models=" not in usual.variant and "stand_ins" not in record(usual)
    restored = recorded(record(cell))
    assert (restored.id, restored.variant) == (cell.id, cell.variant)
    assert record(cell)["stand_ins"] == {
        "models": "oracle", "roles": {"scorer": "scripted", "text_embedder": "scripted"}
    }  # fmt: skip
    check_refused(
        "stand_ins for 'painter'", recorded, {**record(cell), "stand_ins": {"models": "", "roles": {"painter": ""}}}
    )


def test_a_stand_in_that_nothing_asks_is_not_told() -> None:
    words = (*DSADF, "models=oracle", "agent.trains=false", "agent.router=model")
    assert plan_cell(*words).variant == "agent.router=model, agent.trains=false"


def test_a_set_of_one_suite_s_own_models_leaves_others_to_the_set_that_stands_in() -> None:
    def standing(*words: str) -> str:
        return str(plan_cell(*words, "profile=smoke").standing)

    assert standing("method=kagi", "suite=bin_sorting") == ""
    stand_ins = "scripted (classifier: oracle; waypoints: oracle; segmenter: oracle)"
    assert standing("method=kagi", "suite=ogbench_scene", "task=drawer") == stand_ins
    assert standing("method=vlm_rb", "suite=bin_sorting") == "scripted (judge: oracle)"
    pictures = "tiny (feedback: scripted; embedder: scripted)"
    assert standing("method=lagea", "suite=metaworld_mt10", "task=reach", "models=tiny") == pictures
    room = ("method=dsadf", "suite=housekeep", "models=oracle")
    assert models(plan_cell(*room, "profile=smoke"))["planner"] == "scripted_planner"


def test_sets_sweep_and_those_that_give_the_same_cell_run_once() -> None:
    sweep = matrix.plan([*VLM_RB, "profile=smoke", "models=scripted,oracle"])
    assert [models(cell)["judge"] for cell in sweep.cells] == ["sprite", "oracle"]
    (single,) = matrix.plan(["suite=bin_sorting", "method=vlm_rb", "profile=smoke", "models=scripted,oracle"]).cells
    assert single.variant == "", "the variant names no set that uses its own part"
    mixed = matrix.plan(["suite=minigrid_doorkey", "method=uer,vlm_rb", "profile=smoke", "models=scripted,oracle"])
    assert [cell.names.method for cell in mixed.cells] == ["uer", "vlm_rb", "vlm_rb"]


def test_a_stage_has_its_command_s_set_unless_it_has_a_word_of_its_own() -> None:
    def stage(*words: str) -> Cell:
        cell = plan_cell(*CRAFTER, "method=ellm", "profile=smoke", *words)
        assert cell.stage is not None
        return cell.stage

    by_hand = plan_cell(*CRAFTER, "method=ellm", "profile=smoke", "goals=oracle", "text_embedder=scripted")
    assert plan_cell(*CRAFTER, "method=ellm", "profile=smoke", "models=oracle").id == by_hand.id
    assert models(stage())["goals"] == models(stage("models=scripted"))["goals"] == "scripted_goals"
    assert models(stage("pretraining.models=oracle"))["goals"] == "oracle_goals"
    both = ("method=linvit", "pretraining=ellm_exploration", "models=oracle", "pretraining.models=scripted")
    cell = plan_cell(*CRAFTER, *both, "profile=smoke")
    assert (models(cell)["prior"], models(cell.stages[0])["goals"]) == ("oracle_prior", "scripted_goals")
    assert models(stage("pretraining.profile=paper"))["goals"] == "openai", "the usual set of the stage's profile"
    swept = matrix.plan([*CRAFTER, "method=ellm", "profile=smoke", "models=scripted,oracle"]).cells
    assert [models(cell.stages[0])["goals"] for cell in swept] == ["scripted_goals", "oracle_goals"]
    assert swept[1].variant == "pretraining.models=oracle (text_embedder: scripted)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*DSADF, "models=orakel"), "unknown set of models 'orakel'; did you mean 'oracle'"),
        (("suite=classic", "method=uer", "models=oracle"), r"models=oracle is given, but .* \(uer\) have no role"),
        (
            ("suite=classic", "task=CartPole-v1", "method=vlm_rb", "profile=smoke"),
            "as 'judge', for which neither models=scripted nor models=oracle has a part on suite 'classic'",
        ),
        (
            (*DSADF, "performer.base_url=http://127.0.0.1:9"),
            "models=scripted fills the role performer with 'scripted_performer', which has no such setting; add "
            "performer=openai, or models=paper",
        ),
    ],
)
def test_what_a_set_does_not_have_is_named(words: tuple[str, ...], says: str) -> None:
    check_refused(says, matrix.plan, words)


ASKING = """
    from dataclasses import dataclass
    from typing import ClassVar

    from guidebench.harness.parts import AskingPart
    from guidebench.harness.plan.model_sets import ModelSet
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.guide("wondering")
    @dataclass(frozen=True)
    class Wondering(AskingPart):
        silent: bool = False
        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        needs: ClassVar = {"sage": "chat"}

        @property
        def unasked(self):
            return ("sage",) if self.silent else ()

        def dialogue(self, suite, task, role):
            return None


    register.method("wondering")(
        Method(summary="asks a sage", suite="minigrid_doorkey", guide="wondering", citation="% a test")
    )


    @register.model_set("small")
    class Small(ModelSet):
        '''Models of a few weights.'''
        name = "small"
        substitutes = ("scripted",)

        def words(self, role):
            if role.kind != "chat":
                return {}
            return {role.role: "transformers", f"{role.role}.model": "tiny", f"{role.role}.dtype": "float32"}
"""


@pytest.fixture
def wondering_method(plugin: Callable[..., Path]) -> None:
    entries = {kind: f"{name} = asking" for kind, name in
               (("guide", "wondering"), ("method", "wondering"), ("model_set", "small"))}  # fmt: skip
    plugin("asking", ASKING, entries)


def test_a_package_adds_a_set_whose_words_are_those_of_a_command(wondering_method: None) -> None:
    words = ("method=wondering", "task=5x5", "profile=smoke")
    by_hand = plan_cell(*words, "sage=transformers", "sage.model=tiny", "sage.dtype=float32")
    cell = plan_cell(*words, "models=small")
    assert (cell.id, cell.overrides, cell.variant) == (by_hand.id, by_hand.overrides, by_hand.variant)
    assert plan_cell(*words, "models=small", "sage.dtype=bfloat16").section("sage").dtype == "bfloat16"
    assert str(plan_cell(*VLM_RB, "profile=smoke", "models=small").standing) == "small (judge: scripted)"


def test_a_role_in_which_no_set_has_a_part_is_named_once_it_is_asked(wondering_method: None) -> None:
    words = ("method=wondering", "task=5x5", "profile=smoke")
    check_refused("needs a chat as 'sage', for which neither models=scripted nor models=oracle", plan_cell, *words)
    assert plan_cell(*words, "guide.silent=true").standing == StandIns("scripted")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (
            {"model_sets": {"scripted": {"sages": "scripted"}}},
            "has 'sages': 'scripted' in its set of models 'scripted'",
        ),
        ({"model_sets": {"scripted": {"sage.error": 0.5}}}, "has 'sage.error': 0.5 in its set of models"),
        ({"widths": {"size": "sage"}}, "has 'size': 'sage' in `widths`"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused_by_the_registry(
    wondering_method: None, declared: dict[str, Any], says: str
) -> None:
    from guidebench.harness import registry

    guide = registry.get("guide", "wondering")
    check_refused(says, registry.register.guide("doubting"), type("Doubting", (guide,), declared))


def test_a_width_follows_the_embedder_that_gives_it_unless_the_command_sets_it() -> None:
    def width(*words: str) -> int:
        return int(plan_cell(*DSADF, *words).section("agent").width)

    assert width() == width("text_embedder=scripted") == 1024 and width("text_embedder.width=384") == 384
    assert width("text_embedder=transformers", "text_embedder.model=gpt2") == 768
    assert plan_cell(*DSADF).settings["agent.width"].layer == "text_embedder 'scripted'"
    says = r"the text_embedder's vectors have 1024 numbers, and agent\.width=384; set agent\.width=1024, or leave"
    check_refused(says, plan_cell, *DSADF, "agent.width=384")
    unasked = plan_cell(*DSADF, "agent=seeing_dual_system", "agent.images=false")
    assert unasked.section("agent").image_width == 768, "the default stays where no model is asked"


def test_an_ablation_that_names_a_foundation_model_has_the_set_s_part_where_the_command_names_a_set() -> None:
    words = ("method=dsadf_transfer", *CRAFTER, "pretraining.task=deforestation", "profile=smoke")

    def ablated(*more: str) -> dict[str, list[str]]:
        plan = variations.ablations(matrix.plan([*words, *more]), ["performer", "threshold"])
        return {plan.matrix[cell.id].name: [part.name for part in cell.names.parts if part.role == "performer"]
                for cell in plan.cells}  # fmt: skip

    with_set = ablated("models=scripted")
    assert {name for (name,) in with_set.values()} == {"scripted_performer"}
    assert [*with_set] == [
        "full: performer=llava-1.5 (models=scripted), performer=Llama-3.1-8B-Instruct (models=scripted)",
        "threshold=0.5", "threshold=0.9",
    ]  # fmt: skip
    assert ablated()["performer=llava-1.5"] == ["openai"]


def test_a_perturbation_matrix_has_the_cells_whose_judge_sees_frames_and_the_others_once() -> None:
    plan = variations.perturbations(matrix.plan([*VLM_RB, "profile=smoke", "models=scripted,oracle"]), ["texture"])
    rows = [(models(cell)["judge"], plan.matrix[cell.id].name if cell.id in plan.matrix else "") for cell in plan.cells]
    assert rows == [("sprite", "standard"), ("sprite", "texture"), ("oracle", "")]
