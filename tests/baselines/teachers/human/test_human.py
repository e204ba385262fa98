"""A person as teacher: questions, labels, and a run that stops for them and goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.human.teacher import HumanTeacher
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import BudgetReached, Stopped
from guidebench.harness.interfaces import Coordinates
from tests.logs import log_rows

COORDINATES = (
    Coordinates("tcp", "the hand", (2, 0)),
    Coordinates("target", "where to", (3,), constant=True),
)
OBSERVATIONS = np.array(
    [[[1, 9, 2, 5], [1.00004, 9, -1e-9, 6]], [[3, 9, 4, 7], [np.nan, 9, np.inf, 8]]], np.float32
)  # [2, 2, 4]
PAIR = Pair(1, 42, OBSERVATIONS, np.full((2, 2), 99.0, np.float32), np.arange(12, dtype=np.uint8).reshape(2, 2, 3))


def test_a_question_tells_coordinates_and_snapshots_and_no_reward() -> None:
    ask = HumanTeacher("touch it", COORDINATES, True).question(PAIR)
    assert (ask.row, ask.key.tolist(), ask.to) == (1, [42], "human")
    assert json.loads(ask.content) == {
        "instruction": "touch it",
        "meanings": {"tcp": "the hand", "target": "where to"},
        "segments": [
            {"tcp": [[2.0, 1.0], [0.0, 1.0]], "target": [5.0]},
            {"tcp": [[4.0, 3.0], [None, None]], "target": [7.0]},
        ],
    }
    assert "-0.0" not in ask.content
    np.testing.assert_array_equal(ask.snapshots, np.arange(12).reshape(4, 3))


def test_where_no_words_tell_of_an_observation_all_of_it_is_told() -> None:
    pair = Pair(0, 0, np.ones((2, 3, 2), np.float32), np.zeros((2, 3), np.float32))
    ask = HumanTeacher("balance", (), False).question(pair)
    assert json.loads(ask.content)["segments"] == [{"observation": [[1.0, 1.0]] * 3}] * 2 and ask.snapshots is None


@pytest.mark.parametrize(
    ("label", "verdict"),
    [
        (0, Verdict("labelled", 0.0, True)),
        (1.0, Verdict("labelled", 1.0, True)),
        (0.5, Verdict("equal", 0.5, True)),
        (None, Verdict("skipped")),
        *((bad, Verdict("unreadable")) for bad in (3, -1, 0.4, float("nan"), True, "1", [1], {})),
    ],
)
def test_what_a_label_says(label: Any, verdict: Verdict) -> None:
    assert HumanTeacher("", (), False).verdict(PAIR, {"label": label}) == verdict


@pytest.mark.parametrize("value", [None, 1, [], "1", {}, {"label": 1, "why": ""}])
def test_an_answer_of_another_form_is_unreadable(value: Any) -> None:
    assert HumanTeacher("", (), False).verdict(PAIR, value) == Verdict("unreadable")


def test_it_asks_a_person() -> None:
    human = registry.get("teacher", "human")
    assert (human.needs, human.backend, human.delay) == ({"human": "human"}, "human", 1)
    assert HumanTeacher("", (), False).to == "human"


TINY = (
    "suite=classic", "task=Pendulum-v1", "method=pebble", "teacher=human", "training.steps=150",
    "evaluation.every=75", "evaluation.episodes=1", "learner.learning_starts=40", "learner.batch_size=16",
    "guide.pretraining=60", "guide.every=40", "guide.queries=3", "guide.budget=5", "guide.segment=4",
    "guide.hidden=[8]", "guide.updates_after_reset=3",
)  # fmt: skip
BOTH = (*TINY, "seeds=[0,1]")


def answer(study: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Answer the open questions as a person who prefers a large first entry, and return how many there were."""
    capsys.readouterr()
    assert cli.main(["label", str(study), "--list"]) == 0
    questions = json.loads(capsys.readouterr().out)
    rows = []
    for question in questions:
        first, second = (np.mean(segment["observation"], 0)[0] for segment in question["content"]["segments"])
        label = None if question["ordinal"] == 1 else 0.5 if abs(first - second) < 0.1 else int(second > first)
        rows.append({"run": question["run"], "ordinal": question["ordinal"], "label": label})
    file = study.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.main(["label", str(study), "--answers", str(file)]) == 0
    return len(questions)


def finish(begin: Callable[[], object], study: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    """Run and label by turns to the end, and return the number of questions at each stop."""
    stops = []
    while True:
        try:
            begin()
        except BudgetReached:
            stops.append(answer(study, capsys))
        else:
            return stops


def read_outputs(study: Path) -> dict[str, bytes]:
    names = ("evaluations.parquet", "labels.parquet", "policy.safetensors", "questions/*", "answers.jsonl")
    files = [path for name in names for path in study.glob(f"*/*/*/seed-*/{name}")]
    return {str(path.relative_to(study)): path.read_bytes() for path in files}


def test_a_run_stops_for_its_questions_and_ends_the_same_however_it_was_interrupted(
    train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uninterrupted = tmp_path / "whole"
    stops = finish(lambda: train(*BOTH, packs=[(0, 1)], directory=uninterrupted), uninterrupted, capsys)
    assert stops == [6, 4]  # of either seed three, two, and none once the budget is spent
    for run in uninterrupted.glob("*/*/*/seed-*"):
        rows = log_rows(run, "labels")
        assert [(row["asked"], row["step"], row["query"]) for row in rows] == [
            (60, 61, 0), (60, 61, 1), (60, 61, 2), (100, 101, 3), (100, 101, 4),
        ]  # fmt: skip
        labels = [json.loads(line)["label"] for line in (run / "answers.jsonl").read_text().splitlines()]
        assert [row.get("preference") for row in rows] == labels and rows[1]["outcome"] == "skipped"
        assert [row["kept"] for row in rows] == [label is not None for label in labels]
        assert len(list(run.glob("questions/*.npy"))) == 5
    broken = tmp_path / "broken"
    for moment, packs in ((30, [(0, 1)]), (20, [(0,), (1,)])):
        stop = (call == moment for call in range(1, 10_000)).__next__
        with pytest.raises(Stopped):
            train(*BOTH, packs=packs, directory=broken, checkpoint_every=25, stop=stop)
    for seed in (0, 1, 0, 1):
        with pytest.raises(BudgetReached):
            train(*BOTH, packs=[(seed,)], directory=broken, checkpoint_every=25)
    answer(broken, capsys)
    finish(lambda: train(*BOTH, packs=[(0, 1)], directory=broken, checkpoint_every=25), broken, capsys)
    assert read_outputs(broken) == read_outputs(uninterrupted) and len(read_outputs(uninterrupted)) > 12


def test_without_frames_nothing_is_stored_for_them(train, tmp_path: Path) -> None:
    with pytest.raises(BudgetReached):
        train(*TINY, "seeds=1", "teacher.frames=false", packs=[(0,)], directory=tmp_path / "study")
    (run,) = tmp_path.glob("study/*/*/*/seed-0")
    assert len(list(run.glob("questions/*.json"))) == 3
    assert not list(run.glob("questions/*.npy")) and not (run / "replay/snapshot.bin").exists()
