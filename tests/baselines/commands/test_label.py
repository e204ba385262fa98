"""`bench label`: what a person is shown and types, answers from a file, and files that somebody has edited."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from guidebench.baselines.teachers.human import files as questions
from guidebench.harness.commands import cli
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import StudyDirectory
from tests import programs
from tests.logs import log_rows

RUN = (
    "run", "suite=classic", "task=Pendulum-v1", "method=pebble", "teacher=human", "profile=smoke", "seeds=2", "pack=2",
    "workers=1", "training.steps=70", "evaluation.every=70", "evaluation.episodes=1", "learner.learning_starts=30",
    "learner.batch_size=8", "guide.pretraining=40", "guide.queries=2", "guide.budget=2", "guide.segment=3",
    "guide.hidden=[8]", "guide.updates_after_reset=1", "report=false",
)  # fmt: skip


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose two runs wait for two answers each."""
    directory = tmp_path_factory.mktemp("label") / "study"
    ended = programs.bench(*RUN, f"output={directory}")
    assert ended.code == 1 and f"`bench label {directory}`" in ended.out, ended
    return directory


@pytest.fixture
def study(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "study"))


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """`bench(study, "--list", types="1\\n")` -> (exit code, standard output, standard error) of `bench label`."""

    def run(study: Path, *words: Any, types: str = "") -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(types))
        code = cli.main(["label", str(study), *map(str, words)])
        return code, *capsys.readouterr()

    return run


def runs(study: Path) -> list[Path]:
    return [run.path for _, run in StudyDirectory(study).runs()]


def names(study: Path) -> list[str]:
    return [str(run.relative_to(study)) for run in runs(study)]


def labels(study: Path) -> list[tuple[int, int, float | None]]:
    """Return (run, ordinal, label) of every answer."""
    return [
        (number, answer.ordinal, answer.label)
        for number, run in enumerate(runs(study))
        for answer in questions.answers(run)
    ]


def test_whoever_sits_there_sees_task_numbers_and_pictures_and_types_until_all_is_answered(bench, study: Path) -> None:
    code, out, err = bench(study, types="1\n2\nboth\n b\n0\ns\n1\n")
    assert code == 0 and not err
    assert labels(study) == [(0, 0, 0), (0, 1, 1), (0, 1, 0.5), (1, 0, None), (1, 1, 0)]
    headings = [line for line in out.splitlines() if line.startswith("question ")]
    assert [line.split(":")[0] for line in headings] == [f"question {number} of 4" for number in (1, 2, 3, 2, 3, 4)]
    assert names(study)[1] in headings[-1] and headings[-1].endswith("step 40")
    assert out.count("task: swing the pendulum up and keep it upright") == 6
    segments = questions.read(runs(study)[0], 0).content["segments"]
    start = [f"{value:.4f}" for segment in segments for value in segment["observation"][0]]
    assert next(line for line in out.splitlines() if " start " in line).split()[2:] == start
    for run in runs(study):
        for ordinal in (0, 1):
            picture = run / questions.QUESTIONS / f"{ordinal}.png"
            assert picture.read_bytes().startswith(b"\x89PNG") and f"segment 1 above segment 2: {picture}" in out
    assert "no question is left; continue the study with: bench run suite=classic" in out
    assert "'guide.hidden=[8]'" in out


def test_every_answer_is_on_disk_before_the_next_question(bench, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = []

    def typed(prompt: str) -> str:
        before.append(len(labels(study)))
        if len(before) == 3:
            raise KeyboardInterrupt
        return "1"

    with monkeypatch.context() as patched:
        patched.setattr("builtins.input", typed)
        assert bench(study, "--no-frames")[0] == 130
    assert before == [0, 1, 2] == [0, 1, len(labels(study))]
    code, out, _ = bench(study, "--no-frames", types="q\n")
    assert code == 0 and "question 1 of 2" in out and f"2 questions left; go on with: bench label {study}" in out
    code, out, _ = bench(study, "--no-frames", types="2\n")  # and then the input ends
    assert code == 0 and "1 question left" in out and len(labels(study)) == 3


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_open_questions_are_listed_and_answered_from_a_file(bench, study: Path, tmp_path: Path, kind: str) -> None:
    code, out, _ = bench(study, "--list")
    listed = json.loads(out)
    assert code == 0
    assert [(question["run"], question["ordinal"], question["step"]) for question in listed] == [
        (name, ordinal, 40) for name in names(study) for ordinal in (0, 1)
    ]
    assert set(listed[0]["content"]) == {"instruction", "meanings", "segments"}
    new_labels = [1, 0.5, None, 0]
    file = tmp_path / f"given.{kind}"
    rows = [
        {"run": question["run"], "ordinal": question["ordinal"], "label": new_labels[n]}
        for n, question in enumerate(listed)
    ]
    if kind == "jsonl":
        file.write_text("\n\n".join(map(json.dumps, rows)))
    else:
        text = "".join(f'"{row["run"]}", {row["ordinal"]},{"skip" if row["label"] is None else row["label"]}\r\n'
                       for row in rows)  # fmt: skip
        file.write_text("run,ordinal,label\r\n" + text, encoding="utf-8-sig")
    code, out, err = bench(study, "--answers", file)
    assert code == 0 and not err and "4 answers taken" in out and "no question is left" in out
    assert labels(study) == [(0, 0, 1), (0, 1, 0.5), (1, 0, None), (1, 1, 0)]
    assert bench(study, "--list")[1].strip() == "[]"


def test_of_two_answers_to_a_question_the_last_counts_and_that_is_said(bench, study: Path, tmp_path: Path) -> None:
    file = tmp_path / "given.jsonl"
    row = {"run": names(study)[0], "ordinal": 0}
    file.write_text("".join(json.dumps({**row, "label": label}) + "\n" for label in (0, 1)))
    code, out, err = bench(study, "--answers", file)
    assert code == 0 and f"{file}, line 2: question 0 of {row['run']} is answered again; this answer counts" in err
    assert labels(study) == [(0, 0, 1)] and "1 answer taken\n" in out
    file.write_text(json.dumps({**row, "label": 0.5}))
    code, out, err = bench(study, "--answers", file)
    assert "1 answer taken, 1 of them in place of earlier ones" in out
    assert labels(study) == [(0, 0, 1), (0, 0, 0.5)]
    code, _, err = bench(study, types="q\n")
    assert "line 2: answers question 0 again, as line 1 does; it counts" in err


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"run": RUN, "ordinal": 1, "label": 3}', "label 3 is none of 0, 1, 0.5 and null"),
        ('{"run": RUN, "ordinal": 1, "label": NaN}', "label nan is none of"),
        ('{"run": RUN, "ordinal": 1, "label": true}', "label True is none of"),
        ('{"run": RUN, "ordinal": 1, "label": "\\u001b[2J"}', r"label '\x1b[2J' is none of"),
        ('{"run": RUN, "ordinal": 9, "label": 1}', "waits for no answer to question 9 (it does to 0, 1)"),
        ('{"run": RUN, "ordinal": "1", "label": 1}', "waits for no answer to question '1'"),
        ('{"run": RUN, "ordinal": true, "label": 1}', "waits for no answer to question True"),
        ('{"run": "../../etc", "ordinal": 1, "label": 1}', "'../../etc' is no run that waits for answers"),
        ('{"run": 5, "ordinal": 1, "label": 1}', "5 is no run that waits"),
        ('{"run": RUN, "ordinal": 1}', "expected run, ordinal and label"),
        ("[1]", "expected run, ordinal and label"),
        ("{", "expected run, ordinal and label"),
        ("[" * 100_000, "expected run, ordinal and label"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_is_named_and_none_is_taken(
    bench, study: Path, tmp_path: Path, bad: str, says: str
) -> None:
    file = tmp_path / "given.jsonl"
    run = json.dumps(names(study)[0])
    file.write_text(f'{{"run": {run}, "ordinal": 0, "label": 1}}\n{bad.replace("RUN", run)}\n')
    code, out, err = bench(study, "--answers", file)
    assert code == 2 and f"{file}, line 2: " in err and says in err and not out and "\x1b" not in err
    assert labels(study) == []


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("run,ordinal,label\nRUN,0,2\n", 2, "label 2 is none of"),
        ("run,ordinal,label\nRUN,0,1\nRUN,1,nan\n", 3, "label nan is none of"),
        ("run,ordinal,label\nRUN,0,\n", 2, "label '' is none of"),
        ("run,ordinal,label\nRUN,0\n", 2, "label '' is none of"),
        ("run,label\nRUN,0\n", 2, "expected run, ordinal and label"),
        ("RUN,0,1\nRUN,1,1\n", 2, "expected run, ordinal and label"),
        ("run,ordinal,label\nRUN,0.5,1\n", 2, "waits for no answer to question 0.5"),
    ],
)
def test_a_line_of_a_table_that_does_not_fit_is_named(
    bench, study: Path, tmp_path: Path, text: str, line: int, says: str
) -> None:
    file = tmp_path / "given.csv"
    file.write_text(text.replace("RUN", names(study)[0]))
    code, _, err = bench(study, "--answers", file)
    assert code == 2 and f"{file}, line {line}: " in err and says in err and labels(study) == []


def test_a_file_that_cannot_be_read_is_named(bench, study: Path, tmp_path: Path) -> None:
    file = tmp_path / "given.csv"
    assert f"{file} cannot be read" in bench(study, "--answers", file)[2]
    file.write_bytes(b"\xff\xfe\x00")
    assert f"{file} cannot be read" in bench(study, "--answers", file)[2]


def test_answers_on_disk_that_do_not_count_are_told_of_and_their_questions_asked(bench, study: Path) -> None:
    run = runs(study)[0]
    lines = [{"ordinal": 0, "digest": "0" * 16, "label": 1}, {"ordinal": 77, "digest": "0" * 16, "label": 1}]
    (run / questions.ANSWERS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = bench(study, "--no-frames", types="q\n")
    assert code == 0 and "question 1 of 4" in out
    assert "answers.jsonl, line 1: answers another question 0 than the one that is asked; it does not count" in err
    assert "answers.jsonl, line 2: there is no question 77; it does not count" in err
    (run / questions.ANSWERS).write_text('{"ordinal": 0, "digest": "0", "label": 3}\n')
    code, _, err = bench(study, "--no-frames", types="1\n")
    assert code == 2 and "answers.jsonl, line 1: expected" in err


def test_a_question_that_is_damaged_is_named_and_without_its_snapshots_numbers_are_shown(bench, study: Path) -> None:
    file = runs(study)[0] / questions.QUESTIONS / "0.json"
    file.with_suffix(".npy").write_bytes(b"")
    code, _, err = bench(study, types="1\n1\n")
    assert code == 0 and len(labels(study)) == 2 and err.count("no pictures: ") == 1 and "0.npy" in err
    file.write_text(file.read_text().replace("swing", "sling"))
    code, _, err = bench(study, types="1\n")
    assert code == 2 and f"{file} is not what the run wrote" in err


def test_what_would_steer_the_terminal_is_escaped(bench, study: Path) -> None:
    run = runs(study)[0]
    content = questions.read(run, 0).content
    content["instruction"] = "\x1b]0;owned\x07 pwn"
    content["meanings"] = {"observation": "\x1b[2J"}
    questions.pose(run, 0, 40, json.dumps(content), None)
    _, out, _ = bench(study, types="q\n")
    assert "\x1b" not in out and "\x07" not in out
    assert r"task: \x1b]0;owned\x07 pwn" in out and r"observation: \x1b[2J" in out and "no picture" in out


def test_a_run_that_another_process_writes_is_left_out(bench, study: Path) -> None:
    first, second = (Lease(run, "run") for run in runs(study))
    first.acquire()
    code, out, err = bench(study, "--no-frames", types="1\n1\n")
    assert code == 0 and f"{names(study)[0]} is being trained or labelled" in err and "question 1 of 2" in out
    assert labels(study) == [(1, 0, 0), (1, 1, 0)]
    second.acquire()
    code, _, err = bench(study, types="1\n")
    assert code == 2 and "every run that waits for answers is being trained or labelled" in err
    first.release()
    second.release()
    assert bench(study, types="q\n")[0] == 0  # and lets go of them itself
    assert bench(study, types="q\n")[0] == 0


def test_a_study_that_asks_nobody_is_refused(bench, tmp_path: Path) -> None:
    code, _, err = bench(tmp_path)
    assert code == 2 and "is not a study" in err
    StudyDirectory(tmp_path).write("mine", [], {"id": {"directory": "a/b/c", "seeds": [0], "label_variant": ""}})
    code, _, err = bench(tmp_path)
    assert code == 2 and "no run of" in err and "teacher=human" in err


def test_a_labelled_study_is_finished_by_the_same_command_and_waits_no_more(bench, study: Path) -> None:
    assert bench(study, "--no-frames", types="1\n2\n1\n2\n")[0] == 0
    ended = programs.bench(*RUN, f"output={study}")
    assert ended.code == 0 and "2 finished" in ended.out, ended
    for run in runs(study):
        rows = log_rows(run, "labels")
        assert [(row["step"], row["preference"], row["outcome"]) for row in rows] == [
            (41, 0.0, "labelled"), (41, 1.0, "labelled"),
        ]  # fmt: skip
    code, out, _ = bench(study, types="1\n")
    assert code == 0 and out == f"no run of {study} waits for an answer\n"
