"""Train a method for some steps and print where their time goes: environment, storage, learner, guide, evaluation, log.

  bench profile suite=minigrid_doorkey method=vlm_rb profile=quick
  bench profile suite=metaworld_mt10 method=lagea profile=quick --steps 3000 --json

The steps before the first gradient step, and those that compile, are not timed. Nothing is kept. The
models of the method are asked as in a run, within the limits that the command sets (`models.budget_usd=…`). The table
also gives the share of the floating-point limit: the time that the matrix products would take at the speed of the
largest of them, divided by the time that acting, learner and guide take.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.baselines.profiling import Profile
    from guidebench.harness.plan.matrix import Plan

HELP = "train a method for some steps and print where their time goes"
SECONDS = 75.0
"""Seconds after which a profile ends (choice: with start and evaluation it then takes less than two minutes)."""
COMPUTED = ("acting", "forward", "backward", "optimiser", "guide")
"""Parts of a step that compute with networks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench profile`."""
    parser.add_argument(
        "overrides", nargs="+", metavar="key=value", help="as for `bench run`: suite=, method=, profile=, settings"
    )
    parser.add_argument(
        "--steps", type=int, metavar="N",
        help="steps to train, those before the first gradient step included (default: 2,000 after it)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Profile the one cell of a command. Raise UserError for several cells, and for too few steps."""
    from guidebench.baselines.profiling import Profiler
    from guidebench.harness.errors import Stopped, UserError
    from guidebench.harness.identity.cells import record
    from guidebench.harness.loop.job import Job
    from guidebench.harness.plan import matrix
    from guidebench.harness.run import worker

    plan = matrix.plan(args.overrides)
    if len(plan.trained) != 1:
        raise UserError(
            f"bench profile trains one cell, and the command has {len(plan.trained)}; name one task and method"
        )
    (cell,) = plan.trained
    starts = max((cell.section(part.role).learning_starts for part in cell.names.of("learner")), default=1)

    def tell(step: int, end: int) -> None:
        if not args.json and (step % 100 == 0 or step == end):
            print(f"\rstep {step:,} of {end:,}", end="", file=sys.stderr, flush=True)

    profiler = Profiler(starts, args.steps, SECONDS, tell)
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as directory:
        job = Job(
            "profile",
            directory,
            record(cell),
            (plan.seeds[0],),
            "cpu",
            models=asdict(plan.execution.models),
            env_workers=0,
        )
        with contextlib.suppress(Stopped):
            worker.work(job, lambda event: None, lambda: profiler.is_done, profiler.attach)
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    content = _content(plan, profiler.profile)
    print(json.dumps(content, indent=1) if args.json else _text(content))
    return 0


def _content(plan: Plan, profile: Profile) -> dict[str, Any]:
    """Return the profile as JSON; times in seconds."""
    from guidebench.baselines.profiling import product_rate
    from guidebench.harness.plan import matrix
    from guidebench.harness.run import estimates, forecast

    step = profile.step.wall + sum(seconds.wall / every for seconds, every in profile.periodic.values())
    parts: dict[str, Any] = {part: seconds._asdict() for part, seconds in profile.parts.items()}
    for part, (seconds, every) in profile.periodic.items():
        parts[part] = {"wall": seconds.wall / every, "processor": seconds.processor / every}
        parts[part] |= {"one": seconds.wall, "every": every}
    limit = None
    if profile.products:
        largest = max(profile.products, key=lambda product: product.flops)
        rate = product_rate(largest)
        seconds_computing = sum(profile.parts[part].processor for part in COMPUTED)
        limit = {
            "flops_per_step": profile.flops, "largest_product": list(largest), "flops_per_second": rate,
            "share": profile.flops / rate / seconds_computing,
        }  # fmt: skip
    (cell,) = plan.trained
    places = matrix.launcher_of(plan.execution).slots(plan.execution)
    costs = estimates.costs(plan, places)
    hours = forecast.Forecast(plan, places, {cell.id: costs[0]}, {})
    return {
        "suite": cell.names.suite, "task": cell.names.task, "method": cell.names.method, "profile": cell.names.profile,
        "steps": profile.steps, "updates": profile.updates, "step": step, "parts": parts, "limit": limit,
        "run_hours": costs[0].seconds / 3600, "seeds": len(plan.seeds), "study_hours": hours.hours.hours,
        "estimate": hours.sentence(),
    }  # fmt: skip


def _text(content: dict[str, Any]) -> str:
    """Return the profile as a table."""
    step = content["step"]
    lines = [
        f"{content['suite']}/{content['task']}, {content['method']} · {content['profile']}: "
        f"{content['steps']:,} steps with {content['updates']:,} gradient steps, one seed, one thread",
        "",
        f"{'part':<14}{'µs a step':>12}{'share':>8}{'processor':>12}",
    ]
    for part, seconds in content["parts"].items():
        note = f"   {1e3 * seconds['one']:,.0f} ms every {seconds['every']:,} steps" if "one" in seconds else ""
        if seconds["wall"]:
            lines.append(
                f"{part:<14}{1e6 * seconds['wall']:>12,.1f}{seconds['wall'] / step:>8.1%}"
                f"{1e6 * seconds['processor']:>12,.1f}{note}"
            )
    lines += [f"{'step':<14}{1e6 * step:>12,.1f}{1:>8.0%}", ""]
    if (limit := content["limit"]) is not None:
        batch, *shape = limit["largest_product"]
        product = " x ".join(map(str, shape if batch == 1 else [batch, *shape]))
        lines.append(
            f"matrix products: {limit['flops_per_step'] / 1e6:,.1f} MFLOP a step; the largest, {product}, runs at "
            f"{limit['flops_per_second'] / 1e9:,.0f} GFLOP/s. At this speed they would take "
            f"{limit['share']:.0%} of the processor time of acting, learner and guide."
        )
    seeds = f"{content['seeds']} seed{'s' if content['seeds'] > 1 else ''}"
    lines.append(f"a run of {seeds}: {content['estimate']}")
    return "\n".join(lines)
