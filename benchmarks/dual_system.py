"""What the dual system adds to a step, and its evaluation with a served performer.

    python -m benchmarks.dual_system [--episodes 32] [--steps 3] [--latency 0.3] [--subgoals 40] [--rounds 5]

Routing is what an evaluation's step does beside both systems: it looks up which dangers are unknown, and to whom the
present sub-goal goes, in a memory of `--subgoals` sub-goals of Crafter. Remembering is what a step of training does
beside the learner: it goes on in the plan and notes attempts; each fourth step completes a sub-goal.

The evaluation is that of `benchmarks.model_as_agent`, with plans of the chat `scripted_planner` and an empty memory, so
that the performer is asked at every step: all episodes in one batch, against one question at a time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.judged_training import served
from benchmarks.model_as_agent import Performer, evaluated, tell
from benchmarks.table import Line
from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.memory import Memory
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.rewards import advance
from guidebench.methods.dsadf.routing import route

STEPS = 20_000
"""Steps of a round of routing and of remembering."""
NEAR = ("zombie", "lava")
"""Dangers that are near at every step."""
DUAL = (
    "method=dsadf", "planner=scripted", "reflector=scripted", "scorer=scripted", "text_embedder=scripted",
    "text_embedder.width=384",
)  # fmt: skip


def filled(subgoals: int) -> tuple[Memory, tuple[Subgoal, ...]]:
    """Return a memory of `subgoals` sub-goals, and a plan of half of them and as many unknown ones."""
    memory, names = (
        Memory(),
        [f"chop thing {chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(subgoals)],
    )
    for name in names:
        skill = memory.skill(name)
        skill.rewarded, skill.proficiency = True, 0.7
        skill.attempted(7, True)
    remembered = names[: max(1, subgoals // 2)]
    return memory, tuple(Subgoal(subgoal_name, 1) for name in remembered for subgoal_name in (name, f"{name} more"))


def routing(subgoals: int) -> float:
    """Return the microseconds per step that routing takes in an evaluation."""
    memory, plan = filled(subgoals)
    began = time.perf_counter()
    for step in range(STEPS):
        next(iter(memory.unknown(NEAR)), "")
        route(plan[step % len(plan)], memory, "both", 0.7)
    return 1e6 * (time.perf_counter() - began) / STEPS


def remembering(subgoals: int) -> float:
    """Return the microseconds per training step that advancing the plan and updating the memory take."""
    memory, plan = filled(subgoals)
    possible, course = {subgoal.name for subgoal in plan}, Course(plan)
    began = time.perf_counter()
    for step in range(STEPS):
        course = Course(plan) if course.last else course
        present = course.present
        assert present is not None
        memory.skill(present.name).rewarded = True
        for name, steps in advance(course, () if step % 4 else (present.name,), possible):
            memory.skill(name).attempted(steps, True)
    return 1e6 * (time.perf_counter() - began) / STEPS


def measure(episodes: int, steps: int, latency: float, subgoals: int, rounds: int) -> dict[str, Any]:
    """Return the microseconds of a step, and the seconds of an evaluation either way."""
    figures: dict[str, Any] = {"episodes": episodes, "steps": steps, "latency": latency, "subgoals": subgoals}
    for name, work in (("routing", routing), ("remembering", remembering)):
        figures[f"{name}_microseconds"] = statistics.median(work(subgoals) for _ in range(rounds))
    with served(latency, Performer()) as server_settings:
        for name, alone in (("batch", False), ("one_by_one", True)):
            words = ("performer.temperature=0.7", *DUAL)
            seconds, _ = evaluated(episodes, steps, server_settings["judge.base_url"], alone, *words)
            figures |= {f"{name}_seconds": seconds, f"{name}_per_minute": 60 * episodes / seconds}
    return figures | {"ratio": figures["one_by_one_seconds"] / figures["batch_seconds"]}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for name, words in (("routing", "evaluations"), ("remembering", "training")):
        took = figures[f"{name}_microseconds"]
        label = f"DSADF's routing and memory, {figures['subgoals']} sub-goals, µs per step of {words}"
        yield Line(label, f"{took:.1f} µs", "", took, "<100")
    size = f"{figures['episodes']} episodes, {figures['latency']:g} s an answer"
    ways = [f"{figures[f'{way}_per_minute']:,.0f} episodes/min" for way in ("batch", "one_by_one")]
    yield Line(f"dsadf on Crafter, each step the performer's ({size}): one by one", *ways, figures["ratio"], "8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--subgoals", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.episodes, options.steps, options.latency, options.subgoals, options.rounds)
    if options.json:
        print(json.dumps(figures))
        return
    for name in ("routing", "remembering"):
        print(f"{name}: {figures[f'{name}_microseconds']:.1f} µs a step with {figures['subgoals']} sub-goals in memory")
    tell(figures)


if __name__ == "__main__":
    main()
