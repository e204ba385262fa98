"""Matrices of variations around a reference: their cells and names, and what is refused before any work."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record, recorded, write_cell
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.recipes import Method
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run.study import carry_out
from tests.refusals import check_refused

BASE = ["suite=minigrid_doorkey", "profile=smoke"]


def ablate(*overrides: str, only: tuple[str, ...] = ()) -> Plan:
    return variations.ablations(matrix.plan([*BASE, *overrides]), only)


def perturb(*overrides: str, only: tuple[str, ...] = ()) -> Plan:
    return variations.perturbations(matrix.plan([*BASE, *overrides]), only)


def cells_by_name(plan: Plan) -> dict[str, Cell]:
    return {plan.matrix[cell.id].name: cell for cell in plan.cells if cell.id in plan.matrix}


@pytest.fixture
def method() -> Iterator[Callable[..., None]]:
    """Return a function: `method({"name": layer})` registers vlm_rb's recipe with these ablations as the method
    `mine`."""

    def add(ablations: dict[str, dict]) -> None:
        registry.register.method("mine")(Method("of a test", replay="vlm_rb", ablations=ablations))

    with registry.fresh():
        yield add


def test_the_full_method_comes_first_and_every_declared_value_is_one_cell() -> None:
    plan = ablate("method=vlm_rb", only=("lambda_max",))
    assert [plan.matrix[cell.id].name for cell in plan.cells] == [
        "full: lambda_max=0.5",
        "lambda_max=null",
        "lambda_max=0.25",
        "lambda_max=0.75",
        "lambda_max=1",
    ]
    assert [cell.settings["replay.lambda_max"].value for cell in plan.cells] == [0.5, None, 0.25, 0.75, 1.0]
    assert {role.reference for role in plan.matrix.values()} == {plan.cells[0].id}


def test_cells_are_those_that_run_would_make_so_finished_runs_are_found_again() -> None:
    ran = matrix.plan([*BASE, "method=vlm_rb", "replay.lambda_max=0.5,null,0.25,0.75,1"]).cells
    assert [cell.id for cell in ablate("method=vlm_rb", only=("lambda_max",)).cells] == [cell.id for cell in ran]


def test_an_ablation_of_a_part_changes_part_and_settings_and_keeps_what_else_was_set() -> None:
    plan = ablate("method=vlm_rb", "judge.delay=32", only=("judge=oracle+false_positive=0.1",))
    full, noisy = plan.cells
    assert (full.names.part("judge"), noisy.names.part("judge")) == ("sprite", "oracle")
    assert (noisy.settings["judge.false_positive"].value, noisy.settings["judge.delay"].value) == (0.1, 32)
    assert noisy.settings["judge.false_positive"].layer == "ablation judge=oracle+false_positive=0.1"
    assert plan.row(noisy) == "vlm_rb (judge=oracle+false_positive=0.1; judge.delay=32) · oracle · smoke"
    assert plan.row(full) == "vlm_rb (full; judge.delay=32) · sprite · smoke"
    assert recorded(record(noisy)).id == noisy.id


def test_a_part_without_a_judge_drops_what_was_set_for_it(method) -> None:
    method({"replay=uer": {"replay": "uer"}})
    _, uniform = ablate("method=mine", "judge.delay=32").cells
    assert uniform.names.part("judge") == "" and uniform.names.part("replay") == "uer"
    assert not any(key.startswith(("judge.", "drawing.")) for key in uniform.settings)


def test_two_ablations_that_are_one_cell_run_once_under_both_names(method) -> None:
    method({"a": {"replay.clip_length": 8}, "b": {"replay.vlm_rb.clip_length": 8}, "c": {"replay.per.alpha": 0.1}})
    assert list(cells_by_name(ablate("method=mine"))) == ["full: c", "a, b"]


def test_each_swept_value_and_each_method_has_its_own_reference() -> None:
    plan = ablate("method=vlm_rb,per", "learner.lr=1e-3,1e-4", only=("td_boost", "new_priority"))
    references = [cell for cell in plan.cells if plan.matrix[cell.id].reference == cell.id]
    assert [(cell.names.method, cell.settings["learner.lr"].value) for cell in references] == [
        ("vlm_rb", 1e-3),
        ("vlm_rb", 1e-4),
        ("per", 1e-3),
        ("per", 1e-4),
    ]
    for cell in plan.cells:
        (reference,) = (other for other in references if other.id == plan.matrix[cell.id].reference)
        assert reference.settings["learner.lr"].value == cell.settings["learner.lr"].value


def test_a_field_that_is_both_swept_and_ablated_is_refused() -> None:
    check_refused(
        "would be part of two matrices", ablate, "method=vlm_rb", "replay.lambda_max=0.25,0.5", only=("lambda_max",)
    )


@pytest.mark.parametrize(
    ("ablation", "says"),
    [
        ("lamda_max", "unknown ablation of method 'vlm_rb': 'lamda_max'; did you mean 'lambda_max'"),
        ("lambda_max=0.3", r"'lambda_max=0.3' \(known: .*lambda_max=0.75"),
    ],
)
def test_an_ablation_that_does_not_exist_is_named_with_those_that_do(ablation: str, says: str) -> None:
    check_refused(says, ablate, "method=vlm_rb", only=("td_boost", ablation))


def test_a_method_without_ablations_or_without_the_chosen_ones_runs_as_it_is_beside_another() -> None:
    check_refused(r"'uer' declares no ablations \(those that do: .*per.*vlm_rb", ablate, "method=uer")
    check_refused("unknown ablation of method 'per': 'lambda_max'", ablate, "method=per", only=("lambda_max",))
    plan = ablate("method=vlm_rb,uer,per", only=("lambda_max",))
    alone = [cell.id for cell in matrix.plan([*BASE, "method=uer,per"]).cells]
    assert [cell.id for cell in plan.cells if cell.id not in plan.matrix] == alone
    assert {plan.matrix[cell.id].name for cell in plan.cells if cell.id in plan.matrix} >= {"full: lambda_max=0.5"}


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ({"judge": "orakel"}, "unknown judge 'orakel'; did you mean 'oracle'"),
        ({"replay.alpa": 1}, "it sets replay.alpa, which minigrid_doorkey/5x5 with .*replay vlm_rb.* does not have"),
        ({"replay.alpha": 2}, r"replay.alpha=2: expected float in \[0, 1\]"),
    ],
)
def test_an_ablation_that_does_not_fit_is_refused_unless_it_is_left_out(method, layer: dict, says: str) -> None:
    method({"odd=1": layer, "clip": {"replay.clip_length": 8}})
    check_refused(f"ablation 'odd=1' of method 'mine': {says}.*leave it out with --only clip", ablate, "method=mine")
    assert list(cells_by_name(ablate("method=mine", only=("clip",)))) == ["full", "clip"]


def test_perturbations_are_those_of_the_suite_s_drawing_beside_standard_frames() -> None:
    plan = perturb("method=vlm_rb", "task=5x5,6x6")
    rows = [
        (cell.names.task, plan.matrix[cell.id].name, cell.settings[variations.PERTURBATION].value)
        for cell in plan.cells
    ]
    assert rows == [
        (task, name, value)
        for task in ("5x5", "6x6")
        for name, value in [("standard", "none"), ("sprite_swap", "sprite_swap"), ("texture", "texture")]
    ]
    assert list(cells_by_name(perturb("method=vlm_rb", only=("texture",)))) == ["standard", "texture"]


def test_a_method_without_a_judge_runs_once_and_has_no_role() -> None:
    plan = perturb("method=vlm_rb,per")
    assert [cell.names.method for cell in plan.cells] == ["vlm_rb"] * 3 + ["per"]
    assert plan.cells[-1].id not in plan.matrix and plan.row(plan.cells[-1]) == "per · smoke"


@pytest.mark.parametrize(
    ("overrides", "only", "says"),
    [
        (("method=uer,per",), (), r"no chosen method has a judge \(uer, per\)"),
        (
            ("method=vlm_rb",),
            ("blur",),
            r"unknown perturbation of suite 'minigrid_doorkey': 'blur' \(known: sprite_swap",
        ),
        (("method=vlm_rb", "judge=oracle"), (), "judge 'oracle' reads the task's events"),
        (
            ("method=vlm_rb", "drawing.perturbation=texture"),
            (),
            "is what this command varies; choose perturbations with --only",
        ),
    ],
)
def test_what_cannot_be_perturbed_is_refused(overrides: tuple[str, ...], only: tuple[str, ...], says: str) -> None:
    check_refused(says, perturb, *overrides, only=only)


def test_frames_drawn_in_several_ways_are_refused_since_samples_are_of_one() -> None:
    plan = matrix.plan(["suite=minigrid_doorkey", "method=vlm_rb", "profile=smoke", "drawing.seed=0,1"])
    check_refused(r"drawing\.\* is given several values", variations.perturbations, plan)


def test_a_suite_without_perturbations_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from guidebench.harness.plan import config

    fields = config.cell_fields(perturb("method=vlm_rb").cells[0].names)
    drawing = {name: field for name, field in fields["drawing"].items() if name != "perturbation"}
    plan = matrix.plan([*BASE, "method=vlm_rb"])
    monkeypatch.setattr(config, "cell_fields", lambda names: {**fields, "drawing": drawing})
    check_refused("suite 'minigrid_doorkey' defines no perturbations of its frames", variations.perturbations, plan)


def test_the_command_and_the_study_s_name_tell_what_kind_of_matrix_it_is() -> None:
    plan = ablate("method=vlm_rb", "seeds=2", only=("td_boost", "delay"))
    assert plan.command == ("bench", "ablate", *BASE, "method=vlm_rb", "seeds=2", "--only", "td_boost,delay")
    assert plan.name.startswith("minigrid_doorkey-vlm_rb-ablation-smoke-")
    assert perturb("method=vlm_rb").name.startswith("minigrid_doorkey-vlm_rb-perturbation-smoke-")


def enter(plan: Plan, study: StudyDirectory) -> None:
    """Enter a plan's cells into study.json, as a command does before its runs."""
    entries = {
        cell.id: {
            "directory": cell.directory,
            "seeds": [0],
            "label_variant": plan.variant(cell),
            **plan.place(cell),
        }
        for cell in plan.cells
    }
    study.write(plan.name, list(plan.command), entries)


def test_roles_come_back_from_the_record_and_outlast_a_plain_run(tmp_path: Path) -> None:
    from guidebench import results

    plan = ablate("method=vlm_rb", only=("td_boost",))
    study = StudyDirectory(tmp_path)
    for entered in (plan, matrix.plan([*BASE, "method=vlm_rb", "replay.td_boost=true"])):
        enter(entered, study)
    for cell in plan.cells:
        write_cell(study, cell)
    full, boosted = results.study(tmp_path).cells
    assert full.matrix == ("ablation", "full: td_boost=false", full.id)
    assert boosted.matrix == ("ablation", "td_boost=true", full.id)
    assert (full.label, boosted.label) == tuple(map(plan.row, plan.cells))


def test_a_matrix_is_not_lost_to_another_around_the_same_cell(tmp_path: Path) -> None:
    output = f"output={tmp_path}"
    first, second = (
        ablate("method=vlm_rb", output, only=("td_boost",)),
        ablate("method=vlm_rb", output, only=("judge",)),
    )
    enter(first, StudyDirectory(tmp_path))
    enter(second, StudyDirectory(tmp_path))
    with pytest.raises(
        UserError, match=r"is 'full.*' in the ablation matrix of .* perturbation matrix.* 'standard'"
    ) as no:
        carry_out(perturb("method=vlm_rb", output))
    assert "choose another output=…" in str(no.value) and not list(tmp_path.glob("*/*/*/seed-*"))
    with pytest.raises(UserError, match="would lose it to this command's"):  # its ablation is the other's reference
        carry_out(ablate("method=vlm_rb", output, "replay.td_boost=true", only=("td_boost",)))
