"""Train and evaluate. Running the same command again continues: finished runs are skipped, interrupted runs resume.

Overrides have the form key=value; a comma list or range(…) sweeps:
  suite, task, method, profile      what to run (profile: paper, quick, smoke)
  difficulty=NAME                   task, budget and other words under one name of the suite (bench show suite=… lists
                                    them); a word that is typed beside it has precedence
  learner, replay, guide, agent, judge, teacher, chat, embedder
                                    replace a part of the method
  models=scripted|oracle|paper|placebo
                                    fill every role of a model that no other word names: hand-written, privileged, the
                                    paper's, or answers to other questions from models.placebo=FILE|STUDY
                                    (bench list model_sets; usual: paper in profile=paper, else scripted)
  pretraining=METHOD                train METHOD first and begin from its policies; pretraining.task=… and other words
                                    with this prefix configure that stage
  SECTION.FIELD                     any setting that `bench show` prints, e.g. learner.lr=1e-4
  seeds=5  seeds=[0,3,7]            number of seeds, or a list of seeds
  claims=FILE                       the claims of a study (bench pilot), which fix what is run and its seeds; look=1
                                    runs the seeds of the first of two looks
  launcher=NAME, launcher.SETTING   what starts the workers (bench list launchers)
  output, workers, pack, gpus, per_gpu, env_workers, silent_after, device, checkpoint_every, probes, trackers,
  keep_replay, answers, mixed_commits, yes, report, against
                                    how the study is executed
  models.mode=record|live|replay, models.cassette, models.budget_usd, models.budget_calls, models.budget_seconds,
  models.share                      how foundation models are called, limits on their cost, and whether workers share
                                    the weights of a local one

Before it begins it prints cells, hours, calls and costs. On a terminal it asks before it begins a study of more than 12
core-hours; yes=true answers in advance.

  bench run suite=minigrid_doorkey task=8x8 method=vlm_rb profile=quick seeds=5 against=measured
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

from guidebench.harness.errors import UserError, count

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage
    from guidebench.harness.plan.matrix import Plan
    from guidebench.harness.records.role_counts import RoleCount
    from guidebench.harness.run.forecast import Forecast
    from guidebench.harness.run.study import Run, Study

ERRORS = 2
LINES = 15
"""Maximum number of errors printed at the end, and of lines each, so that they fit on one screen."""
LONG = 12.0
"""Core-hours above which a study begins on a terminal only after the user has agreed."""
ENOUGH = 10
"""Seeds per table row from which confidence intervals have about their nominal coverage."""
HELP = "train and evaluate; the same command continues where it stopped"
RUNS_CODE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="key=value")
    parser.add_argument(
        "--dry-run", action="store_true", help="print cells, ids, seeds, steps and hours; train nothing"
    )
    parser.add_argument("--json", action="store_true", help="the plan (with --dry-run) or the outcome as JSON")


def add_only(parser: argparse.ArgumentParser, names: str) -> None:
    """Add the flag --only to a command that builds a matrix; `only` reads it."""
    parser.add_argument("--only", metavar="NAME,…", default="", help=f"only these {names}")


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
    from guidebench.harness.trackers import side_processes

    def tell(line: str) -> None:
        print(f"bench: {line}", file=sys.stderr)

    with side_processes.run_followers(plan.execution.trackers, study.directory_of(plan), tell):  # the report goes along
        return _execute(plan, args, add, comparison)


def _execute(plan: Plan, args: argparse.Namespace, add: Callable[[Study], None], comparison: Any) -> int:
    from guidebench.harness.run import progress, study, unanswered

    display = progress.display(plan, quiet=args.json)
    with contextlib.ExitStack() as display_context:

        def begin() -> None:
            if not args.json:
                display.forecast = _announce(plan)
                if not plan.execution.yes and not study.continues(plan):
                    _ask(display.forecast.core_hours, sys.stdin, sys.stdout)
            display_context.enter_context(display)

        outcome = study.carry_out(plan, display, begin)
    add(outcome)
    counts = unanswered.count_questions((run.cell, run.directory) for run in outcome.runs)
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
        _close(outcome, plan.claims is not None)
    if counts.questions and not args.json:
        print(unanswered.sentence(counts))
    mute = counts.questions > 0 and counts.failures == counts.questions
    return 0 if outcome.finished and not mute else 1


def _announce(plan: Plan) -> Forecast:
    """Print what `plan` will do, from what is known at once, and return the forecast of its hours."""
    from guidebench.harness.plan import matrix
    from guidebench.harness.run import estimates, forecast, study

    places = matrix.launcher_of(plan.execution).slots(plan.execution)
    previous_runs = study.look(plan).runs if study.continues(plan) else ()
    steps_done: Counter[str] = Counter()
    for run in previous_runs:
        steps_done[run.cell.id] += run.cell.steps if run.status == "finished" else run.step
    remaining = {cell.id: 1 - steps_done[cell.id] / cell.steps / len(plan.seeds) for cell in plan.trained}
    hours = forecast.Forecast(plan, places, estimates.cached_costs(plan, places), remaining)
    finished = sum(run.status == "finished" for run in previous_runs)
    before = f", {finished} of {count(len(previous_runs), 'run')} finished before" if finished else ""
    rest = [hours.sentence()] if hours.core_hours else []
    lines = [_size(plan) + before, *_demonstrations(plan), *_datasets(plan), *_calls(plan), *rest, *_left_out(plan)]
    print("\n".join(lines), flush=True)
    return hours


def _ask(core_hours: float, reader: IO[str], writer: IO[str]) -> None:
    """Ask on a terminal whether a long study shall begin. Raise UserError if it shall not."""
    if core_hours <= LONG or not (reader.isatty() and writer.isatty()):
        return
    writer.write(f"This takes about {core_hours:,.0f} core-hours. Begin? [y/N] ")
    writer.flush()
    answer = reader.readline()
    if not answer.endswith("\n"):
        writer.write("\n")
    if answer.strip().lower() not in ("y", "yes"):
        raise UserError("nothing was begun and nothing written; yes=true begins without a question")


def dry_run(plan: Plan, as_json: bool) -> int:
    """Print what `plan` would run and what is missing here, such as a GPU, a package or a model. Return 1 if anything
    is missing, else 0."""
    from guidebench.harness.models import study_models
    from guidebench.harness.plan import contents, matrix
    from guidebench.harness.run import estimates, forecast, readiness, study

    places = matrix.launcher_of(plan.execution).slots(plan.execution)
    jobs = -(-len(plan.seeds) // estimates.packed(plan, places))
    costs = estimates.costs(plan, places)
    costs_by_id = {cell.id: cost for cell, cost in zip(plan.trained, costs, strict=True)}
    hours = forecast.Forecast(plan, places, costs_by_id, {})
    rows: list[dict[str, Any]] = [
        {
            "cell": None if (awaited := contents.waits_for(cell)) else cell.id,
            **({"id": f"known once {awaited} is here"} if awaited else {}),
            "suite": cell.names.suite,
            "task": cell.names.task,
            "row": plan.row(cell),
            "seeds": list(plan.seeds),
            "steps": cell.steps,
            "hours": round((cost.seconds + cost.beside) * jobs / 3600, 4),
            "estimated": cost.basis,
            **plan.place(cell),
        }
        for cell, cost in zip(plan.trained, costs, strict=True)
    ]
    short = ""
    if plan.execution.models.budgeted:
        total = estimates.all_questions((cell, len(plan.seeds)) for cell in plan.trained)
        short = study_models.shortfall(plan.execution.models, study_models.folder(study.directory_of(plan)), total)
    warnings = [*filter(None, [short]), *readiness.warnings(plan)]
    missing = readiness.missing(plan, study.directory_of(plan))
    if as_json:
        usages = [pair for cell in plan.trained for pair in estimates.by_model(cell)]
        content = {
            "study": study.name_of(plan),
            "output": str(study.directory_of(plan)),
            "workers": len(places),
            "hours": round(hours.hours.hours, 3),
            "hours_between": [round(hours.hours.low, 3), round(hours.hours.high, 3)],
            "demonstrations": [
                {"suite": spec.name, "task": spec.task, "count": spec.count, "made": spec.file.exists()}
                for spec in _needed(plan)
            ],
            "models": [{"model": model, **usage._asdict()} for model, usage in usages],
            "models_at_most": {model: usage._asdict() for model, usage in _maximum_usage(plan).items()},
            "missing": missing,
            "warnings": warnings,
            "cells": rows,
        }
        print(json.dumps(content, indent=1))
        return 1 if missing else 0
    lines = [f"{'cell':<11} {'suite/task':<28} {'steps':>9} {'seeds':>5} {'core-hours':>10}  row"]
    for row in rows:
        place = f"{row['suite']}/{row['task']}"
        lines.append(
            f"{row['cell'] or '(see below)':<11} {place:<28} {row['steps']:>9,} {len(plan.seeds):>5} "
            f"{row['hours']:>10.2f}  {row['row']}"
        )
    lines += ["", *dict.fromkeys(f"id: {row['id']}" for row in rows if "id" in row)]
    lines += [_size(plan), *_demonstrations(plan), *_datasets(plan), *_calls(plan)]
    lines += [f"warning: {warning}" for warning in warnings]
    lines += [hours.sentence(), *filter(None, [hours.crowded()]), *_left_out(plan)]
    lines += [f"missing: {requirement}" for requirement in missing]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if missing else 0


def _size(plan: Plan) -> str:
    """Describe a plan's study, cells and seeds."""
    from guidebench.harness.plan import contents
    from guidebench.harness.run import study

    seeds = ",".join(map(str, plan.seeds[:12])) + (",…" if len(plan.seeds) > 12 else "")
    size = f"{count(len(plan.trained), 'cell')} × {count(len(plan.seeds), 'seed')} ({seeds})"
    if plan.execution.output is None and any(map(contents.waits_for, plan.trained)):
        return f"a study in runs/, whose name follows from its ids: {size}"
    return f"study {study.name_of(plan)} in {study.directory_of(plan)}: {size}"


def _needed(plan: Plan) -> dict[Any, None]:
    """Return the demonstrations that a plan's runs begin with."""
    from guidebench.harness.episodes import demonstrations

    return dict.fromkeys(
        filter(None, (demonstrations.spec(cell, seed) for cell in plan.trained for seed in plan.seeds))
    )


def _demonstrations(plan: Plan) -> list[str]:
    """Return a line for each set of demonstrations that a plan's runs begin with."""
    return [
        f"{count(spec.count, 'demonstration')} of {spec} {'is' if spec.count == 1 else 'are'} stored in each replay "
        f"before training: {'made already' if spec.file.exists() else 'made first'}"
        for spec in _needed(plan)
    ]


def _datasets(plan: Plan) -> list[str]:
    """Return what the datasets of a plan say of how they are read; nothing for one that cannot be read, which the check
    of what is missing names."""
    lines: dict[str, None] = {}
    for cell in plan.trained:
        actions = cell.section("suite").spaces(cell.names.task)[1]
        for part in cell.names.of("dataset"):
            with contextlib.suppress(UserError):
                lines |= dict.fromkeys(f"{part.role}: {line}" for line in cell.section(part.role).remarks(actions))
    return [*lines]


def _calls(plan: Plan) -> list[str]:
    """Return lines for each model that a plan's runs ask: the number of calls with their price, expected and at
    most."""
    from guidebench.harness.run import estimates

    expected, most = [pair for cell in plan.trained for pair in estimates.by_model(cell)], _maximum_usage(plan)
    needed = "if every attempt, repair and retry is needed"
    lines = []
    for model in dict.fromkeys((*(model for model, _ in expected), *most)):
        if usages := [usage for name, usage in expected if name == model]:
            volume = _volume(usages, len(plan.seeds))
            lines.append(f"{model} is asked {volume}; its time is not part of the estimate below")
            if model in most:
                lines.append(f"  and at most {_times(most[model])}, {needed}")
        else:
            lines.append(f"{model} is asked at most {_times(most[model])}, {needed}")
    return lines


def _maximum_usage(plan: Plan) -> dict[str, Usage]:
    """Return model -> upper bound of its usage by a plan's runs; {} for a plan of so many cells that it would take
    long."""
    from guidebench.harness.run import call_bounds, estimates

    if len(plan.trained) > estimates.MANY:
        return {}
    return call_bounds.by_model(plan.trained, len(plan.seeds), plan.execution.models.mode != "replay")


def _left_out(plan: Plan) -> list[str]:
    """Return a line for each suite of which the profile chose only some tasks, since the command names none."""
    from guidebench.harness import registry

    if any(word.partition("=")[0] == "task" for word in plan.command):
        return []
    tasks_by_profile: dict[tuple[str, str], list[str]] = {}
    for cell in plan.cells:
        tasks_by_profile.setdefault((cell.names.suite, cell.names.profile), []).append(cell.names.task)
    lines = []
    for (name, profile), tasks in tasks_by_profile.items():
        suite = registry.get("suite", name)
        joint = [task for task in suite.tasks if task in suite.joint]
        single = [task for task in suite.tasks if task not in joint]
        others = [task for task in single if task not in tasks]
        if not others:
            continue
        more = ",".join([*dict.fromkeys(tasks[:1]), others[0]]) + (",…" if len(single) > 2 else "")
        line = f"{profile} runs {len(single) - len(others)} of {len(single)} tasks of {name}; task={more} for more"
        wide = [
            other
            for other, words in suite.profiles.items()
            if other not in (profile, "paper") and set(single) <= set(words.get("tasks", ()))
        ]
        line += "".join(f", profile={other} for a short run of each" for other in wide)
        lines.append(
            line + "".join(f" (task={task} is one policy for all {len(single)}, another thing)" for task in joint)
        )
    return lines


def _volume(usages: Sequence[Usage], seeds: int) -> str:
    """Describe the calls that the cells of a study make to a model. `usages`: of one run of each cell; `seeds`: runs
    per cell."""
    from guidebench.harness.models.calls import Usage

    calls, images, tokens_in, tokens_out, usd = (
        seeds * sum(getattr(usage, name) for usage in usages)
        for name in ("calls", "images", "tokens_in", "tokens_out", "usd")
    )
    if images and not tokens_out:
        return f"at least {count(calls, 'clip')} ({count(images, 'frame')}{_price(usd)})"
    return _times(Usage(calls, tokens_in, tokens_out, images, usd=usd))


def _times(usage: Usage) -> str:
    """Describe a number of calls."""
    images = f"{count(usage.images, 'image')}, " if usage.images else ""
    tokens = f"{usage.tokens_in:,} tokens read and {usage.tokens_out:,} written"
    return f"about {count(usage.calls, 'time')} ({images}{tokens}{_price(usage.usd)})"


def _price(usd: float) -> str:
    return f", {usd:,.2f} USD by the prices known" if usd else ""


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
        directory = shlex.quote(str(outcome.directory))
        print(f"\n{count(len(alike) - ERRORS, 'more error')}; see them with: bench status {directory}")
    if outcome.stopped:
        print("stopped; the same command continues")


def _report(outcome: Study) -> None:
    from guidebench.harness.commands.cli import command

    report = command("report")
    if report is None:
        print(f"no report: the package that writes it is not installed; the results are in {outcome.directory}")
        return
    _run(report, [str(outcome.directory)])


def _close(outcome: Study, has_claims: bool = False) -> None:
    """Print what this number of seeds can show, and the path of the study's page. `has_claims`: whether the number of
    seeds follows from claims, so that no other is advised."""
    finished = Counter(run.cell.id for run in outcome.runs if run.status == "finished")
    if all(run.cell.names.profile == "smoke" for run in outcome.runs):
        print(
            "\nThe profile smoke shows that everything runs. Its runs are too short to learn, so their scores say "
            "nothing about a method: profile=quick takes minutes and learns."
        )
    elif not has_claims and (seeds := min(finished.values())) < ENOUGH:
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
    """Print how to follow a study whose jobs are in a scheduler's queue."""
    directory = shlex.quote(str(outcome.directory))
    print(
        f"{count(outcome.submitted or 0, 'job')} in the queue; they go on without this command. From any machine that "
        f"sees the directory:\n"
        f"  bench status {directory}\n"
        f"  bench cancel {directory}    (workers write a checkpoint; the same bench run continues)\n"
        f"  bench report {directory}"
    )
    if trackers:
        print(f"  bench track {directory} --to {','.join(trackers)} --follow    (trackers=… ends with this command)")


def _comparison(plan: Plan) -> Any | None:
    """Return the command `compare` if the plan sets `against`, else None. Raise UserError if it cannot be compared."""
    against = plan.execution.against
    if against is None:
        return None
    from guidebench.harness.commands.cli import command
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
