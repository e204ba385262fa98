"""Evaluation of `model_as_agent` with a served performer: all episodes in one batch against one question at a time.

    python -m benchmarks.model_as_agent [--episodes 32] [--steps 3] [--latency 0.3] [--saving-steps 100]

The performer lies behind a loopback server that delays each answer by `--latency` seconds, with one concurrent call per
episode; its answers are those of the chat `scripted_performer`. Both ways play the same episodes of Crafter through the
same process, desk and cassette as a run, at a temperature above 0, so that no call is shared. Episodes per minute are
those of `--steps` steps.

Then, without delay and at temperature 0, `--saving-steps` steps of the same number of episodes tell how many decisions
share the answer to an equal prompt, with and without the last actions in the prompt, and how long a prompt is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.judged_training import served
from benchmarks.table import Line
from guidebench.harness.identity.cells import record
from guidebench.harness.interfaces import Question
from guidebench.harness.loop.backends import consultations
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.evaluation import Consult, Evaluator
from guidebench.harness.loop.job import Job
from guidebench.harness.models.calls import Message
from guidebench.harness.plan import matrix
from guidebench.methods.dsadf.scripted import PromptPerformer
from guidebench.methods.dsadf.slow_system import PERFORMER

LONE = "method=model_as_agent"
CHARACTERS = 4
"""Characters of English per token, by which a prompt's tokens are estimated."""


class Performer:
    """Answers as the chat `scripted_performer` does, and keeps the prompts it receives."""

    def __init__(self) -> None:
        self.prompts = list[str]()
        self._answers = PromptPerformer(0.05, 0.02)

    def __call__(self, body: bytes) -> str:
        messages = json.loads(body)["messages"]
        self.prompts.append(str(messages[0]["content"]))
        return self._answers(tuple(Message(message["role"], (str(message["content"]),)) for message in messages))


def one_by_one(consult: Consult) -> Consult:
    """Return a function that asks one question at a time and waits for its answer before the next."""
    return lambda questions: [consult([question])[0] for question in questions]


def evaluated(episodes: int, steps: int, url: str, alone: bool, *words: str) -> tuple[float, int]:
    """Evaluate once; return the seconds after the performer's first question, which starts its process, and the
    decisions that it was asked for. `words`: further ones of the command, such as another method."""
    plan = matrix.plan(
        [
            "suite=crafter_ood", "task=mine_iron", "profile=smoke", "suite.observation=text",
            "suite.actions=find", "suite.impossible=masked", f"suite.test_length={steps}", "seeds=[0]",
            "performer=openai", f"performer.base_url={url}", "performer.model=m",
            f"performer.in_flight={episodes}", *words,
        ]
    )  # fmt: skip
    (cell,) = plan.cells
    suite, decisions = cell.section("suite").in_evaluation(), 0
    with tempfile.TemporaryDirectory() as study:
        job = Job("benchmark", study, record(cell), (0,), "cpu", models={})
        build = make_build(cell, [0], "cpu", [Path(study)])
        agent = cell.section("agent").spawn(build)
        evaluator = Evaluator(lambda row: suite.make("mine_iron"), episodes, build.streams)
        with consultations(job, cell, build) as within:
            ask, started = within("eval/0"), 0.0

            def consult(questions: Sequence[Question]) -> list[Any]:
                nonlocal decisions, started
                if questions[0].to != PERFORMER:
                    return ask(questions)
                if not started:
                    within("eval/1")(questions[:1])
                    started = time.perf_counter()
                decisions += len(questions)
                return one_by_one(ask)(questions) if alone else ask(questions)

            evaluator(agent, 0, [0], consult=consult)
            return time.perf_counter() - started, decisions


def measure(episodes: int, steps: int, latency: float, saving_steps: int) -> dict[str, Any]:
    """Return the seconds of either way, and what equal prompts save."""
    figures: dict[str, Any] = {"episodes": episodes, "steps": steps, "latency": latency, "saving": {}}
    with served(latency, Performer()) as server_settings:
        for name, alone in (("batch", False), ("one_by_one", True)):
            seconds, _ = evaluated(
                episodes, steps, server_settings["judge.base_url"], alone, LONE, "performer.temperature=0.7"
            )
            figures |= {f"{name}_seconds": seconds, f"{name}_per_minute": 60 * episodes / seconds}
    for recent in (0, 4):
        performer = Performer()
        with served(0.0, performer) as server_settings:
            _, decisions = evaluated(
                episodes, saving_steps, server_settings["judge.base_url"], False, LONE, f"agent.recent={recent}"
            )
        length = sum(map(len, performer.prompts)) / len(performer.prompts)
        figures["saving"][recent] = {
            "decisions": decisions,
            "calls": len(performer.prompts),
            "share": 1 - len(performer.prompts) / decisions,
            "tokens": length / CHARACTERS,
        }
    return figures | {"ratio": figures["one_by_one_seconds"] / figures["batch_seconds"]}


def tell(figures: Mapping[str, Any]) -> None:
    """Print the duration of an evaluation in one batch a step, and one question at a time."""
    for name, mode in (("batch", "one batch a step"), ("one_by_one", "one by one")):
        print(f"{mode}: {figures[f'{name}_seconds']:.2f} s, {figures[f'{name}_per_minute']:,.0f} episodes a minute")
    print(f"ratio {figures['ratio']:.1f}")


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    size = f"{figures['episodes']} episodes, {figures['latency']:g} s an answer"
    ways = [f"{figures[f'{way}_per_minute']:,.0f} episodes/min" for way in ("batch", "one_by_one")]
    yield Line(f"model_as_agent on Crafter ({size}): one by one", *ways, figures["ratio"], "8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--saving-steps", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.episodes, options.steps, options.latency, options.saving_steps)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{figures['episodes']} episodes of {figures['steps']} steps, {figures['latency']:g} s an answer:")
    tell(figures)
    for recent, saved in figures["saving"].items():
        print(
            f"agent.recent={recent}: {saved['decisions']:,} decisions, {saved['calls']:,} calls ({saved['share']:.0%} "
            f"saved), about {saved['tokens']:,.0f} tokens a prompt"
        )


if __name__ == "__main__":
    main()
