"""A stranger's configuration: whatever a command can make is accepted, and nothing that it sets can be left unsaid."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.results.submissions import private
from guidebench.results.verification.configuration import Altered, Unusable, configuration

Check = Callable[[dict[str, Any]], Cell]


@pytest.fixture
def checked(tmp_path: Path) -> Check:
    """Return a function that writes a cell record to its file and checks it by `configuration`."""

    def check(cell_record: dict[str, Any]) -> Cell:
        (tmp_path / "cell.json").write_text(json.dumps(cell_record))
        return configuration(tmp_path, cell_record["cell"])

    return check


def plan_cells(*words: str) -> Iterator[Cell]:
    """Yield the cells of `bench run`, `bench ablate` and `bench perturb` with these words; none if the words do not fit
    together."""
    try:
        plan = matrix.plan(words)
    except UserError:
        return
    yield from plan.cells
    for vary in (variations.ablations, variations.perturbations):
        try:
            yield from vary(plan).cells
        except UserError:
            continue


@pytest.mark.parametrize(("every", "share"), [(11, 5), pytest.param(3, 1, marks=pytest.mark.release)])
def test_every_method_ablation_and_perturbation_is_accepted(checked: Check, every: int, share: int) -> None:
    """Each method is planned on its own suite and on every third or eleventh of the others, half of them in the smoke
    profile and half in the paper's. Of the cells all or a fifth are checked."""
    methods = registry.names("method")
    cells = [
        cell
        for number, suite in enumerate(registry.names("suite"))
        for other, method in enumerate(methods)
        if suite == registry.get("method", method).suite or (number + other) % every == 0
        for cell in plan_cells(
            f"suite={suite}", f"method={method}", f"profile={('smoke', 'paper')[(number + other) % 2]}"
        )
    ]
    assert len(cells) > 100 and {cell.names.profile for cell in cells} == {"smoke", "paper"}
    assert len({cell.names.method for cell in cells}) > 0.9 * len(methods)
    for cell in list({cell.id: cell for cell in cells}.values())[::share]:
        assert checked(record(cell)).id == cell.id


DOORKEY = ("suite=minigrid_doorkey", "task=6x6", "profile=smoke")
ARM = ("suite=metaworld", "task=reach", "profile=smoke", "method=sac")
TAUGHT = (*ARM[:-1], "method=pebble")
STAGED = ("suite=classic", "task=CartPole-v1", "profile=smoke", "method=uer", "pretraining=per")
SERVED = ("judge=openai", "judge.model=org/name", "judge.base_url=http://localhost:1/v1")


@pytest.mark.parametrize(
    "words",
    [
        (*DOORKEY, "method=vlm_rb", "replay.lambda_max=0.25", "training.steps=1000"),
        (*DOORKEY, "method=vlm_rb", "judge=oracle", "learner=iqn"),
        (*DOORKEY, "method=vlm_rb", *SERVED),
        (*DOORKEY, "method=uer", "replay=per", "replay.alpha=0.5"),
        (*ARM, "suite.goal=hidden"),
        ("suite=housekeep", "task=task12", "profile=smoke", "suite.preferences=mine.csv", "suite.table=file-abc"),
        (*TAUGHT, "teacher=oracle"),
        (*STAGED, "pretraining.training.steps=700", "learner.lr=0.5"),
        (*STAGED, "pretraining.pretraining=relo", "pretraining.replay.alpha=0.3"),
        (*TAUGHT, "teacher=llm", "chat=openai", "chat.model=a", "chat.base_url=http://localhost:1/v1"),
    ],
)
def test_what_the_command_line_gives_is_accepted(checked: Check, words: tuple[str, ...]) -> None:
    cells = list(plan_cells(*words))
    assert cells
    for cell in cells:
        cell_record = private.without_servers(record(cell))  # as it is handed in
        assert checked(cell_record).id == cell.id


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*DOORKEY, "method=vlm_rb", "replay.lambda_max=0.25"), "replay.lambda_max is 0.25 and not "),
        ((*DOORKEY, "method=uer", "replay=per"), "its replay is 'per' and not 'uer'"),
        ((*DOORKEY, "method=uer", "learner=iqn"), "its learner is 'iqn' and not "),
        ((*DOORKEY, "method=vlm_rb", "drawing.seed=3"), "drawing.seed is 3 and not 0"),
        ((*ARM, "suite.goal=hidden"), "suite.goal is hidden and not observable"),
        ((*DOORKEY, "method=uer", "evaluation.episodes=9"), "evaluation.episodes is 9 and not "),
    ],
)
def test_an_override_left_unsaid_is_noticed(checked: Check, words: tuple[str, ...], message: str) -> None:
    cell = next(plan_cells(*words))
    with pytest.raises(Altered, match=f"{message}.*which its overrides do not say"):
        checked({**record(cell), "overrides": {}, "variant": ""})


def test_what_a_record_says_of_its_stage_is_checked_like_the_rest(checked: Check) -> None:
    cell_record = record(next(plan_cells(*STAGED, "pretraining.replay.alpha=0.3")))
    stage = cell_record["stage"]
    for message, changed in {
        "make another cell": {**stage, "settings": {**stage["settings"], "replay.alpha": {"value": 0.4}}},
        "steps is 1, ": {**stage, "steps": 1},
        "variant is .*make it .*learner.lr=0.7": {**stage, "overrides": {**stage["overrides"], "learner.lr": 0.7}},
        "variant is .*make it .pretraining=per.$": {**stage, "overrides": {}, "variant": ""},
    }.items():
        with pytest.raises((Altered, Unusable), match=message):
            checked({**cell_record, "stage": changed})
    with pytest.raises(Altered, match="make another cell"):
        checked({key: value for key, value in cell_record.items() if key != "stage"})
    stage_changes = {
        "overrides": {**stage["overrides"], "learner.lr": 0.7},
        "variant": "learner.lr=0.7, replay.alpha=0.3",
    }
    variant = "pretraining=per, pretraining.learner.lr=0.7, pretraining.replay.alpha=0.3"
    with pytest.raises(Altered, match=r"says that learner\.lr was overridden"):
        checked({**cell_record, "variant": variant, "stage": {**stage, **stage_changes}})


def test_a_record_names_no_file_that_is_opened_here(checked: Check) -> None:
    """A suite's files are not hashed into a cell's id, so a stranger may write any path; none of them is kept."""
    cell = next(plan_cells("suite=housekeep", "task=task12", "profile=smoke", "suite.preferences=/etc/secret.csv"))
    assert private.without_servers(record(cell))["settings"]["suite.preferences"]["value"] is None
    assert private.without_servers(record(cell))["overrides"]["suite.preferences"] is None
    read = checked(record(cell))
    assert read.id == cell.id and cell.section("suite").preferences == "/etc/secret.csv"
    assert read.section("suite").preferences is None
