"""`models=placebo models.placebo=PLACE` names a placebo in every open role; it is identified by its answers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.models import answer_records
from guidebench.harness.models.calls import ChatCall, ChoiceCall, EmbedCall, Message
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.answers import FILE, AnswerRecord, write_records
from guidebench.harness.run import readiness
from tests.refusals import check_refused

ELLM = ("suite=housekeep", "method=ellm_exploration", "profile=smoke", "seeds=1")
ROLES = ("goals", "text_embedder")


def goals(count: int, first: int = 0) -> list[AnswerRecord]:
    calls = [ChatCall((Message("user", (str(number),)),), {"type": "object"}) for number in range(first, first + count)]
    return [
        answer_records.of_call("goals", f"{number:064x}", call, {"goals": []}) for number, call in enumerate(calls)
    ]  # fmt: skip


def vectors(count: int, width: int = 3) -> list[AnswerRecord]:
    return [
        answer_records.of_call(
            "text_embedder", f"{number:064x}", EmbedCall((str(number),)), np.ones((1, width), np.float32)
        )
        for number in range(count)
    ]  # fmt: skip


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / FILE, [*goals(60), *vectors(60)])
    return tmp_path / FILE


def plan_cell(*words: object) -> Cell:
    (cell,) = matrix.plan([*ELLM, *map(str, words)]).cells
    return cell


def placebo(source: Path, *words: str) -> Cell:
    return plan_cell("models=placebo", f"models.placebo={source}", *words)


def missing(words: Sequence[object]) -> list[str]:
    return readiness.missing(matrix.plan([*ELLM, *map(str, words)]), Path("study"))


def test_the_word_stands_for_a_placebo_in_every_open_role(answers: Path) -> None:
    cell = placebo(answers)
    by_hand = plan_cell(*(word for role in ROLES for word in (f"{role}=placebo", f"{role}.source={answers}")))
    assert cell.id == by_hand.id and cell.backend == "placebo" and cell.model == "placebo"
    assert "source" not in cell.variant and "digest" not in cell.variant
    assert cell.id != plan_cell("models=scripted").id
    mixed = placebo(answers, "goals=scripted")
    assert {part.role: part.name for part in mixed.models} == {"goals": "scripted_goals", "text_embedder": "placebo"}
    assert recorded(record(cell)).id == cell.id


def test_a_placebo_is_its_answers_wherever_they_lie(answers: Path, tmp_path: Path) -> None:
    before, digests = placebo(answers).id, placebo(answers).digests
    (run := tmp_path / "study/suite/task/method-0/seed-0").mkdir(parents=True)
    answers.rename(run / FILE)
    for place in (run / FILE, run, run.parent, tmp_path / "study"):
        assert placebo(place).id == before
    elsewhere = ["guide.width=3", *(f"{role}.digest={digests[role]}" for role in ROLES)]
    assert placebo(tmp_path / "nowhere", *elsewhere).id == before
    assert all(digests.values()) and len({*digests.values()}) == 2
    write_records(answers, [*goals(60, first=1), *vectors(60)])
    changed = placebo(answers)
    assert changed.id != before and changed.digests["text_embedder"] == digests["text_embedder"]
    check_refused("goals.digest=", placebo, answers, *elsewhere)


def test_words_that_lack_each_other_are_refused(answers: Path) -> None:
    check_refused(r"models=placebo is given without models\.placebo=FILE\|STUDY; add it", plan_cell, "models=placebo")
    check_refused("is given without models=placebo; add it, or leave out", plan_cell, f"models.placebo={answers}")
    check_refused(
        "without models=placebo", plan_cell, "models=scripted", f"models.placebo={answers}"
    )  # fmt: skip
    check_refused("'scripted' takes nothing", plan_cell, "models=scripted", "models.scripted=x")
    check_refused(r"name its file or study with goals\.source=", plan_cell, "goals=placebo")


def test_answers_that_are_missing_few_or_of_other_roles_are_named(answers: Path, tmp_path: Path) -> None:
    nowhere = missing(["models=placebo", f"models.placebo={tmp_path / 'nowhere'}"])
    assert sorted(reason.partition(":")[0] for reason in nowhere) == [
        f"{role}.source={tmp_path / 'nowhere'}" for role in ROLES
    ]
    assert missing(["models=placebo", f"models.placebo={answers}"]) == []
    write_records(answers, [*goals(49), *vectors(50)])
    (warning,) = readiness.warnings(matrix.plan([*ELLM, "models=placebo", f"models.placebo={answers}"]))
    assert "role 'goals' has the answers to 49 distinct questions, and at least 50" in warning
    write_records(answers, goals(60))
    check_refused(
        r"text_embedder.source=.* it holds answers of goals and none of text_embedder.*text_embedder=…",
        placebo,
        answers,
    )
    assert placebo(answers, "text_embedder=scripted").id
    write_records(answers, [])
    check_refused("it holds no answers", placebo, answers)
    write_records(answers, [record._replace(role="goals") for record in vectors(60)])
    check_refused("it is asked for chat, and goals.source", placebo, answers, "text_embedder=scripted")


def test_settings_follow_the_width_of_the_answers(answers: Path) -> None:
    check_refused("the text_embedder's vectors have 3 numbers", placebo, answers, "guide.width=4")
    assert placebo(answers).settings["guide.width"].value == 3


def test_a_stage_takes_over_the_placebo_or_has_one_of_its_own(answers: Path) -> None:
    words = ["suite=housekeep", "method=ellm", "profile=smoke", "pretraining.guide.width=3", "seeds=1"]

    def of_stage(*more: str) -> set[str]:
        (cell,) = matrix.plan([*words, *more]).cells
        return {part.name for stage in cell.stages for part in stage.models}

    assert of_stage("models=placebo", f"models.placebo={answers}") == {"placebo"}
    assert of_stage("pretraining.models=placebo", f"pretraining.models.placebo={answers}") == {"placebo"}
    check_refused("without models=placebo", of_stage, f"pretraining.models.placebo={answers}")


def test_an_ablation_of_a_placebo_keeps_its_answers(answers: Path) -> None:
    plan = matrix.plan([*ELLM, "models=placebo", f"models.placebo={answers}"])
    ids = {cell.digests.get("goals") for cell in variations.ablations(plan).cells}
    assert ids == {placebo(answers).digests["goals"]}


def test_a_placebo_of_choices_is_in_the_form_and_settings_of_the_run_that_it_answers_for(answers: Path) -> None:
    words = ["suite=crafter_ood", "method=model_as_agent", "profile=smoke", "seeds=1", "models=placebo"]

    def of(record: AnswerRecord, *more: str) -> Cell:
        write_records(answers, [record])
        (cell,) = matrix.plan([*words, f"models.placebo={answers}", *more]).cells
        return cell

    rows = np.array([[-1, 0, 1]], np.float32)
    choice = ChoiceCall((Message("user", ("?",)),), "Action:", (" sleep",))
    weighed = answer_records.of_call("performer", "0" * 64, choice, rows)
    text = answer_records.of_call("performer", "0" * 64, ChatCall(choice.messages), "sleep")
    chosen = of(weighed, "performer.answer=choice", "performer.acts=sample")
    assert "performer.answer=choice" in chosen.variant and chosen.id != of(weighed, "performer.answer=choice").id
    check_refused("asked for chat, .* of the kind choice .*; set performer.answer as that run had it", of, weighed)
    check_refused("asked for choice, .* set performer.answer", of, text, "performer.answer=choice")
    check_refused(
        "performer.calibrate=true subtracts the answers to questions without content", of, weighed,
        "performer.answer=choice", "performer.calibrate=true",
    )  # fmt: skip
    check_refused("performer.acts=sample applies to choices", of, text, "performer.acts=sample")


def test_a_placebo_writes_in_the_form_of_the_run_that_it_answers_for(answers: Path) -> None:
    words = ["suite=housekeep", "method=linvit", "profile=smoke", "seeds=1", "models=placebo"]

    def of(answers_by_form: Sequence[str | dict[str, int]], form: str) -> Cell:
        call = ChatCall((Message("user", ("?",)),))
        write_records(
            answers, [answer_records.of_call("prior", f"{number:064x}", call, answer)
                      for number, answer in enumerate(answers_by_form)],
        )  # fmt: skip
        (cell,) = matrix.plan([*words, f"models.placebo={answers}", f"prior.answer={form}"]).cells
        return cell

    check_refused("prior.answer=text gives texts, .* set prior.answer=schema", of, [{"noop": 1}], "text")
    check_refused("prior.answer=schema gives objects .* set prior.answer=text", of, ["none"], "schema")
    assert of([{"noop": 1}], "schema").id != of(["none"], "text").id
    assert of(["none", {"noop": 1}], "schema").id and of(["none", {"noop": 1}], "text").id
