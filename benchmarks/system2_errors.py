"""The error rates of DSADF's hand-written models, and what each costs System 2 on a long task of Crafter.

    python -m benchmarks.system2_errors [--task iron_sword] [--worlds 10] [--steps 2000] [--output runs/system2_errors]

For planner, reflector and performer, `model_with_planner` plays the same worlds with one setting at 0, .05, .2 and .4
and all others at their defaults. The measured rate is that of the setting's default: of planner and reflector over all
plans that were made with it, of the performer over 2,000 prompts. The scorer has no part in System 2: its error is the
mean distance of its score from the share of attempts in the prompt. Finished runs in `--output` are not made again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

import guidebench as gb
from guidebench import results
from guidebench.harness import registry
from guidebench.methods.dsadf import prompts, scoring
from guidebench.methods.dsadf.memory import Skill
from guidebench.methods.dsadf.scripted import PromptPerformer, PromptScorer
from guidebench.reports.summary.records import value_of

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
    "suite.impossible=masked", "training.steps=1", "evaluation.every=1", "seeds=1",
)  # fmt: skip


def default(setting: str) -> float:
    """Return the default of a hand-written chat's rate."""
    return float(getattr(registry.get("chat", SETTINGS[setting])(), setting.partition(".")[2]))


def played(task: str, worlds: int, steps: int, output: Path) -> tuple[dict[tuple[str, float], float], pd.DataFrame]:
    """Play every rate of every setting. Return (setting, rate) -> share of worlds in which the task was solved, and the
    plans of all runs with their cell's rates as columns."""
    words = (*COMMON, f"task={task}", f"suite.test_length={steps}", f"evaluation.episodes={worlds}", "report=false")
    shares, plans = dict[tuple[str, float], float](), list[pd.DataFrame]()
    for setting in SETTINGS:
        rates = ",".join(f"{rate:g}" for rate in RATES)
        study = results.study(gb.run(*words, f"{setting}={rates}", f"output={output / setting}").directory)
        episodes, made = results.load(study), results.noted(study, "plans")
        for cell in study.cells:
            rate = float(value_of(cell.settings[setting]))
            shares[setting, rate] = float(episodes.loc[episodes["cell"] == cell.id, "success"].mean())
            plans.append(
                made[made["cell"] == cell.id].assign(**{name: value_of(cell.settings[name]) for name in DELIBERATING})
            )
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
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--output", type=Path, default=Path("runs/system2_errors"))
    options = parser.parse_args(arguments)
    shares, plans = played(options.task, options.worlds, options.steps, options.output)
    measured = {**of_plans(plans), **of_prompts()}
    print("| setting | default | measured | " + " | ".join(f"{rate:g}" for rate in RATES) + " |")
    print("| --- | --- | --- |" + " --- |" * len(RATES))
    for setting in SETTINGS:
        successes = " | ".join(f"{shares[setting, rate]:.2f}" for rate in RATES)
        print(f"| `{setting}` | {default(setting):g} | {measured[setting]:.3f} | {successes} |")
    print(f"| `scorer.noise` | 0.1 | {measured['scorer.noise']:.3f} (mean error) |" + " — |" * len(RATES))


if __name__ == "__main__":
    main()
