"""Run pilots of a baseline at a suite's difficulties, and write the claims of the study that they recommend.

The baseline runs alone, beside `random` and `expert`, with three pilot seeds at each difficulty. Difficulties are kept
where it neither fails nor succeeds in every episode. The methods run once, at no more than two of these, only to see
that their guides act: no score of theirs is read or printed. The claims, their difficulty and the number of seeds are
written to claims.json, which `bench run claims=FILE` runs. The same command continues a pilot.

  bench pilot suite=minigrid_doorkey method=vlm_rb --baseline uer --score "area success"
  bench run claims=runs/pilot-minigrid_doorkey-uer-vlm_rb/claims.json
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from guidebench.harness.claims import MOST_SEEDS
from guidebench.harness.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guidebench.harness.plan.matrix import Plan
    from guidebench.harness.run.pilot import Level, PilotPlan, Recommendation
    from guidebench.harness.run.study import Study
    from guidebench.harness.statistics.pilots import Candidate

HELP = "find a difficulty at which methods can differ, and how many seeds show it"
RUNS_CODE = True
NO_STUDY = 1
"""Exit code of a pilot in which no difficulty lies in the range."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="key=value", help="suite=, method= and further words of a run")
    parser.add_argument("--baseline", required=True, metavar="METHOD", help="the method that runs at each difficulty")
    parser.add_argument(
        "--difficulties", default="", metavar="NAME,…", help="only these (bench show suite=… lists them)"
    )
    parser.add_argument("--minutes", type=float, default=40.0, help="minutes that the pilot may take (40)")
    parser.add_argument("--hours", type=float, default=2.0, help="hours that the study may take (2)")
    parser.add_argument(
        "--score",
        default="late score",
        help="what the claims compare: area, final or late (the mean of the last three evaluations), and score, "
        "success, return or an outcome of the task ('late score')",
    )
    parser.add_argument("--dry-run", action="store_true", help="print difficulties and minutes; train nothing")
    parser.add_argument("--looks", type=int, choices=(1, 2), default=1, help="2 declares a look at half of the seeds")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.plan import matrix
    from guidebench.harness.run import pilot

    request = _request(args)
    request.check()
    choose = pilot.affordable if args.dry_run else pilot.chosen_difficulties
    difficulties, costs = choose(request, args.minutes)
    _announce(request, difficulties, costs, args.minutes)
    if args.dry_run:
        return 0
    chosen = pilot.PilotPlan(**{**vars(request), "difficulties": difficulties})
    levels, ranked = pilot.carry_out(chosen, train)
    _print_levels(chosen, levels, ranked)
    places = matrix.launcher_of(chosen.plan_of(difficulties[0], chosen.baseline).execution)
    workers = len(places.slots(chosen.plan_of(difficulties[0], chosen.baseline).execution))
    recommendation = pilot.recommend(chosen, levels, ranked, workers) if ranked else None
    record = recommendation.claims if recommendation else None
    files = pilot.write(chosen, levels, record)
    _close(chosen, levels, recommendation, [str(file) for file in files])
    return 0 if record else NO_STUDY


def _request(args: argparse.Namespace) -> PilotPlan:
    """Return the pilot that a command describes. Raise UserError for a fault."""
    from guidebench.harness.claims import claim_score
    from guidebench.harness.plan.claim_rows import is_execution_word
    from guidebench.harness.plan.grammar import parse
    from guidebench.harness.run import pilot

    overrides = {override.key: override for override in parse(args.overrides)}
    for key, advice in (
        ("suite", "name the suite, such as suite=minigrid_doorkey"),
        ("method", "name the guided methods, such as method=vlm_rb"),
    ):
        if key not in overrides:
            raise UserError(f"{key}= is missing; {advice}")
    for key in ("seeds", "difficulty"):
        if key in overrides:
            raise UserError(f"{key}= is given, but a pilot chooses its {key}; leave it out (--difficulties lists some)")
    suite = str(overrides["suite"].values[0])
    methods = tuple(dict.fromkeys(map(str, overrides["method"].values)))
    if overrides["suite"].sweep:
        raise UserError("suite= has several values; a pilot chooses the difficulty of one suite")
    if args.baseline in methods:
        raise UserError(f"--baseline {args.baseline} is also in method=; a method is compared with another one")
    if not (args.minutes > 0 and args.hours > 0):
        raise UserError("--minutes and --hours: expected numbers above 0")
    words = {word.partition("=")[0]: word for word in args.overrides}
    names = [name for name in args.difficulties.split(",") if name]
    return pilot.PilotPlan(
        suite=suite,
        baseline=args.baseline,
        methods=methods,
        difficulties=pilot.checked_difficulties(suite, names),
        words=tuple(
            word for key, word in words.items() if key not in ("suite", "method") and not is_execution_word(key)
        ),
        execution=tuple(word for key, word in words.items() if is_execution_word(key)),
        score=claim_score(args.score),
        hours=args.hours,
        looks=args.looks,
    )


def train(plan: Plan) -> Study:
    """Train the runs of a plan, with progress on the screen, but without scores."""
    from guidebench.harness.run import progress, study

    with progress.display(plan) as display:
        display.shows_scores = False
        return study.carry_out(plan, display)


def _announce(request: PilotPlan, chosen: Sequence[str], costs: dict[str, float], minutes: float) -> None:
    """Print what the pilot will do."""
    total = sum(costs[name] for name in chosen)
    methods = " and ".join(request.methods)
    print(
        f"pilot in {request.directory}: {request.baseline} with three seeds, random and expert at "
        f"{_difficulties(len(chosen))} of {request.suite} ({', '.join(chosen)}), about "
        f"{total:.0f} minutes; then {methods} once, at no more than two of them"
    )
    if dropped := [name for name in costs if name not in chosen]:
        needed = ", ".join(f"{name} {costs[name]:.0f}" for name in dropped)
        print(f"left out, since {minutes:g} minutes do not suffice: {needed} minutes; --minutes allows more")
    sys.stdout.flush()


def _difficulties(number: int) -> str:
    return "1 difficulty" if number == 1 else f"{number} difficulties"


def _print_levels(request: PilotPlan, levels: Sequence[Level], ranked: Sequence[Candidate]) -> None:
    """Print a table of the difficulties: scores of the baseline, `random` and `expert`, deviations, seeds and hours."""
    by_name = {candidate.name: candidate for candidate in ranked}
    width = max(len("difficulty"), *(len(level.name) for level in levels))
    print(f"\n{request.score} of {request.baseline}, three pilot seeds:")
    print(
        f"{'difficulty':<{width}}  {'seeds':<20} {'between':>8} {'within':>8} {'random':>8} {'expert':>8} "
        f"{'needed':>7} {'hours':>6}"
    )
    for level in levels:
        scores = level.scores
        seed_scores = ", ".join(f"{score:.3g}" for score in scores.baseline)
        line = (
            f"{level.name:<{width}}  {seed_scores:<20} {scores.deviation:>8.3g} {level.within:>8.3g} "
            f"{scores.random:>8.3g} {scores.expert:>8.3g} "
        )
        candidate = by_name.get(level.name)
        if candidate is None:
            print(f"{line}  {scores.why_not}")
            continue
        seeds = f"{candidate.seeds:.0f}" if candidate.seeds <= MOST_SEEDS else f"> {MOST_SEEDS}"
        hours = candidate.seconds * min(candidate.seeds, MOST_SEEDS) / 3600
        print(f"{line}{seeds:>7} {hours:>6.1f}  core-hours{'' if level.guides else ' if its rows are as fast'}")
    for level in levels:
        for method, lines in level.guides.items():
            print(f"\nthe guide of {method} at {level.name}, one run:")
            print("\n".join(f"  {line}" for line in lines))
    print("\nsettings that were tried:")
    for level in levels:
        print(f"  {level.name}: {shlex.join(level.settings)}")


def _close(
    request: PilotPlan, levels: Sequence[Level], recommendation: Recommendation | None, files: Sequence[str]
) -> None:
    """Print the recommendation and the command that follows."""
    print(f"\nwrote {', '.join(files)}")
    if recommendation is None:
        print(
            f"No difficulty lies in the range: {request.baseline} must stand between .2 and .8, expert at .9 or above "
            f"and random at .1 or below. Try other settings, such as training.steps=, or another baseline."
        )
        return
    record, level = recommendation.claims, next(level for level in levels if level.name == recommendation.difficulty)
    needed = f"{recommendation.needed:.0f}" if recommendation.needed <= MOST_SEEDS else f"more than {MOST_SEEDS}"
    if record is None:
        print(
            f"No study: at difficulty {recommendation.difficulty}, {request.hours:g} hours hold {recommendation.seeds} "
            f"seeds a row, which find no possible difference in 80 % of studies; a difference of "
            f"{level.scores.delta:g} needs {needed}. --hours allows more."
        )
        return
    print(
        f"Recommended: difficulty {record.difficulty}, {record.n} seeds a row, about {record.hours:.1f} hours on this "
        f"machine. In 80 % of such studies the test finds a difference of {record.delta:g}."
    )
    if recommendation.needed > record.n:
        print(
            f"A difference of {level.scores.delta:g} needs {needed} seeds, and {request.hours:g} hours hold "
            f"{record.n}; --hours allows more."
        )
    if not any(file.endswith("claims.json") for file in files):
        print(
            f"{request.directory / 'claims.json'} stays, since it is not what this pilot recommends: it was edited or "
            f"tuned. Delete it and type the same command for the recommendation."
        )
    print(
        "Commit the claims before the study runs; its seeds follow from their digest.\n"
        f"  bench run claims={shlex.quote(str(request.directory / 'claims.json'))}"
    )
