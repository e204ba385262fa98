"""Questions to models as the models saw them, texts and images, made again from a run's logs.

A log with the columns of `logs.shows_questions` holds a question's content and the snapshot that it is about. The frame
is drawn from the snapshot as the run's models saw frames, and the dialogue of the part that asked is begun again with a
model that gives no answer, so that its first call shows what a model was given: hand-written, privileged or real, on
record or not. They are written to RUN/questions, for the run's page and for sections of reports:
LOG-ROLE-00003-0.png is the first image of the question about episode 3, LOG-ROLE-00003-frame.png the frame it was drawn
from, and LOG-ROLE-00003.json describes them. Logs may come from strangers: they are read, and their snapshots drawn, in
a separate process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Dialogue
from guidebench.harness.logs import EPISODE, QUESTION, ROLE, SNAPSHOT, Log, describes_episodes, shows_questions
from guidebench.harness.models.calls import Answer, Call, image_digest
from guidebench.harness.plan import answering
from guidebench.harness.plan.config import Cell
from guidebench.harness.playback.logged_frames import encoded, rows_of, size_of, unpacked
from guidebench.harness.records.files import write_bytes, write_json
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import QUESTIONS

MOST = 8
"""Most questions of a log that are drawn, evenly chosen (choice: as many episodes as a run's page shows)."""
PATIENCE = 120.0
"""Seconds for reading and drawing."""


class AskedEpisode(NamedTuple):
    """A question about an episode of training."""

    about: dict[str, Any]
    """Content of its JSON file."""
    pictures: Mapping[str, bytes]
    """File name -> PNG."""


def write(run: Path, cell: Cell) -> str:
    """Draw the questions of each log that shows some, and return a message on what was written or refused, "" without
    such a log. Raise UserError if a file cannot be written."""
    suite, task = cell.section("suite"), cell.names.task
    drawing = cell.section("drawing") or suite.drawing()
    askers = {
        role: cell.section(speaker)
        for role in cell.sections
        for speaker in answering.speakers(cell.names.parts, role)[:1]
    }
    messages = []
    for log in (name for name, declared in cell.logs.items() if shows_questions(declared)):
        description = f"{run}: drawing the questions of its log {log!r}"
        try:
            questions = reader_process.call(
                description, PATIENCE, asked_episodes, run, log, dict(cell.logs), suite, drawing, task, askers
            )
        except UserError as error:
            messages.append(f"log {log}: no questions drawn ({error})")
            continue
        for question in questions:
            _save(run / QUESTIONS, question)
        numbers = ", ".join(str(question.about[EPISODE]) for question in questions)
        messages.append(
            f"log {log}: questions about the episodes {numbers} in {run / QUESTIONS}"
            if questions
            else f"log {log}: none"
        )
    return "\n".join(messages)


def asked_episodes(
    run: Path, log: str, declared: Mapping[str, Log], suite: Any, drawing: Any, task: str, askers: Mapping[str, Any]
) -> list[AskedEpisode]:
    """Return the questions to show, read and drawn in this process. `askers`: role -> the part that asks it. Raise
    UserError for a log that does not fit."""
    rows = sorted(rows_of(run, log, declared[log]), key=lambda row: (row[EPISODE], row[ROLE]))
    rows_by_log = {
        name: rows_of(run, name, declaration)
        for name, declaration in declared.items()
        if describes_episodes(declaration)
    }
    indices = np.unique(np.linspace(0, len(rows) - 1, min(MOST, len(rows))).round().astype(int))
    draw, expected = drawing.spawn(task), size_of(suite, task) if rows else 0
    by_name: dict[str, AskedEpisode] = {}
    for row in (rows[number] for number in indices.tolist()):
        role, episode = row[ROLE], row[EPISODE]
        subject = f"the log {log!r}, episode {episode}"
        if role not in askers:
            raise UserError(f"{subject}: nothing asks a model in the role {role[:60]!r}")
        frames = draw(unpacked(row[SNAPSHOT], expected, subject)[None])
        call = _first_call(askers[role].dialogue(suite, task, role), row[QUESTION], frames, subject)
        name = f"{log}-{role}-{episode:05d}"
        if name in by_name:
            raise UserError(f"{subject}: the question in the role {role!r} is there twice")
        messages, pictures = _messages(call, name)
        answers = {
            column: value
            for log_rows in rows_by_log.values()
            for answer in [answer for answer in log_rows if answer.get(EPISODE) == episode][-1:]
            for column, value in answer.items()
            if isinstance(value, (str, bool))
        }
        about = {
            "schema": SCHEMA_VERSION, "name": name, "log": log, "role": role, "episode": episode, "step": row["step"],
            "frame": f"{name}-frame.png", "messages": messages,
            "told": [{"name": column, "text": _text(value)} for column, value in answers.items()],
        }  # fmt: skip
        by_name[name] = AskedEpisode(about, {**pictures, f"{name}-frame.png": encoded(frames[0])})
    return [*by_name.values()]


def _first_call(dialogue: Dialogue, content: str, frames: Array, subject: str) -> Call:
    """Return the first call that a dialogue makes for a question. Raise a UserError that begins with `subject` if the
    question is invalid or leads to no call."""
    calls: list[Call] = []

    async def ask(call: Call) -> Answer:
        calls.append(call)
        return Answer(None, "malformed")

    try:
        asyncio.run(dialogue(json.loads(content), frames, ask))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise UserError(f"{subject}: its question cannot be put again ({error})") from None
    if not calls:
        raise UserError(f"{subject}: its question makes no call to a model")
    return calls[0]


def _messages(call: Call, name: str) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Return the messages of a call as JSON values, in which images are named by their files, and file name -> PNG."""
    files = {image_digest(image): (f"{name}-{number}.png", image) for number, image in enumerate(call.images())}
    form = call.form(lambda image: {"image": image_digest(image)})
    messages = [
        {"role": title, "parts": [_part(part, files) for part in content]} for title, content in call.sections(form)
    ]
    return messages, {file: encoded(image) for file, image in files.values()}


def _part(part: Any, files: Mapping[str, tuple[str, Array]]) -> dict[str, str]:
    return {"text": part} if isinstance(part, str) else {"file": files[part["image"]][0]}


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


def _save(directory: Path, episode: AskedEpisode) -> None:
    about = {name: value for name, value in episode.about.items() if name != "name"}
    try:
        for file, png in episode.pictures.items():
            write_bytes(directory / file, png)
        write_json(directory / f"{episode.about['name']}.json", about)
    except OSError as error:
        raise UserError(f"{directory} cannot be written ({error.strerror or error})") from None
