"""A run of every method with a model keeps its answers, and the placebo of it starts and ends."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.errors import Stopped
from guidebench.harness.models import answer_files
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from tests.harness.models.canned import completion, serving
from tests.methods.contract import METHODS, PACKAGES, read_outputs

SEEDS = {"ellm": 3, "ellm_exploration": 3}
"""Method -> the seed of its runs, by which a question is asked; 1 for the others."""
ASKING = (
    "dsadf", "dsadf_transfer", "ellm", "ellm_exploration", "furl", "furl_no_goal", "kagi", "lagea", "lagea_released",
    "linvit", "liv", "liv_proj", "model_as_agent", "model_with_planner", "moka", "pebble_llm", "relay", "rl_sallm_f",
    "rl_vlm_f", "roboclip", "robofume", "tadpole", "vlm_rb", "vlm_rm",
)  # fmt: skip
"""The methods that ask a model, or whose pre-training stage does."""
LONGER = {
    "ellm": "pretraining.training.steps=400 pretraining.evaluation.every=400",
    "ellm_exploration": "training.steps=400 evaluation.every=400",
}
"""Method -> what its row of the contract needs for a question to be asked by this seed, since ELLM asks about states
with deeds alone."""
QUICK = ("linvit", "rl_vlm_f", "vlm_rb")
"""One of each kind of question: awaited actions, dialogues of two calls, and clips."""


def row_words(name: str) -> list[str]:
    """Return the words of a method's row, with hand-written models in place of served and local ones."""
    last = {word.partition("=")[0]: word for word in f"{METHODS[name].words} {LONGER.get(name, '')}".split()}
    others = {key for key, word in last.items() if word.endswith(("=openai", "=transformers"))}
    words = [word for key, word in last.items() if key.partition(".")[0] not in others]
    return [*words, f"seeds=[{SEEDS.get(name, 1)}]", *(["models=scripted"] if others else [])]


def cells(words: list[str]) -> tuple[Cell, ...]:
    return matrix.plan([*words, "profile=smoke"]).trained


def test_every_method_that_asks_a_model_is_in_the_table() -> None:
    assert [name for name in METHODS if any(cell.models for cell in cells(row_words(name)))] == [*ASKING]


def placebo_words(words: list[str], study: Path) -> list[str]:
    """Return the words of the placebo of a run: a placebo in each role that has answers, after the same delay."""
    sets = answer_files.summary(str(study)) or {}
    assert sets, "it asked nothing"
    model_roles = {part.role for cell in cells(words) for part in cell.models}
    assert sets.keys() <= model_roles

    def stays(word: str) -> bool:
        key = word.partition("=")[0]
        role = key.removeprefix("pretraining.").partition(".")[0]
        return role not in sets or (key.endswith(".delay") and role in model_roles)

    rest = [
        f"{role}=scripted" for role in model_roles - sets.keys() if not any(w.startswith(f"{role}=") for w in words)
    ]
    keeps = [word for word in words if stays(word) and not word.startswith("models=")]
    return [*keeps, *rest, "models=placebo", f"models.placebo={study}"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.release] * (name not in QUICK)) for name in ASKING]
)
def test_the_placebo_of_a_run_starts_and_ends(
    name: str, train: Callable[..., Path], tmp_path: Path, opengl: None
) -> None:
    words, packs = row_words(name), [(SEEDS.get(name, 1),)]
    for suite, package in PACKAGES.items():
        if suite in words:
            pytest.importorskip(package)
    study = train(*words, packs=packs, answers=True)
    placebo = train(*placebo_words(words, study), packs=packs)
    ledgers = [line for path in placebo.rglob("ledger.jsonl") for line in path.read_text().splitlines()[-1:]]
    counts = [count for ledger in ledgers for count in json.loads(json.loads(ledger)["roles"]).values()]
    assert any(questions > failures for questions, failures, *_ in counts)
    assert not any(placebo.rglob("answers.parquet")), "off unless a command says otherwise"
    assert not (placebo / "models").exists(), "nothing is recorded and nothing is spent"


def test_a_placebo_is_the_same_in_another_packing_and_after_a_stop(
    train: Callable[..., Path], tmp_path: Path, opengl: None
) -> None:
    words = [*row_words("linvit")[:-1], "seeds=[0,1]"]
    guided = train(*words, packs=[(0, 1)], answers=True)
    placebo = placebo_words(words, guided)
    together = train(*placebo, packs=[(0, 1)], answers=True)
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps == 35

    with pytest.raises(Stopped):
        train(*placebo, packs=[(1,)], directory=tmp_path / "stopped", answers=True, checkpoint_every=20, stop=stop)
    assert not any((tmp_path / "stopped").rglob("answers.parquet"))
    train(*placebo, packs=[(0,), (1,)], directory=tmp_path / "stopped", answers=True)
    first, second = read_outputs(together), read_outputs(tmp_path / "stopped")
    assert first == second and sum(name.endswith("answers.parquet") for name in first) == 2
    answers = [content for name, content in first.items() if name.endswith("answers.parquet")]
    assert answers[0] != answers[1], "the draws depend on the seed"
    assert read_outputs(guided) != first


def test_the_placebo_of_a_run_that_chooses_gives_choices(train: Callable[..., Path]) -> None:
    words = [*row_words("linvit"), "prior.answer=choice"]
    guided = train(*words, packs=[(1,)], answers=True)
    (path,) = guided.rglob("answers.parquet")
    kinds = {record.kind for record in answer_files.read(path)}
    assert kinds == {"choice"}
    placebo = train(*placebo_words(words, guided), "prior.answer=choice", packs=[(1,)])
    (ledger,) = placebo.rglob("ledger.jsonl")
    ((questions, failures, *_),) = json.loads(json.loads(ledger.read_text().splitlines()[-1])["roles"]).values()
    assert questions > 0 and failures == 0
    assert read_outputs(guided) != read_outputs(placebo)


def test_the_placebo_of_a_run_that_writes_objects_gives_objects(train: Callable[..., Path]) -> None:
    def weigh(path: str, body: dict[str, Any], headers: Mapping[str, str]) -> tuple[Any, ...]:
        """Return one weight for each action of the schema, by the length of the state that is asked about."""
        if path != "/chat/completions":
            return 200, {"object": "list", "data": [{"id": "any", "object": "model"}]}
        actions = body["response_format"]["json_schema"]["schema"]["properties"]["weights"]["properties"]
        length = len(str(body["messages"]))
        return 200, completion(
            json.dumps({"weights": {name: 1 + (length + at) % 9 for at, name in enumerate(actions)}})
        )

    words = [word for word in row_words("linvit") if not word.startswith("prior")]
    with serving(weigh) as url:
        model = ("prior=openai", f"prior.base_url={url}", "prior.model=any", "prior.answer=schema")
        guided = train(*words, *model, packs=[(1,)], answers=True)
    placebo = train(*placebo_words(words, guided), "prior.answer=schema", packs=[(1,)])
    (ledger,) = placebo.rglob("ledger.jsonl")
    ((questions, failures, *_),) = json.loads(json.loads(ledger.read_text().splitlines()[-1])["roles"]).values()
    assert questions > 0 and failures == 0
