"""Ask real models in the roles that read text alone (`make real`; `make extra E=tiny` installs the models).

SmolLM2 135M chooses actions, skills and preferences, and writes plans and reflections under a schema; all-MiniLM-L6-v2
reads texts (`models=tiny`); on two cores within a quarter of an hour and 600 questions. The commands add to one study,
whose report is the result: what share of the questions had an answer, what they took, how often labels were right, and
the scores. `--smoke` asks a few questions in each role, to see that everything works.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

OUTPUT = "runs/real"
QUESTIONS = 600
"""Most questions to models that the study may ask (`models.budget_calls`)."""
TRAINING = 140
"""Training steps of the methods that learn: a few more than those after which the profile smoke learns."""


def commands(smoke: bool, output: str = OUTPUT) -> list[list[str]]:
    """Return the arguments of the `bench` commands in order. `smoke`: whether episodes have a few steps."""
    steps, pairs, longest = (10, 4, 2) if smoke else (40, 24, 8)
    once, plans = ["evaluation.episodes=1"], f"agent.longest={longest}"
    game = ["suite=crafter_ood", *once, f"suite.test_length={steps}"]
    runs = [
        [*game, "difficulty=attack_cow_8k", "method=model_as_agent,model_with_planner", "evaluation.every=8000", plans],
        ["suite=housekeep", "method=model_as_agent,linvit", "profile=smoke", *once, f"suite.length={steps}",
         f"training.steps={TRAINING}", f"evaluation.every={TRAINING}"],
        [*game, "method=dsadf", "profile=smoke", f"suite.length={TRAINING}", f"training.steps={TRAINING}",
         f"evaluation.every={TRAINING}", plans],
        ["suite=metaworld_pbrl", "task=reach", "method=rl_sallm_f", "profile=smoke", "teacher.augment=none",
         f"guide.queries={pairs}"],
    ]  # fmt: skip
    shared = ["models=tiny", "seeds=1", f"models.budget_calls={QUESTIONS}", f"output={output}"]
    return [["run", *words, *shared] for words in runs]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.real", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="ask a few questions in each role")
    parser.add_argument("--output", default=OUTPUT, help=f"directory of the study ({OUTPUT})")
    chosen = parser.parse_args(arguments)
    bench, began = Path(sys.executable).with_name("bench"), time.monotonic()
    for words in commands(chosen.smoke, chosen.output):
        print(f"\n$ bench {' '.join(words)}", flush=True)
        if code := subprocess.run([str(bench), *words], check=False).returncode:
            return code
    print(f"\n{chosen.output}: all commands took {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
