"""ELLM's questions for goals: how many a million steps raise, what a served model takes for them, the guide's own time.

    python -m benchmarks.ellm_questions [--steps 50000] [--latency 0.3] [--questions 20] [--task mine_diamond]

Two players play a task of crafter_ood: one chooses uniformly among all actions, one among those that are possible, so
that it meets far more states. Questions are the distinct texts that a guide would ask about: of all states, of all
states without what the player feels, and of the states in which a step did something. From the last two counts, at a
fifth of the steps and at their end, a power law tells those of a million steps. The served model is a loopback server
that delays each answer by `--latency` seconds, asked through the same process, desk and cassette as in a run. The
guide's time is that of a step whose texts are all known, with one and with five seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.judged_training import served
from benchmarks.table import Line
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Question, StepWords, Transition
from guidebench.harness.loop.build import make_build
from guidebench.harness.models import study_models
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import matrix
from guidebench.methods.ellm.goals import question_state

KINDS = ("all states", "all states, feelings left out", "states with a deed")
MILLION = 1_000_000


def counted(suite: Any, task: str, steps: int, possible: bool) -> dict[str, Any]:
    """Play and return the number of distinct texts of each of `KINDS` at growing numbers of steps, the share of steps
    that did something, and the microseconds that the text of a state takes."""
    played, deeds, rng = suite.make(task), frozenset(suite.deeds(task)), np.random.default_rng(0)
    played.reset(0)
    met: dict[str, set[str]] = {kind: set() for kind in KINDS}
    marks = sorted({steps // part for part in (100, 50, 20, 10, 5, 2, 1)} - {0})
    curve: dict[str, list[int]] = {kind: [] for kind in KINDS}
    done, telling = 0, 0.0
    for step in range(1, steps + 1):
        began = time.perf_counter()
        text = played.text()
        telling += time.perf_counter() - began
        choices = np.flatnonzero(played.admissible()) if possible else None
        action = int(rng.integers(suite.spaces(task)[1].count) if choices is None else rng.choice(choices))
        stepped = played.step(action)
        met[KINDS[0]].add(text)
        met[KINDS[1]].add(question_state(text, ("you feel",), False))
        if played.caption() in deeds:
            done += 1
            met[KINDS[2]].add(text)
        if step in marks:
            for kind in KINDS:
                curve[kind].append(len(met[kind]))
        if stepped.terminated or stepped.truncated:
            played.reset()
    return {
        "steps": marks,
        "questions": curve,
        "per_million": {kind: extrapolated(counts[-3], counts[-1], steps) for kind, counts in curve.items()},
        "deeds": done / steps,
        "telling_microseconds": 1e6 * telling / steps,
    }


def extrapolated(at_fifth: int, final: int, steps: int) -> float:
    """Return the count after a million steps by the power law through the counts at a fifth of `steps` and at
    `steps`."""
    power = math.log(max(final, 1) / max(at_fifth, 1)) / math.log(5)
    return final * (MILLION / steps) ** power


def asking(latency: float, questions: int) -> dict[str, float]:
    """Return the seconds of a question for goals to a served model, one at a time and five at once."""
    answer = json.dumps({"goals": ["chop tree", "drink water", "eat cow"]})
    with served(latency, lambda body: answer) as server_settings, tempfile.TemporaryDirectory() as study:
        words = ["goals=openai", "goals.model=slow", f"goals.base_url={server_settings['judge.base_url']}"]
        (cell,) = matrix.plan([*METHOD, "goals.in_flight=8", *words]).cells
        suite, guide = cell.section("suite"), cell.section("guide")
        chat, asker = (
            RegisteredPart(kind, name, asdict(part))
            for kind, name, part in (("chat", "openai", cell.section("goals")), ("guide", "ellm", guide))
        )
        assignment = Assignment(
            RegisteredPart("suite", cell.names.suite, asdict(suite)), cell.names.task, {"goals": Voice(chat, 1, asker)},
            None, models=asdict(Models()),
            directory=str(study_models.folder(Path(study))),
        )  # fmt: skip
        process = ModelProcess(assignment, 900.0, 16)
        asks = QuestionQueue([str(seed) for seed in range(5)], 0, process, role="goals", kind="chat")

        def ask(state: str, rows: int) -> None:
            nothing = np.zeros((1, 0), bool)
            sent = [
                Question(row, np.full(1, -1, np.int64), None, nothing, json.dumps(f"{state} {row}"), "goals")
                for row in range(rows)
            ]
            answers = asks.values(asks.send([(question, "") for question in sent], 0), lambda: False)
            assert answers == [["chop tree", "drink water", "eat cow"]] * rows, answers

        ask("you see nothing.", 1)  # starts the process
        seconds_per_question = {}
        for name, rows in (("one", 1), ("five", 5)):
            began = time.perf_counter()
            for number in range(questions):
                ask(f"you see tree. {name} {number}", rows)
            seconds_per_question[name] = (time.perf_counter() - began) / questions
        process.close()
    return seconds_per_question


METHOD = (
    "suite=crafter_ood", "task=mine_diamond", "method=ellm_exploration", "profile=smoke",
    "text_embedder=scripted", "text_embedder.width=384",
)  # fmt: skip


class Answers:
    """A context that suggests three goals for every state and has a vector for every text."""

    step = 1

    def __init__(self, rows: int) -> None:
        self.active = np.ones(rows, bool)

    def consult(self, questions: Sequence[Any]) -> list[Any]:
        rng = np.random.default_rng(0)
        return [
            ["chop tree", "eat cow", "drink water"] if question.to == "goals" else rng.normal(size=(1, 384))
            for question in questions
        ]

    def note(self, *_: Any) -> None:
        """Log nothing."""


def guided(rows: int, steps: int = 5_000) -> float:
    """Return the microseconds per step and seed of the guide with known texts; every tenth step achieves something."""
    (cell,) = matrix.plan([*METHOD, "goals=scripted"]).cells
    with tempfile.TemporaryDirectory() as place:
        build = make_build(cell, range(rows), "cpu", [Path(place, str(row)) for row in range(rows)])
        agent = cell.section("agent").spawn(build)
        observation, zeros = np.zeros(rows, build.observations.numpy), np.zeros(rows, np.float32)
        steps_of = [
            Transition(
                observation, np.zeros(rows, np.int64), zeros, zeros > 0, zeros > 0, observation,
                np.zeros((rows, 15), bool), None, zeros > 0,
                words=StepWords(tuple(f"you see tree and {n % 50}." for _ in range(rows)),
                          ("" if n % 10 else "chop tree",) * rows),
            )
            for n in range(500)
        ]  # fmt: skip
        ctx, guide, store = Answers(rows), agent.guide, agent.experience.store
        agent.experience.add(steps_of[0], ctx)
        for transition in steps_of:
            guide.observed(0, transition, store, ctx)
        began = time.perf_counter()
        for number in range(steps):
            guide.observed(0, steps_of[number % 500], store, ctx)
        return 1e6 * (time.perf_counter() - began) / steps / rows


def measure(steps: int, latency: float, questions: int, task: str) -> dict[str, Any]:
    """Return the counts of both players, the seconds of a question and of a million steps, and the guide's time."""
    from guidebench.suites.crafter_ood import CrafterOod

    suite = CrafterOod()
    players = {name: counted(suite, task, steps, name == "possible") for name in ("any", "possible")}
    seconds = asking(latency, questions)
    for player in players.values():
        player["hours_per_million"] = {
            kind: count * seconds["one"] / 3600 for kind, count in player["per_million"].items()
        }
    return {
        "task": task, "steps": steps, "latency": latency, "players": players, "question_seconds": seconds,
        "guide_microseconds": {f"{rows}": guided(rows) for rows in (1, 5)},
    }  # fmt: skip


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for rows, took in figures["guide_microseconds"].items():
        label = f"ELLM's guide, known texts, µs per step and seed, {rows} at once"
        yield Line(label, f"{took:.1f} µs", "", took, "<100")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--task", default="mine_diamond")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps < 100:
        parser.error(f"--steps={options.steps}: expected at least 100, of which a fifth and all are compared")
    figures = measure(options.steps, options.latency, options.questions, options.task)
    if options.json:
        print(json.dumps(figures))
        return
    for name, player in figures["players"].items():
        print(f"{name} actions: {100 * player['deeds']:.1f} % of steps did something")
        print(f"{'steps':32}" + "".join(f"{mark:>9,}" for mark in player["steps"]) + "  a million    hours")
        for kind, counts in player["questions"].items():
            more = f"{player['per_million'][kind]:11,.0f} {player['hours_per_million'][kind]:8.2f}"
            print(f"{kind:32}" + "".join(f"{count:>9,}" for count in counts) + more)
        print(f"telling a state in words takes {player['telling_microseconds']:.0f} µs")
    one, five = (figures["question_seconds"][name] for name in ("one", "five"))
    print(f"a question to a model of {figures['latency']:g} s takes {one:.3f} s, five at once {five:.3f} s")
    for rows, took in figures["guide_microseconds"].items():
        print(f"the guide takes {took:.1f} µs per step and seed with {rows} seeds")


if __name__ == "__main__":
    main()
