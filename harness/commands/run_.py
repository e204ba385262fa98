"""Train and evaluate. Running the same command again continues: finished runs are skipped, interrupted runs resume.

Overrides have the form key=value; a comma list or range(…) sweeps:
  suite, task, method, profile      what to run (profile: paper, quick, smoke)
  learner, replay, guide, agent, judge, teacher, chat, embedder
                                    replace a part of the method
  pretraining=METHOD                train METHOD first and begin from its policies; pretraining.task=… and other words
                                    with this prefix configure that stage
  SECTION.FIELD                     any setting that `bench show` prints, e.g. learner.lr=1e-4
  seeds=5  seeds=[0,3,7]            number of seeds, or a list of seeds
  launcher=NAME, launcher.SETTING   what starts the workers (bench list launchers)
  output, workers, pack, gpus, per_gpu, env_workers, device, checkpoint_every, probes, trackers, keep_replay,
  mixed_commits, report, against    how the study is executed
  models.mode=record|live|replay, models.cassette, models.budget_usd, models.budget_calls, models.budget_seconds,
  models.share                      how foundation models are called, limits on their cost, and whether workers share
                                    the weights of a local one

  bench run suite=minigrid_doorkey task=8x8 method=vlm_rb profile=quick seeds=5 against=measured
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from guidebench.harness.errors import count
from guidebench.harness.machine import cores

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage
    from guidebench.harness.plan.matrix import Plan
    from guidebench.harness.records.role_counts import RoleCount
    from guidebench.harness.run.study import Run, Study

ERRORS = 2
LINES = 15
"""Maximum number of errors printed at the end, and of lines each, so that they fit on one screen."""
ENOUGH = 10
"""Seeds per table row from which confidence intervals have about their nominal coverage."""
HELP = "train and evaluate; the same command continues where it stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="key=value")
    parser.add_argument(
        "--dry-run", action="store_true", help="print cells, ids, seeds, steps and hours; train nothing"
    )
    parser.add_argument("--json", action="store_true", help="the plan (with --dry-run) or the outcome as JSON")


def add_only(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the flag --only to a command that builds a matrix; `only` reads it."""
    parser.add_argument("--only", metavar="NAME,…", default="", help=f"only these {what}")


def only(args: argparse.Namespace) -> list[str]:
    return [name for name in args.only.split(",") if name]


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.plan import matrix

    return carry_out(matrix.plan(args.overrides), args)


def carry_out(plan: Plan, args: argparse.Namespace, add: Callable[[Study], None] = lambda outcome: None) -> int:
    """Execute `plan` according to the flags in `args`; `add` writes additional files of the study after its runs."""
    comparison = _comparison(plan)
    if args.dry_run:
        return dry_run(plan, args.json)
    from guidebench.harness.run import study
    from guidebench.harness.trackers import beside

    def tell(line: str) -> None:
        print(f"bench: {line}", file=sys.stderr)

    with beside.beside(plan.execution.trackers, study.directory_of(plan), tell):  # the report goes along
        return _execute(plan, args, add, comparison)


def _execute(plan: Plan, args: argparse.Namespace, add: Callable[[Study], None], comparison: Any) -> int:
    from guidebench.harness.run import progress, study, unanswered

    display = progress.display(plan, quiet=args.json)
    with display:
        outcome = study.carry_out(plan, display)
    add(outcome)
    counts = unanswered.counted((run.cell, run.directory) for run in outcome.runs)
    if args.json:
        print(json.dumps(_outcome(outcome, counts), indent=1))
    else:
        _summarise(outcome)
    if outcome.stopped:
        return 130
    if outcome.submitted is not None:
        if not args.json:
            _close_submitted(outcome, plan.execution.trackers)
        return 0
    if not args.json and any(run.status == "finished" for run in outcome.runs):
        if plan.execution.report:
            _report(outcome)
        if comparison is not None:
            print()
            _run(comparison, [str(outcome.directory), "--against", str(plan.execution.against)])
        _close(outcome)
    if counts.questions and not args.json:
        print(unanswered.sentence(counts))
    mute = counts.questions > 0 and counts.failures == counts.questions
    return 0 if outcome.finished and not mute else 1


def dry_run(plan: Plan, as_json: bool) -> int:
    """Print what `plan` would run and what is missing here, such as a GPU, a package or a model. Return 1 if anything
    is missing, else 0."""
    from guidebench.harness.episodes import demonstrations
    from guidebench.harness.models import keeping
    from guidebench.harness.plan import matrix
    from guidebench.harness.run import call_bounds, estimates, readiness, study

    places = matrix.launcher_of(plan.execution).slots(plan.execution)
    jobs = -(-len(plan.seeds) // estimates.packed(plan, places))
    rows: list[dict[str, Any]] = []
    costs = estimates.costs(plan, places)
    for cell, cost in zip(plan.trained, costs, strict=True):
        rows.append(
            {
                "cell": cell.id,
                "suite": cell.names.suite,
                "task": cell.names.task,
                "row": plan.row(cell),
                "seeds": list(plan.seeds),
                "steps": cell.steps,
                "hours": round(cost.seconds * jobs / 3600, 4),
                "estimated": cost.basis,
                **plan.place(cell),
            }
        )
    asked = [each for cell in plan.trained for each in estimates.by_model(cell)]
    contacted = plan.execution.models.mode != "replay"
    most = call_bounds.by_model(plan.trained, len(plan.seeds), contacted) if asked else {}
    short = ""
    if plan.execution.models.budgeted:
        whole = estimates.all_questions((cell, len(plan.seeds)) for cell in plan.trained)
        short = keeping.shortfall(plan.execution.models, keeping.folder(study.directory_of(plan)), whole)
    needed = dict.fromkeys(
        filter(None, (demonstrations.wanted(cell, seed) for cell in plan.trained for seed in plan.seeds))
    )
    total = estimates.elapsed(plan, costs, places)
    directory = str(study.directory_of(plan))
    missing = readiness.missing(plan, study.directory_of(plan))
    if as_json:
        content = {
            "study": study.name_of(plan),
            "output": directory,
            "workers": len(places),
            "hours": round(total.hours, 3),
            "hours_between": [round(total.low, 3), round(total.high, 3)],
            "demonstrations": [
                {"suite": what.name, "task": what.task, "count": what.count, "made": what.file.exists()}
                for what in needed
            ],
            "models": [{"model": model, **usage._asdict()} for model, usage in asked],
            "models_at_most": {model: usage._asdict() for model, usage in most.items()},
            "missing": missing,
            "warnings": [short] if short else [],
            "cells": rows,
        }
        print(json.dumps(content, indent=1))
        return 1 if missing else 0
    lines = [f"{'cell':<11} {'suite/task':<28} {'steps':>9} {'seeds':>5} {'core-hours':>10}  row"]
    for row in rows:
        where = f"{row['suite']}/{row['task']}"
        lines.append(
            f"{row['cell']:<11} {where:<28} {row['steps']:>9,} {len(plan.seeds):>5} {row['hours']:>10.2f}  {row['row']}"
        )
    seeds = ",".join(map(str, plan.seeds[:12])) + (",…" if len(plan.seeds) > 12 else "")
    lines.append("")
    size = f"{count(len(rows), 'cell')} × {count(len(plan.seeds), 'seed')}"
    lines.append(f"study {study.name_of(plan)} in {directory}: {size} ({seeds})")
    for what in needed:
        made = "made already" if what.file.exists() else "made first"
        are = "is" if what.count == 1 else "are"
        lines.append(
            f"{count(what.count, 'demonstration')} of {what} {are} stored in each replay before training: {made}"
        )
    for model in dict.fromkeys(model for model, _ in asked):
        usages = [usage for name, usage in asked if name == model]
        lines.append(f"{model} is asked {_volume(usages, len(plan.seeds))}; its time is not part of the estimate below")
        if model in most:
            lines.append(f"  and at most {_volume([most[model]], 1)}, if every attempt, repair and retry is needed")
    if short:
        lines.append(f"warning: {short}")
    lines.append(
        f"about {_hours(total.hours)} on this machine with {count(len(places), 'worker')} ({places[0].device}), likely "
        f"between {_hours(total.low)} and {_hours(total.high)}: {_rests_on([cost.basis for cost in costs])}"
    )
    if places[0].device == "cpu" and len(places) > cores():
        lines.append(f"{len(places)} workers share {count(cores(), 'core')}, so more of them save no time")
    lines += [f"missing: {what}" for what in missing]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if missing else 0


def _volume(usages: Sequence[Usage], seeds: int) -> str:
    """Describe the number of calls that the cells of a study make to a model."""
    calls, images, tokens_in, tokens_out, usd = (
        seeds * sum(getattr(usage, what) for usage in usages)
        for what in ("calls", "images", "tokens_in", "tokens_out", "usd")
    )
    price = f", {usd:,.2f} USD by the prices known" if usd else ""
    if images and not tokens_out:
        return f"at least {count(calls, 'clip')} ({count(images, 'frame')}{price})"
    shown = f"{count(images, 'image')}, " if images else ""
    return f"about {count(calls, 'time')} ({shown}{tokens_in:,} tokens read and {tokens_out:,} written{price})"


RESTS_ON = {
    "recorded": "by runs of it that were recorded here",
    "timed": "by a few seconds of its own updates, timed here",
    "scaled": "by operation counts and the timing of others",
    "counted": "by operation counts alone",
}
"""Basis of a cell's estimate -> its description."""


def _rests_on(bases: Sequence[str]) -> str:
    found = Counter(bases)
    if len(found) == 1:
        return f"estimated {_several(RESTS_ON[bases[0]])}"
    told = ((found[basis], words) for basis, words in RESTS_ON.items() if found[basis])
    return "; ".join(f"{count(number, 'cell')} {words if number == 1 else _several(words)}" for number, words in told)


def _several(words: str) -> str:
    """Return a description of an estimate's basis in the plural."""
    return words.replace(" it ", " these cells ").replace(" its ", " their ")


def _hours(hours: float) -> str:
    if hours < 2 / 60:
        return count(max(1, round(hours * 3600)), "second")
    if hours < 1:
        return count(round(hours * 60), "minute")
    return f"{hours:.1f} hours" if hours < 100 else f"{hours:,.0f} hours"


def _outcome(outcome: Study, counts: RoleCount) -> dict[str, object]:
    return {
        "study": outcome.name,
        "output": str(outcome.directory),
        "stopped": outcome.stopped,
        "questions": counts.questions,
        "unanswered": counts.failures,
        **({} if outcome.submitted is None else {"submitted": outcome.submitted}),
        "runs": [
            {"cell": run.cell.id, "method": run.cell.names.method, "task": run.cell.names.task, "seed": run.seed,
             "status": run.status, "directory": str(run.directory), "error": run.error}
            for run in outcome.runs
        ],
    }  # fmt: skip


def _summarise(outcome: Study) -> None:
    statuses = Counter(run.status for run in outcome.runs)
    print(f"{outcome.directory}: " + ", ".join(f"{number} {status}" for status, number in sorted(statuses.items())))
    alike: dict[str, list[Run]] = {}
    for run in outcome.runs:
        if run.error:
            alike.setdefault(run.error.splitlines()[-1], []).append(run)
    for runs in list(alike.values())[:ERRORS]:
        first = runs[0]
        names = first.cell.names
        others = f" (and {len(runs) - 1} more like it)" if len(runs) > 1 else ""
        print(f"\n{names.suite}/{names.task} {names.method} seed {first.seed} {first.status}{others}:")
        print("  " + "\n  ".join(str(first.error).splitlines()[-LINES:]))
    if len(alike) > ERRORS:
        print(f"\n{count(len(alike) - ERRORS, 'more error')}; see them with: bench status {outcome.directory}")
    if outcome.stopped:
        print("stopped; the same command continues")


def _report(outcome: Study) -> None:
    from guidebench.harness.commands.cli import command

    report = command("report")
    if report is None:
        print(f"no report: the package that writes it is not installed; the results are in {outcome.directory}")
        return
    _run(report, [str(outcome.directory)])


def _close(outcome: Study) -> None:
    """Print what this number of seeds can show, and the path of the study's page."""
    finished = Counter(run.cell.id for run in outcome.runs if run.status == "finished")
    if all(run.cell.names.profile == "smoke" for run in outcome.runs):
        print(
            "\nThe profile smoke shows that everything runs. Its runs are too short to learn, so their scores say "
            "nothing about a method: profile=quick takes minutes and learns."
        )
    elif (seeds := min(finished.values())) < ENOUGH:
        show, they_do = ("shows", "It does") if seeds == 1 else ("show", "They do")
        print(
            f"\n{count(seeds, 'seed')} {show} whether a method learns here at all, and a difference far larger than "
            f"the spread of its seeds. {they_do} not show which of two methods is better where their intervals come "
            f"near each other: intervals of so few seeds are too narrow. Before you compare, run the same command "
            f"with seeds={ENOUGH}; what is finished stays."
        )
    page = outcome.directory / "report" / "report.html"
    if page.is_file():
        print(f"\npage: {page}")


def _close_submitted(outcome: Study, trackers: Sequence[str]) -> None:
    """Print how to follow a study that a scheduler goes on with."""
    where = outcome.directory
    print(
        f"{count(outcome.submitted or 0, 'job')} in the queue; they go on without this command. From any machine that "
        f"sees the directory:\n"
        f"  bench status {where}\n"
        f"  bench cancel {where}    (workers write a checkpoint; the same bench run continues)\n"
        f"  bench report {where}"
    )
    if trackers:
        print(f"  bench track {where} --to {','.join(trackers)} --follow    (trackers=… ends with this command)")


def _comparison(plan: Plan) -> Any | None:
    """Return the command `compare` if the plan sets `against`, else None. Raise UserError if it cannot be compared."""
    against = plan.execution.against
    if against is None:
        return None
    from guidebench.harness.commands.cli import command
    from guidebench.harness.errors import UserError
    from guidebench.harness.identity.cells import record
    from guidebench.harness.run import study

    compare = command("compare")
    if compare is None:
        raise UserError(f"against={against}: the package that compares is not installed; leave it out")
    compare.check(against, [record(cell) for cell in plan.cells], study.directory_of(plan))
    return compare


def _run(command: Any, words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args(words))
