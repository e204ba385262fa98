"""A pilot: runs of the baseline at several difficulties of a suite, from which a study's difficulty, seeds and claims
follow before any of its methods was compared.

The baseline runs beside `random` and `expert` with three pilot seeds at each difficulty. At no more than two of the
difficulties at which methods can differ, the guided methods run once, only to see that their guides act and to record
the answers of which placebos are made. No score of theirs is read.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from guidebench.harness import claims, registry, settings
from guidebench.harness.capabilities import demonstrates
from guidebench.harness.claims import PILOT_SEEDS, Claim, Claims, ClaimScore
from guidebench.harness.errors import UserError
from guidebench.harness.models import choosing
from guidebench.harness.plan import claim_rows, config, difficulties, matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.run import estimates, guide_activity, scores, study
from guidebench.harness.run.scores import RunScore
from guidebench.harness.statistics import pilots
from guidebench.harness.statistics.pilots import Candidate, PilotScores

PILOT = "pilot.json"
"""File of a pilot's record, in its directory beside `claims.json`."""
REQUEST = ".pilot.json"
"""File of what a pilot was asked for, and of the difficulties that it chose for its minutes."""
SEEDS = tuple(range(PILOT_SEEDS, PILOT_SEEDS + 3))
MOST_GUIDED = 2
"""Most difficulties at which guided methods run."""
FEWEST = 5
"""Fewest seeds of a study that does not have as many as it needs."""
REFERENCES = ("random", "expert")


@dataclass(frozen=True)
class PilotPlan:
    """A pilot as a command describes it."""

    suite: str
    baseline: str
    methods: tuple[str, ...]
    """Guided methods; the first is that of the primary claim."""
    difficulties: tuple[str, ...]
    words: tuple[str, ...]
    """Words beside suite, method and difficulty: parts, sets of models, and settings, which hold for the cells that
    have them."""
    execution: tuple[str, ...]
    """Words that say how runs are executed."""
    score: ClaimScore
    hours: float = 2.0
    """Hours that the study may take on this machine."""
    looks: int = 1

    @property
    def directory(self) -> Path:
        """Return the directory of the pilot's runs and record."""
        return study.directory_of(self.plan_of(self.difficulties[0], self.baseline))

    def check(self) -> None:
        """Raise UserError for a word that none of the methods has, which plans of single methods would leave out, for
        one that sweeps, and for an area under a curve of one evaluation."""
        claim_rows.settings_of(self.shared_words)
        methods = ",".join((self.baseline, *self.methods))
        for difficulty in self.difficulties:
            plan = matrix.plan([f"suite={self.suite}", f"method={methods}", f"difficulty={difficulty}", *self.words])
            for cell in plan.cells:
                if self.score.timing == "area" and cell.settings["evaluation.every"].value >= cell.steps:
                    raise UserError(
                        f"--score {self.score}: {cell.names.method} is evaluated once at difficulty={difficulty}, and "
                        f"one evaluation has no area; lower evaluation.every"
                    )

    def plan_of(self, difficulty: str, method: str, *execution: str, seeds: Sequence[int] = SEEDS) -> Plan:
        """Return the plan of a method at a difficulty."""
        output = () if any(word.startswith("output=") for word in self.execution) else (f"output={self._output}",)
        row = (f"method={method}", *self.row_words(method))
        shared = (f"suite={self.suite}", f"difficulty={difficulty}", *self.shared_words)
        return claim_rows.row_plan(shared, row, seeds, (*execution, *output, *self.execution), Path())

    @property
    def shared_words(self) -> tuple[str, ...]:
        """Return the words that hold for all rows: names that are no part, and settings."""
        return tuple(word for word in self.words if not _names_part(word))

    def row_words(self, method: str) -> tuple[str, ...]:
        """Return the words that name parts in the row of this method: those of the roles that it has, and a set of
        models if it has a role of a model."""
        roles = self._roles(method)
        has_models = bool(roles & self.model_roles)
        words = [(word.partition("=")[0].partition(".")[0], word) for word in self.words if _names_part(word)]
        return tuple(word for key, word in words if (has_models if key == config.MODELS else key in roles))

    def _roles(self, method: str) -> set[str]:
        """Return the roles of a method's parts at the first difficulty."""
        words = [word for word in self.words if word.startswith("profile=")]
        plan = matrix.plan([f"suite={self.suite}", f"method={method}", f"difficulty={self.difficulties[0]}", *words])
        return {part.role for part in plan.cells[0].names.parts}

    @property
    def model_roles(self) -> set[str]:
        """Return the roles of models, of any part."""
        return {role for role, kinds in registry.roles().items() if kinds & {*registry.MODELS}}

    @property
    def _output(self) -> str:
        """Return the usual directory: what is piloted, and a hash of the words and the score."""
        words = json.dumps([*sorted(self.words), str(self.score)])
        named = f"pilot-{self.suite}-{self.baseline}-{'-'.join(self.methods)}"[:120]
        return f"runs/{named}-{hashlib.sha256(words.encode()).hexdigest()[:6]}"

    def baseline_plans(self) -> dict[str, dict[str, Plan]]:
        """Return difficulty -> method -> plan of the baseline, `random` and, where the suite has a solver, `expert`.

        The references never change, so they are evaluated once."""
        plans: dict[str, dict[str, Plan]] = {}
        for difficulty in self.difficulties:
            plans[difficulty] = {self.baseline: (baseline := self.plan_of(difficulty, self.baseline))}
            if len({cell.names.task for cell in baseline.cells}) > 1 or len(baseline.cells) > 1:
                raise UserError(
                    f"difficulty={difficulty} with these words describes {len(baseline.cells)} cells of "
                    f"{self.baseline}; a pilot has one cell at each difficulty, so name one task and sweep nothing"
                )
            once = f"evaluation.every={baseline.cells[0].steps}"
            plans[difficulty]["random"] = self._reference(difficulty, "random", once)
            cell = baseline.cells[0]
            if demonstrates(cell.section("suite"), cell.names.task):
                plans[difficulty]["expert"] = self._reference(difficulty, "expert", once)
        return plans

    def _reference(self, difficulty: str, method: str, once: str) -> Plan:
        """Return the plan of `random` or `expert`, evaluated once."""
        seldom = [word for word in self.words if not word.startswith("evaluation.every=")]
        return replace(self, words=(*seldom, once)).plan_of(difficulty, method)

    def guided_plans(self, difficulty: str) -> dict[str, Plan]:
        """Return guided method -> plan of its one run at a difficulty, which records its models' answers. It saves
        often enough that its ledger has a row before a quarter of the run."""
        steps = self.plan_of(difficulty, self.baseline).cells[0].steps
        words = ["answers=true"]
        if not any(word.startswith("checkpoint_every=") for word in self.execution):
            words.append(f"checkpoint_every={max(1, min(5_000, steps // 8))}")
        return {method: self.plan_of(difficulty, method, *words, seeds=SEEDS[:1]) for method in self.methods}


def _names_part(word: str) -> bool:
    """Return whether a word names a part or a set of models, and is no setting."""
    key = word.partition("=")[0]
    return key in (*registry.PARTS, *registry.roles(), config.MODELS) or key.startswith(f"{config.MODELS}.")


@dataclass(frozen=True)
class Level:
    """The pilot's result at one difficulty."""

    name: str
    settings: tuple[str, ...]
    """Every setting that was tried there, as words of a command."""
    scores: PilotScores
    within: float
    """Deviation of a run's score that its episodes alone cause."""
    seconds: float
    """Seconds of one run of the baseline."""
    guides: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Guided method -> what its run shows of its guide, in sentences."""
    guided_seconds: Mapping[str, float] = field(default_factory=dict)
    """Guided method -> seconds of one run."""


def affordable(request: PilotPlan, minutes: float) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return the difficulties that a pilot of so many minutes has time for, in their order, and the estimated minutes
    of each: the cheapest ones, with one run of each guided method at two of them. At least one is returned."""
    costs: dict[str, float] = {}
    guided: dict[str, float] = {}
    for difficulty, plans in request.baseline_plans().items():
        together = claim_rows.joined([*plans.values()])
        places = matrix.launcher_of(together.execution).slots(together.execution)
        costs[difficulty] = _minutes(together, len(SEEDS), len(places))
        guided[difficulty] = sum(_minutes(plan, 1, len(places)) for plan in request.guided_plans(difficulty).values())
    chosen: list[str] = []
    for difficulty in sorted(costs, key=lambda name: costs[name]):
        dearest = sorted((guided[name] for name in (*chosen, difficulty)), reverse=True)[:MOST_GUIDED]
        if chosen and sum(costs[name] for name in (*chosen, difficulty)) + sum(dearest) > minutes:
            break
        chosen.append(difficulty)
    return tuple(name for name in request.difficulties if name in chosen), costs


def _minutes(plan: Plan, seeds: int, workers: int) -> float:
    """Return the estimated minutes of a plan's runs on the places of this machine."""
    places = matrix.launcher_of(plan.execution).slots(plan.execution)
    seconds = sum(cost.seconds for cost in estimates.costs(plan, places))
    jobs = -(-seeds // estimates.packed(plan, places))
    return float(seconds * jobs / workers / 60)


def chosen_difficulties(request: PilotPlan, minutes: float) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return what `affordable` returns, or what it returned when this pilot began: finished runs change estimates, and
    a pilot that goes on has the same difficulties. Raise UserError if the directory holds another pilot."""
    fields = {
        "suite": request.suite, "baseline": request.baseline, "methods": list(request.methods),
        "words": list(request.words), "score": str(request.score), "among": list(request.difficulties),
        "minutes": minutes,
    }  # fmt: skip
    path = request.directory / REQUEST
    earlier = read_json(path) if path.exists() else {}
    if {name: earlier.get(name) for name in fields} == fields:
        return tuple(earlier["difficulties"]), earlier["costs"]
    fixed = ("suite", "baseline", "methods", "words", "score")
    if differing := [name for name in fixed if earlier and earlier.get(name) != fields[name]]:
        raise UserError(f"output={request.directory} holds a pilot with other {differing[0]}; name another directory")
    difficulties_of_pilot, costs = affordable(request, minutes)
    write_json(path, {**fields, "difficulties": list(difficulties_of_pilot), "costs": costs})
    return difficulties_of_pilot, costs


Runner = Callable[[Plan], study.Study]
"""Trains the runs of a plan, with progress on the screen."""


def carry_out(request: PilotPlan, run: Runner) -> tuple[list[Level], list[Candidate]]:
    """Run a pilot, or continue one, and return its levels and the difficulties in the range: those at which the guided
    methods ran, the cheapest first, and then the others.

    Raise UserError if a run failed or the score does not exist there. Stops early if `run` was stopped."""
    plans = request.baseline_plans()
    plan_of_all = claim_rows.joined([plan for methods in plans.values() for plan in methods.values()])
    study.require_finished(run(plan_of_all), "the pilot")
    directory = StudyDirectory(request.directory)
    levels = {name: _level(request, name, methods, directory) for name, methods in plans.items()}
    error = claims.LEVELS[request.looks]
    ids = {name: methods[request.baseline].cells[0].id for name, methods in plans.items()}
    distinct = {ids[name]: name for name in reversed(levels)}  # difficulties that are one cell are one
    ranked = pilots.candidates(
        [(name, level.scores, level.seconds) for name, level in levels.items() if distinct[ids[name]] == name], error
    )
    for candidate in ranked[:MOST_GUIDED]:
        guided = request.guided_plans(candidate.name)
        study.require_finished(run(claim_rows.joined([*guided.values()])), "the pilot")
        levels[candidate.name] = _with_guides(levels[candidate.name], guided, directory)
    timed = [replace(candidate, seconds=_row_seconds(request, levels[candidate.name])) for candidate in ranked]
    guided_first = sorted(timed, key=lambda candidate: (not levels[candidate.name].guides, candidate.cost))
    return [*levels.values()], guided_first


def _level(request: PilotPlan, name: str, methods: Mapping[str, Plan], directory: StudyDirectory) -> Level:
    """Return the result at one difficulty from the files of its runs."""
    once = request.score._replace(timing="final")  # references are evaluated once
    by_method = {
        method: _scores(plan.cells[0], SEEDS, directory, once if method in REFERENCES else request.score)
        for method, plan in methods.items()
    }
    cell = methods[request.baseline].cells[0]
    sign = scores.sign(request.score, cell.score)
    baseline = by_method[request.baseline]
    mean = float(np.mean([run.score for run in baseline]))
    is_rate = _bounds(cell, request.score) == (0.0, 1.0)
    within = float(np.sqrt(np.mean([run.variance for run in baseline])))
    error = (
        float(np.sqrt(max(mean * (1 - mean), 0.0) * np.mean([run.share for run in baseline]))) if is_rate else within
    )
    means = {method: sign * float(np.mean([run.score for run in runs])) for method, runs in by_method.items()}
    pilot_scores = PilotScores(
        baseline=sign * np.array([run.score for run in baseline]),
        error=error,
        expert=means.get("expert", float("nan")),
        random=means["random"],
        bounds=_bounds(cell, request.score),
        is_rate=is_rate,
    )
    seconds = float(np.mean([run.seconds for run in baseline]))
    return Level(name, words_of(request, name, cell), pilot_scores, within, seconds)


def words_of(request: PilotPlan, difficulty: str, cell: Cell) -> tuple[str, ...]:
    """Return the words that a difficulty stands for together with those of the command."""
    cited_words = difficulties.content(request.suite, difficulty)
    words = [f"{key}={settings.show(cited.value)}" for key, cited in cited_words.items()]
    typed = {word.partition("=")[0] for word in request.words}
    chosen = [word for word in words if word.partition("=")[0] not in typed]
    return (f"suite={request.suite}", *chosen, *request.shared_words)


def _bounds(cell: Cell, score: ClaimScore) -> tuple[float, float] | None:
    """Return the least and the greatest possible score, higher being better; None if one is not known."""
    if score.quantity == "success":
        return 0.0, 1.0
    task_score = cell.score
    if score.quantity not in ("score", task_score.name) or task_score.low is None or task_score.high is None:
        return None
    ends = task_score.sign * np.array([task_score.low, task_score.high])
    return float(ends.min()), float(ends.max())


def _scores(cell: Cell, seeds: Sequence[int], directory: StudyDirectory, score: ClaimScore) -> list[RunScore]:
    return [scores.run_score(directory.run(cell.directory, seed), score, cell.score) for seed in seeds]


def _with_guides(level: Level, guided: Mapping[str, Plan], directory: StudyDirectory) -> Level:
    """Return a level with what the guided runs show of their guides, without their scores."""
    runs = {
        method: (plan.cells[0], directory.run(plan.cells[0].directory, SEEDS[0])) for method, plan in guided.items()
    }
    return replace(
        level,
        guides={method: guide_activity.describe(cell, run) for method, (cell, run) in runs.items()},
        guided_seconds={method: scores.seconds(run) for method, (_, run) in runs.items()},
    )


def _row_seconds(request: PilotPlan, level: Level) -> float:
    """Return the seconds of one seed of every row: the baseline, the guided methods, and the placebo of each method
    that asks models, which takes as long as the method. A guided method that has not run there counts as the
    baseline."""
    return level.seconds + sum(
        level.guided_seconds.get(method, level.seconds) * (2 if _asks(request, level.name, method) else 1)
        for method in request.methods
    )


def _asks(request: PilotPlan, difficulty: str, method: str) -> bool:
    """Return whether a method has a role of a model, and thus a placebo."""
    return bool(request.plan_of(difficulty, method).cells[0].models)


@dataclass(frozen=True)
class Recommendation:
    """The study that a pilot recommends."""

    claims: Claims | None
    """None if the seeds that fit the hours find no possible difference."""
    difficulty: str
    seeds: int
    """Seeds that fit the hours, at most those needed."""
    needed: float
    """Seeds that find the difference δ of `PilotScores.delta`; more than `claims.n` if the hours do not suffice."""


def recommend(request: PilotPlan, levels: Sequence[Level], ranked: Sequence[Candidate], workers: int) -> Recommendation:
    """Return the cheapest study, with as many seeds as it needs, or as fit its hours but at least five."""
    best = ranked[0]
    level = next(level for level in levels if level.name == best.name)
    fitting = max(FEWEST, int(3600 * request.hours * workers / best.seconds))
    seeds = int(min(best.seeds, fitting, claims.MOST_SEEDS))
    delta = level.scores.delta if seeds >= best.seeds else best.design.smallest_difference(seeds)
    if not np.isfinite(delta):
        return Recommendation(None, best.name, seeds, best.seeds)
    record = Claims(
        claims=tuple(_claim(request, level, method, number == 0) for number, method in enumerate(request.methods)),
        difficulty=best.name,
        settings=level.settings,
        n=seeds,
        delta=_rounded(delta),
        sigma=_rounded(best.design.sigma),
        pilot=digest(as_json(request, levels)),
        hours=_rounded(seeds * best.seconds / workers / 3600),
        looks=request.looks,
    )
    return Recommendation(record, best.name, seeds, best.seeds)


def _claim(request: PilotPlan, level: Level, method: str, primary: bool) -> Claim:
    """Return the claim that a guided method differs from the baseline and from its placebo."""
    first, second = ((f"method={name}", *request.row_words(name)) for name in (method, request.baseline))
    others = [word for word in first if word.partition("=")[0] not in (config.MODELS, *request.model_roles)]
    cell = request.plan_of(level.name, method).cells[0]
    delays = [f"{part.role}.delay" for part in cell.models]  # an answer counts as late as the method's own
    words = [f"{key}={settings.show(cell.settings[key].value)}" for key in delays if key in cell.settings]
    words += choice_words(cell)
    placebo = (*others, "models=placebo", f"{claim_rows.ANSWERS}={answers_name(method)}", *words)
    direction: Literal["higher", "lower"] = "higher" if scores.sign(request.score, cell.score) > 0 else "lower"
    return Claim(first, second, placebo if cell.models else None, str(request.score), direction, primary)


def choice_words(cell: Cell) -> list[str]:
    """Return the words by which a placebo answers in the form of a cell's chats, and chooses by their settings."""
    usual = settings.fields(choosing.Choosing)
    keys = [(f"{part.role}.{name}", usual[name].default) for part in cell.models for name in choosing.SETTINGS]
    chosen = [(key, cell.settings[key].value, default) for key, default in keys if key in cell.settings]
    return [f"{key}={settings.show(setting)}" for key, setting, default in chosen if setting != default]


def answers_name(method: str) -> str:
    """Return the name of the file of a guided method's recorded answers, beside the claims."""
    return f"answers-{method}.parquet"


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")


def as_json(request: PilotPlan, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the record of a pilot: what was tried, and every score of the baseline, `random` and `expert`."""
    return {
        "suite": request.suite,
        "baseline": request.baseline,
        "methods": list(request.methods),
        "score": str(request.score),
        "seeds": list(SEEDS),
        "levels": [
            {
                "difficulty": level.name,
                "settings": list(level.settings),
                "baseline": [_number(float(score)) for score in level.scores.baseline],
                "between_seeds": _number(level.scores.deviation),
                "within_seeds": _number(level.within),
                "random": _number(level.scores.random),
                "expert": _number(level.scores.expert),
                "seconds": _rounded(level.seconds),
                "why_not": level.scores.why_not,
                "guides": {method: list(lines) for method, lines in level.guides.items()},
            }
            for level in levels
        ],
    }


def _number(number: float) -> float | None:
    """Return a number as JSON has it: None for NaN."""
    return _rounded(number) if np.isfinite(number) else None


def digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a pilot's record as canonical JSON."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write(request: PilotPlan, levels: Sequence[Level], recommended: Claims | None) -> list[Path]:
    """Write the pilot's record and, if there are claims, these and the answers for their placebos. Return the files.
    Claims that somebody edited or tuned stay as they are: they are not among the files then."""
    files = [request.directory / PILOT]
    write_json(files[0], as_json(request, levels))
    if recommended is None:
        return files
    directory = StudyDirectory(request.directory)
    for method, plan in request.guided_plans(recommended.difficulty).items():
        if plan.cells[0].models:
            run = directory.run(plan.cells[0].directory, SEEDS[0])
            files.append(_copied(run, request.directory / answers_name(method)))
    path = request.directory / claims.CLAIMS
    if not path.exists() or claims.read(path) == recommended:
        write_json(path, recommended.as_json())
        files.append(path)
    return files


def _copied(run: RunDirectory, target: Path) -> Path:
    source = run.path / "answers.parquet"
    if not source.exists():
        raise UserError(
            f"{run.home} has no answers.parquet, since it was trained without answers=true; delete it and type the "
            f"same command"
        )
    shutil.copyfile(source, target)
    return target


def checked_difficulties(suite: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of difficulties of a suite, all of them for an empty list. Raise UserError for an unknown one
    and for a suite that declares none."""
    declared = tuple(registry.get("suite", suite).difficulties)
    if not declared:
        raise UserError(f"suite={suite} declares no difficulties, so there is nothing to choose from")
    for name in names:
        difficulties.content(suite, name)
    return tuple(names) or declared
