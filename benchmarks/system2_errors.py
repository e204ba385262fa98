"""The error rates of DSADF's hand-written models, and what each costs System 2 on a long task of Crafter.

    python -m benchmarks.system2_errors [--task iron_sword] [--worlds 10] [--steps 1000]

For planner, reflector and performer, `model_with_planner` plays the same worlds with one setting at 0, .05, .2 and .4
and all others at their defaults. The measured rate is that of the setting's default: of planner and reflector over all
plans that were made with it, of the performer over 2,000 prompts. The scorer has no part in System 2: its error is the
mean distance of its score from the share of attempts in the prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from guidebench.harness import registry
from guidebench.harness.interfaces import Place, Question, Unusable
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.evaluation import EvaluationContext
from guidebench.harness.plan import matrix
from guidebench.methods.dsadf import prompts, scoring
from guidebench.methods.dsadf.deliberation import PLANNER, REFLECTOR
from guidebench.methods.dsadf.memory import Skill
from guidebench.methods.dsadf.scripted import PromptPerformer, PromptScorer
from guidebench.methods.dsadf.slow_system import PERFORMER


class Outcome(NamedTuple):
    """A hand-written chat's answer, in the form of a call's outcome."""

    value: Any
    failure: str | None = None
    detail: Mapping[str, float | str] = MappingProxyType({})


RATES = (0.0, 0.05, 0.2, 0.4)
SETTINGS: Mapping[str, str] = {
    "planner.omits": "scripted_planner", "reflector.misses": "scripted_reflector",
    "performer.error": "scripted_performer", "performer.impossible": "scripted_performer",
}  # fmt: skip
"""Setting -> the hand-written chat that has it."""
DELIBERATING = ("planner.omits", "reflector.misses")
PROMPTS = 2_000
COMMON = (
    "suite=crafter_ood", "method=model_with_planner", "profile=quick", "models=scripted", "suite.actions=find",
    "suite.impossible=masked", "seeds=1",
)  # fmt: skip


def default(setting: str) -> float:
    """Return the default of a hand-written chat's rate."""
    return float(getattr(registry.get("chat", SETTINGS[setting])(), setting.partition(".")[2]))


def episodes(task: str, worlds: int, steps: int, setting: str, rate: float) -> tuple[float, list[dict[str, Any]]]:
    """Play the task in so many worlds in this process, without recording. Return the share of them in which it was
    solved within `steps` steps, and the rows of the log `plans`."""
    (cell,) = matrix.plan([*COMMON, f"task={task}", f"suite.test_length={steps}", f"{setting}={rate}"]).cells
    build = make_build(cell, [0], "cpu", [Path()])
    suite, agent = cell.section("suite").in_evaluation(), cell.section("agent")
    roles = (PLANNER, REFLECTOR, PERFORMER)
    chats = {role: cell.section(role).spawn(suite, task) for role in roles}
    dialogues = {role: agent.dialogue(suite, task, role) for role in roles}

    def consult(questions: Sequence[Question]) -> list[Any]:
        return [asyncio.run(answer(question)) for question in questions]

    async def answer(question: Question) -> Any:
        async def ask(call: Any) -> Outcome:
            return Outcome(chats[question.to](call.messages))

        reply = await dialogues[question.to](json.loads(question.content), None, ask)
        return reply.value if isinstance(reply, Unusable) else reply

    ctx: Any = EvaluationContext(1, build.streams, np.zeros(worlds, np.int64), answer=consult)
    actor = agent.spawn(build).actor([Place(0, world) for world in range(worlds)])
    tasks = [suite.make(task) for _ in range(worlds)]
    observations = np.stack([world.reset(seed) for seed, world in enumerate(tasks)])
    actor.begin(observations, ctx)
    open_worlds, solved = np.arange(worlds), 0
    while len(open_worlds):
        actions = actor.act(observations[open_worlds], open_worlds, ctx)
        taken = [tasks[world].step(action) for world, action in zip(open_worlds, actions, strict=True)]
        observations[open_worlds] = [step.observation for step in taken]
        solved += sum(step.success for step in taken)
        open_worlds = open_worlds[[not (step.terminated or step.truncated) for step in taken]]
    return solved / worlds, [dict(note.values) for note in ctx.notes if note.log == "plans"]


def played(task: str, worlds: int, steps: int) -> tuple[dict[tuple[str, float], float], pd.DataFrame]:
    """Play every rate of every setting. Return (setting, rate) -> share of worlds in which the task was solved, and the
    plans of all runs with their rates of planner and reflector as columns."""
    shares, plans = dict[tuple[str, float], float](), list[pd.DataFrame]()
    for setting in SETTINGS:
        for rate in RATES:
            shares[setting, rate], made = episodes(task, worlds, steps, setting, rate)
            print(f"{setting}={rate:g}: {shares[setting, rate]:.2f}", file=sys.stderr, flush=True)
            rates = {name: rate if name == setting else default(name) for name in DELIBERATING}
            plans.append(pd.DataFrame(made).assign(**rates))
    return shares, pd.concat(plans)


def of_plans(plans: pd.DataFrame) -> dict[str, float]:
    """Return the measured rates of planner and reflector: the share of first plans that lack something, and of those
    that still lack it in the end, each over the plans that were made at its default."""
    made = {setting: plans[plans[setting] == default(setting)] for setting in DELIBERATING}
    lacking = made["reflector.misses"][made["reflector.misses"]["lacking"] > 0]
    return {
        "planner.omits": float((made["planner.omits"]["lacking"] > 0).mean()),
        "reflector.misses": float((lacking["still_lacking"] > 0).mean()),
    }


def of_prompts() -> dict[str, float]:
    """Return the measured rates of performer and scorer over `PROMPTS` prompts, and under `scorer.noise` the scorer's
    mean error."""
    possible = ("move left", "move right", "chop tree", "find tree", "find cow", "sleep")
    steps = [
        (prompts.performing("make a wood sword", f"you see tree. step {number}.", possible, "chop tree", (), False),)
        for number in range(PROMPTS)
    ]
    error, impossible = default("performer.error"), default("performer.impossible")
    differing = [PromptPerformer(error, 0)(step) != PromptPerformer(0, 0)(step) for step in steps]
    strange = [PromptPerformer(0, impossible)(step) not in possible for step in steps]
    attempts = [(40, number % 2 == 0) for number in range(10)]
    noise = float(registry.get("chat", "scripted_scorer")().noise)
    distances = [
        abs(scoring.proficiency(PromptScorer(noise, 0)((prompt,))) - 0.5)
        for number in range(PROMPTS)
        for prompt in (prompts.scoring(f"goal {number}", "chop tree", scoring.behaviour(Skill(10, 5, attempts))),)
    ]
    return {
        "performer.error": sum(differing) / PROMPTS, "performer.impossible": sum(strange) / PROMPTS,
        "scorer.noise": sum(distances) / PROMPTS,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="iron_sword")
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1_000)
    options = parser.parse_args(arguments)
    shares, plans = played(options.task, options.worlds, options.steps)
    measured = {**of_plans(plans), **of_prompts()}
    print("| setting | default | measured | " + " | ".join(f"{rate:g}" for rate in RATES) + " |")
    print("| --- | --- | --- |" + " --- |" * len(RATES))
    for setting in SETTINGS:
        successes = " | ".join(f"{shares[setting, rate]:.2f}" for rate in RATES)
        print(f"| `{setting}` | {default(setting):g} | {measured[setting]:.3f} | {successes} |")
    print(f"| `scorer.noise` | 0.1 | {measured['scorer.noise']:.3f} (mean error) |" + " — |" * len(RATES))


if __name__ == "__main__":
    main()
