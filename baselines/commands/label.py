"""Answer the questions of runs whose teacher is a person: which of two segments is better?

Goes through the questions that runs of a study wait for: the task, coordinates of both segments, and a picture beside
the question where one can be drawn. Every answer is on disk before the next question is shown.

  bench label runs/NAME                        in the terminal
  bench label runs/NAME --list > open.json     the open questions, for another program or place
  bench label runs/NAME --answers FILE         answers from a file: JSON lines, or CSV if FILE ends in .csv, of `run`
                                               and `ordinal` as --list has them and `label`: 0 (the first is better),
                                               1 (the second), 0.5 (equal), null or skip (cannot be said)
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness.texts import one_line

if TYPE_CHECKING:
    from guidebench.baselines.teachers.human.files import PendingQuestion
    from guidebench.harness.records.study import StudyDirectory

HELP = "answer the questions of runs whose teacher is a person"
WORDS: Mapping[str, float | None] = {"1": 0, "2": 1, "0": 0.5, "s": None}
"""Typed word -> label, the probability that the second segment is preferred."""
PROMPT = "better: 1 or 2, 0 equal, s skip, b back, q quit? "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="directory of the study, as `bench run` printed it")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="print the open questions as JSON")
    how.add_argument("--answers", type=Path, metavar="FILE", help="take answers from FILE, all of them or none")
    parser.add_argument("--no-frames", action="store_true", help="draw no pictures")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.records.study import StudyDirectory

    study = StudyDirectory(args.study)
    if args.list:
        print(json.dumps([_listed(each) for each in _open(_waiting(study))], indent=1))
        return 0
    with _held(_waiting(study)) as waiting:
        _remark(waiting)
        if args.answers is not None:
            _take(args.answers, waiting)
        else:
            _converse(_open(waiting), frames=not args.no_frames)
        left = len(_open(waiting))
    if left:
        print(f"{_count(left, 'question')} left; go on with: bench label {shlex.quote(str(args.study))}")
    elif waiting:
        print(f"no question is left; continue the study with: {_command(study)}")
    else:
        print(f"no run of {args.study} waits for an answer")
    return 0


class Waiting(NamedTuple):
    """A run that waits for a person's answers."""

    name: str
    """Directory of the run, relative to the study's."""
    home: Path
    """That directory, which holds the run's lease."""
    path: Path
    """Where the run is written, with its questions and answers."""
    questions: Mapping[int, PendingQuestion]
    """Questions whose answers it waits for."""


class Open(NamedTuple):
    """An unanswered question."""

    name: str
    question: PendingQuestion


def _waiting(study: StudyDirectory) -> list[Waiting]:
    """Return the runs whose newest checkpoint holds questions to a person; UserError if no run of the study asks a
    person."""
    from guidebench.baselines.teachers.human import files as questions
    from guidebench.harness.errors import UserError
    from guidebench.harness.loop import checkpoints

    found, asked = [], False
    for entry, run in study.runs():
        if not (run.path / questions.QUESTIONS).is_dir():
            continue
        asked = True
        checkpoint = None if run.status == "finished" else checkpoints.newest(run.path)
        flying = checkpoint.state["loop"]["asks"].get("human", {}).get("asks", ()) if checkpoint else ()
        mine = {int(each["ordinal"]): questions.read(run.path, int(each["ordinal"])) for each in flying}
        if mine:
            found.append(Waiting(f"{entry['directory']}/{run.home.name}", run.home, run.path, mine))
    if not asked:
        raise UserError(f"no run of {study.path} has asked a person; a study does with `bench run … teacher=human`")
    return found


@contextmanager
def _held(runs: Sequence[Waiting]) -> Iterator[list[Waiting]]:
    """Lock the runs that no other process writes, for the duration of the context; UserError if there is none."""
    from guidebench.harness.errors import UserError
    from guidebench.harness.records import leases
    from guidebench.harness.records.leases import Lease

    locks, found = [], []
    try:
        for run in runs:
            lock = Lease(run.home, "run")
            try:
                lock.acquire(tell=leases.warn)
            except UserError:
                _say(f"{run.name} is being trained or labelled by another process; its questions are left out")
                continue
            locks.append(lock)
            found.append(run)
        if runs and not found:
            raise UserError("every run that waits for answers is being trained or labelled by another process")
        yield found
    finally:
        for lock in locks:
            lock.release()


def _open(runs: Sequence[Waiting]) -> list[Open]:
    from guidebench.baselines.teachers.human import files as questions

    return [
        Open(run.name, question)
        for run in runs
        for answered in [questions.latest(run.path)]
        for question in run.questions.values()
        if (question.ordinal, question.digest) not in answered
    ]


def _listed(each: Open) -> dict[str, Any]:
    question = each.question
    return {"run": each.name, "ordinal": question.ordinal, "step": question.step, "content": question.content}


def _remark(runs: Sequence[Waiting]) -> None:
    """Warn of answers on disk that do not count."""
    from guidebench.baselines.teachers.human import files as questions

    for run in runs:
        seen: dict[int, int] = {}
        for answer in questions.answers(run.path):
            where = f"{run.path / questions.ANSWERS}, line {answer.line}"
            asked = run.questions.get(answer.ordinal)
            if asked is not None and answer.digest != asked.digest:
                _say(
                    f"{where}: answers another question {answer.ordinal} than the one that is asked; it does not count"
                )
            elif asked is None and not questions.file_of(run.path, answer.ordinal).exists():
                _say(f"{where}: there is no question {answer.ordinal}; it does not count")
            elif answer.ordinal in seen:
                _say(
                    f"{where}: answers question {answer.ordinal} again, as line {seen[answer.ordinal]} does; it counts"
                )
            seen[answer.ordinal] = answer.line


def _converse(asked: Sequence[Open], frames: bool) -> None:
    """Put the questions to the person at the terminal, until all are answered or the person quits."""
    from guidebench.baselines.teachers.human import display
    from guidebench.baselines.teachers.human import files as questions
    from guidebench.harness.errors import UserError

    pictures = display.Pictures() if frames else None
    meanings: Mapping[str, str] = {}
    at = 0
    while at < len(asked):
        name, question = asked[at]
        pair = display.Pair(question)
        print(f"\nquestion {at + 1} of {len(asked)}: {one_line(name)}, step {question.step:,}")
        print(f"task: {one_line(pair.instruction)}")
        if pair.meanings != meanings:
            meanings = pair.meanings
            print("\n".join(f"  {one_line(thing)}: {one_line(meanings[thing])}" for thing in meanings))
        print("\n".join(["", *pair.lines(), ""]))
        if pictures is not None:
            try:
                picture = pictures(question)
            except UserError as error:
                _say(f"no pictures: {error}")
                pictures = None
            else:
                print("no picture" if picture is None else f"picture, segment 1 above segment 2: {picture}")
        word = _word()
        if word == "q":
            return
        if word == "b":
            at = max(at - 1, 0)
            continue
        questions.answer(question, WORDS[word])
        at += 1


def _word() -> str:
    """Return the typed word, or `q` at the end of the input."""
    while True:
        try:
            word = input(PROMPT).strip().lower()
        except EOFError:
            print()
            return "q"
        if word in (*WORDS, "b", "q"):
            return word


def _take(file: Path, runs: Sequence[Waiting]) -> None:
    """Record the answers of a file after validating all of them; if a question is answered twice, the last answer
    counts."""
    from guidebench.baselines.teachers.human import files as questions
    from guidebench.harness.errors import UserError

    by_name = {run.name: run for run in runs}
    before = {(run.name, ordinal) for run in runs for ordinal, _ in questions.latest(run.path)}
    taken: dict[tuple[str, int], tuple[PendingQuestion, float | None]] = {}
    for line, row in _rows(file):
        where = f"{file}, line {line}"
        if row is None or not {"run", "ordinal", "label"} <= row.keys():
            raise UserError(f"{where}: expected run, ordinal and label, as `bench label --help` tells")
        run, ordinal, label = row["run"], row["ordinal"], row["label"]
        if not isinstance(run, str) or run not in by_name:
            names = ", ".join(by_name) or "none"
            raise UserError(f"{where}: {_short(run)} is no run that waits for answers (those that do: {names})")
        if type(ordinal) is not int or ordinal not in by_name[run].questions:
            known = ", ".join(map(str, by_name[run].questions))
            raise UserError(f"{where}: {run} waits for no answer to question {_short(ordinal)} (it does to {known})")
        if not questions.is_label(label):
            raise UserError(f"{where}: label {_short(label)} is none of 0, 1, 0.5 and null")
        if (run, ordinal) in taken:
            _say(f"{where}: question {ordinal} of {run} is answered again; this answer counts")
        taken[run, ordinal] = by_name[run].questions[ordinal], label
    for question, label in taken.values():
        questions.answer(question, label)
    replaced = len(before & taken.keys())
    print(
        f"{_count(len(taken), 'answer')} taken" + (f", {replaced} of them in place of earlier ones" if replaced else "")
    )


def _rows(file: Path) -> list[tuple[int, dict[str, Any] | None]]:
    """Return line number and content of each table row, None for an unreadable one."""
    from guidebench.harness import reader_process

    return reader_process.read(f"{file}: reading its answers", file, _parsed_rows, file)


def _parsed_rows(file: Path) -> list[tuple[int, dict[str, Any] | None]]:
    return list(_each_row(file))


def _each_row(file: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    import csv
    import io

    from guidebench.harness.errors import UserError

    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({error})") from None
    if file.suffix.lower() == ".csv":
        reader = csv.DictReader(io.StringIO(text, newline=""))
        try:
            for cells in reader:
                told = {str(name).strip(): str(cell or "").strip() for name, cell in cells.items()}
                yield reader.line_num, {name: cell if name == "run" else _number(cell) for name, cell in told.items()}
        except csv.Error as error:
            raise UserError(f"{file}, line {reader.line_num}: {error}") from None
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            row = found if isinstance(found, dict) else None
            yield number, {**row, "label": None} if row and row.get("label") == "skip" else row


def _number(cell: str) -> Any:
    """Return the value of a CSV cell: a whole number, another number, None for `skip`, or the text itself."""
    if cell.lower() in ("skip", "null"):
        return None
    try:
        value = float(cell)
    except ValueError:
        return cell
    return int(value) if value.is_integer() else value


def _command(study: StudyDirectory) -> str:
    """Return the command that began the study, quoted for a shell."""
    return one_line(shlex.join(map(str, study.read()["command"])))


def _short(value: Any) -> str:
    """Return a value from a file, shortened for an error message."""
    return ascii(value)[:80]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say(text: str) -> None:
    print(text, file=sys.stderr)
