"""A page for each paper: which of its numbers can be run here, by which command, at what cost, and what was measured.

Availability follows from the registry, costs from the estimate of `--dry-run`, and measurements from stored reports.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from docs.generated.markdown import code, table, text
from guidebench.harness import registry
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run import estimates
from guidebench.reports.papers.catalogue import paper
from guidebench.results import published

REAL = "real_robot"
"""The suite of numbers that a paper measured on a real robot."""
MEASURED = Path(__file__).parents[2] / "results" / "measured" / "papers"


class Experiment(NamedTuple):
    """A `bench` command that makes runs of a paper."""

    command: str
    makes: str
    """Tables and figures of the paper that use these runs."""


class About(NamedTuple):
    """Text about a paper that no data file contains."""

    idea: str
    page: str = ""
    """Documentation page of the paper's method."""
    experiments: tuple[Experiment, ...] = ()


_LAGEA_PARTS = "alignment,feedback,rho,reward,keyframes,delta,no_goal_delta,no_feedback_delta"
"""Groups of LaGEA's ablations that its tables and figures have."""
_ALIKE = "suite.impossible=masked suite.actions=find"
"""Settings of DSADF's own recipe on Crafter, for the methods beside it."""
_FROM = "pretraining.task=trained suite.goal_vector=true pretraining.pretraining=ellm_exploration"
"""Settings of DSADF's unseen tasks: a policy learnt on the trained ones in turn, which started from ELLM's."""
_MET = "task=task1,task2,task3,task4"
"""The tasks of its tables 3 and 8, each with a policy of its own."""
ABOUT: Mapping[str, About] = {
    "vlm_rb": About(
        "A vision-language model judges clips of the agent's play, and a share of each batch is drawn from clips in "
        "which it sees something meaningful happen (Sharony et al., VLM-Guided Experience Replay).",
        "../methods/vlm_rb.md",
        (
            Experiment(
                "bench run suite=minigrid_doorkey method=uer,per,vlm_rb learner=dqn,iqn seeds=5",
                "tables 1, 6, 7 and 8, figures 3 and 9: discrete tasks",
            ),
            Experiment(
                "bench run suite=ogbench_scene method=uer,per,vlm_rb learner=sac,td3 seeds=5",
                "tables 1, 7 and 8, figure 9: continuous tasks",
            ),
            Experiment(
                "bench run suite=minigrid_doorkey method=uer,per,aer,ero,relo,vlm_rb learner=dqn seeds=5",
                "figure 5",
            ),
            Experiment(
                "bench ablate suite=minigrid_doorkey task=16x16 method=vlm_rb learner=dqn --only lambda_max seeds=5",
                "table 4, figure 6 (beside the baselines of the first command)",
            ),
            Experiment(
                "bench ablate suite=minigrid_doorkey task=16x16 method=vlm_rb learner=dqn --only model seeds=5",
                "table 5, figure 7",
            ),
            Experiment(
                "bench perturb suite=minigrid_doorkey task=16x16 method=vlm_rb,per learner=dqn seeds=5",
                "figures 4 and 8",
            ),
        ),
    ),
    "rl_sallm_f": About(
        "A language model labels which of two segments of behaviour is better, is asked in both orders, and imagines "
        "better segments; a reward is learnt from these labels (Tu et al., Online Preference-based Reinforcement "
        "Learning with Self-augmented Feedback from Large Language Model).",
        "../methods/rl_sallm_f.md",
        (
            Experiment("bench run method=rl_sallm_f,pebble,sac seeds=5", "tables 4 and 6, figures 3, 6, 7 and 10"),
            Experiment(
                "bench ablate method=rl_sallm_f task=button-press,door-open,door-unlock,handle-pull seeds=5",
                "tables 1, 6 and 7, figures 1c, 4, 5, 8, 11 and 13",
            ),
            Experiment("bench run method=pebble_llm task=button-press seeds=5", "figure 1b"),
            Experiment(
                "bench run suite=metaworld_pbrl method=vlm_rm,roboclip,tadpole seeds=5",
                "table 4: VLM-RM, RoboCLIP, TADPoLe",
            ),
            Experiment(
                "bench run suite=point_maze method=sac suite.reward=dense,sparse seeds=5",
                "table 5: SAC with either reward",
            ),
            Experiment("bench run suite=point_maze method=pebble,rl_sallm_f seeds=5", "table 5"),
            Experiment("bench ablate method=rl_sallm_f task=drawer-open --only larger_model seeds=5", "figure 8"),
            Experiment("bench run method=rl_sallm_f,rl_vlm_f task=drawer-open seeds=5", "figure 12"),
        ),
    ),
    "lagea": About(
        "A vision-language model writes structured feedback on each episode. Its vector is aligned with those of "
        "frames, and a step is rewarded for coming nearer to the goal and to the feedback (Chowdhury et al., LaGEA: "
        "Language Guided Embodied Agents for Robotic Manipulation).",
        "../methods/lagea.md",
        (
            Experiment(
                "bench run suite=metaworld_mt10 method=sac,liv,liv_proj,relay,furl_no_goal,furl,lagea seeds=5",
                "table 1, figures 3 and 6: hidden goals",
            ),
            Experiment(
                "bench run suite=metaworld_mt10 suite.goal=observable method=sac,relay,furl,lagea seeds=5",
                "table 2, figures 3 and 6: observable goals",
            ),
            Experiment(
                f"bench ablate suite=metaworld_mt10 task=push,drawer-open,door-open method=lagea --only {_LAGEA_PARTS} "
                f"seeds=3",
                "tables 3 and 7, figures 4 and 5: hidden goals",
            ),
            Experiment(
                f"bench ablate suite=metaworld_mt10 suite.goal=observable "
                f"task=button-press-topdown,drawer-open,door-open method=lagea --only {_LAGEA_PARTS} seeds=3",
                "tables 3 and 7, figures 4 and 5: observable goals",
            ),
        ),
    ),
    "kagi": About(
        "A vision-language model draws waypoints on an image of the scene, and a robot is paid for coming near to them "
        "(Lee et al., KAGI).",
        "../methods/kagi.md",
        (
            Experiment(
                "bench ablate suite=bin_sorting method=robofume,kagi segmenter=transformers "
                "guide.formulation=both,dense --only demos seeds=3",
                "figure 5",
            ),
        ),
    ),
    "dsadf": About(
        "A language model plans sub-goals and a trained policy carries them out; a vision-language model acts where "
        "the policy has not learnt to (Dou et al., DSADF: Thinking Fast and Slow for Decision Making).",
        "../methods/dsadf.md",
        (
            Experiment(
                f"bench run suite=crafter_ood method=sparse,curiosity,self_imitation,linvit,dsadf {_MET} "
                f"pretraining=ellm_exploration,apt_exploration {_ALIKE} seeds=5",
                "table 3, figures 3, 4 and 5",
            ),
            Experiment(
                f"bench ablate suite=crafter_ood method=model_as_agent,model_with_planner,dsadf_transfer "
                f"task=task5,task6,task7 {_ALIKE} {_FROM} --only performer=llava-1.5 seeds=5",
                "table 4, figure 6: long tasks",
            ),
            Experiment(
                f"bench ablate suite=crafter_ood method=model_as_agent,dsadf_transfer task=task8,task9,task10 {_ALIKE} "
                f"{_FROM} --only performer=gpt-4o,performer=qwen2.5-72b seeds=5",
                "table 5, figure 6: short tasks",
            ),
            Experiment(
                f"bench ablate method=dsadf_transfer task=task5,task6,task7 {_ALIKE} {_FROM} --only planner seeds=5",
                "table 6",
            ),
            Experiment(
                f"bench ablate method=dsadf_transfer task=task5,task6,task7 {_ALIKE} {_FROM} --only performer seeds=5",
                "table 7",
            ),
            Experiment(
                f"bench ablate suite=crafter_ood method=dsadf,sparse,model_with_planner,model_as_agent {_MET} "
                f"pretraining=ellm_exploration {_ALIKE} --only variation=II,variation=V seeds=5",
                "table 8",
            ),
            Experiment(
                f"bench ablate suite=crafter_ood method=dsadf_transfer,transfer,model_with_planner,model_as_agent "
                f"task=task5,task6,task7 {_ALIKE} {_FROM} --only variation seeds=5",
                "table 9",
            ),
            Experiment(
                "bench ablate suite=housekeep method=sparse,linvit,model_as_agent,dsadf "
                "--only performer=gpt-4o,performer=qwen2.5-72b seeds=5",
                "table 10",
            ),
        ),
    ),
}


def pages() -> dict[str, str]:
    """Return address -> Markdown of a page for each paper; papers whose methods are implemented come first."""
    order = sorted(published.PAPERS, key=lambda name: not ABOUT[name].experiments)
    return {f"papers/{name}.md": "\n".join(_page(name, ABOUT[name])) for name in order}


def _page(name: str, about: About) -> Iterator[str]:
    yield f"# {published.PAPERS[name]}\n\n{text(about.idea)}\n"
    yield _availability(name, about)
    yield f"## Tables\n\n{_tables(name)}"
    yield f"## Claims\n\n{_claims(name)}"
    if about.experiments:
        yield f"## Commands and what they cost\n{_costs(about)}"
    yield f"## What was measured\n\n{_measurements(name)}"


def _availability(name: str, about: About) -> str:
    """Describe which methods and suites of a paper are available here."""
    methods, suites = _absent(name)
    if about.page:
        lines = [f"Its method is here: [`{name}`]({about.page}) says how it was built and what differs from the paper."]
    else:
        lines = [
            "Its method is not here yet. The numbers that it prints are, so that runs can be laid out beside them."
        ]
    if methods:
        lines.append(f"Methods of its tables that are missing: {', '.join(map(code, methods))}.")
    if suites:
        lines.append(f"Suites of its tables that are missing: {', '.join(map(code, suites))}.")
    if REAL in suites:
        lines.append("What it measured on a real robot can be run nowhere here, and is shown as published only.")
    lines.append(f"`bench report STUDY --paper {name}` lays a study out as this paper's tables, figures and claims.\n")
    return "\n".join(lines)


def _absent(name: str) -> tuple[list[str], list[str]]:
    """Return the methods and the suites of a paper's published numbers that are not registered."""
    numbers = published.load(name)
    methods = [name for name in numbers["method"].unique()
               if not any(_methods(number) for number in numbers[numbers["method"] == name].itertuples())]  # fmt: skip
    suites = [number for number in numbers["suite"].unique() if number and number not in _registered_names("suite")]
    return methods, suites


@functools.cache
def _registered_names(kind: str) -> frozenset[str]:
    return frozenset(registry.names(kind))


def possible(number: Any) -> bool:
    """Return whether the suite, its tasks and the method of a published number (a record of `published.load`) are
    registered."""
    suites = {suite for suite in number.suite.split(",") if suite}
    if not _methods(number) or not suites <= _registered_names("suite"):
        return False
    tasks = {task for suite in suites for task in registry.get("suite", suite).tasks}
    tasks_here = {paper(number.paper).tasks.get(task, task) for task in number.task.split(",")}
    return not suites or number.task == "all" or tasks_here <= tasks


def _methods(number: Any) -> list[str]:
    """Return the registered methods that a published number's method and variant may mean."""
    about = paper(number.paper)
    if about.reads is None:
        meant = [number.method]
    else:
        variant = published.variant(number.variant)
        meant = [
            possible_configuration.method
            for possible_configuration in about.reads(about.tasks.get(number.task, number.task), number.method, variant)
        ]
    return [method for method in meant if method in _registered_names("method")]


def _tables(name: str) -> str:
    numbers = published.load(name)
    titles = {layout.table: layout.title for layout in paper(name).layouts}
    rows = []
    for called, title in titles.items():
        table_numbers = numbers[numbers["table"] == called]
        possible_count = sum(map(possible, table_numbers.itertuples()))
        rows.append((called, text(title), str(len(table_numbers)), f"{possible_count}" if possible_count else "none"))
    total = sum(map(possible, numbers.itertuples()))
    return (
        f"It prints {len(numbers)} numbers in tables of results. {total or 'None'} of them can be run here, which "
        f"needs their suite, tasks and method.\n"
        f"{table(('table', 'what it shows', 'numbers', 'can be run here'), rows)}"
    )


def _claims(name: str) -> str:
    claims = published.claims(name)
    tested = int((claims["formula"] != "none").sum())
    return (
        f"It makes {len(claims)} claims in prose; {tested} of them have a formula that tests them on runs. The others "
        f"name nothing that runs could measure.\n"
    )


def plan(command: str) -> Plan:
    """Return the plan of a `bench run`, `bench ablate` or `bench perturb` command."""
    _, kind, *words = command.split()
    only: list[str] = []
    if "--only" in words:
        at = words.index("--only")
        only, words = words[at + 1].split(","), words[:at] + words[at + 2 :]
    planned = matrix.plan(words)
    variants = {"run": lambda: planned, "ablate": lambda: variations.ablations(planned, only)}
    return variants[kind]() if kind in variants else variations.perturbations(planned, only)


def _costs(about: About) -> str:
    rows = []
    for experiment in about.experiments:
        planned = plan(experiment.command)
        runs = len(planned.trained) * len(planned.seeds)
        hours = core_hours(planned)
        rows.append((text(experiment.makes), code(experiment.command), str(runs), f"{hours:,.0f}", _models(planned)))
    low, high = estimates.SPREAD["counted"]
    introduction = (
        f"\nEach command prints its cost with `--dry-run` for the machine on which it is typed. Core-hours here are "
        f"those of one CPU core by operation counts; runs took {low:g} to {high:g} times as many. The time of models "
        f"is not in them. `profile=quick` makes the same study in small.\n"
    )
    return introduction + table(("makes", "command", "runs", "core-hours", "models"), rows)


def core_hours(planned: Plan) -> float:
    """Return the estimated CPU core-hours of all runs of a plan, pre-training stages included, from operation
    counts."""
    seconds = sum(estimates.COUNTED * estimates.counted(cell) for cell in planned.trained)
    return len(planned.seeds) * seconds / 3600


def model_calls(planned: Plan) -> dict[str, tuple[int, float]]:
    """Return model -> (number of calls, price in USD) of all runs of a plan; only for models whose asking part
    estimates its calls."""
    totals: dict[str, tuple[int, float]] = {}
    for cell in planned.trained:
        for model, usage in estimates.by_model(cell):
            calls, usd = totals.get(model, (0, 0.0))
            totals[model] = calls + len(planned.seeds) * usage.calls, usd + len(planned.seeds) * usage.usd
    return totals


def _models(planned: Plan) -> str:
    """Describe how many calls all runs of a plan make to each model, and their price."""
    totals = model_calls(planned)
    named = dict.fromkeys(cell.called(part) for cell in planned.trained for part in cell.models)
    counts = [
        f"{code(model)}: {calls:,} calls" + (f", {usd:,.0f} USD" if usd else ", run here")
        for model, (calls, usd) in totals.items()
    ]
    return (
        "; ".join([*counts, *(f"{code(model)}: calls not estimated" for model in named if model not in totals)])
        or "none"
    )


def _measurements(name: str) -> str:
    stored = MEASURED / name / f"{name}.json"
    if not stored.is_file():
        return "Nothing yet. [What this project has measured](../measured/index.md) lists every study of its own.\n"
    report = json.loads(stored.read_text(encoding="utf-8"))
    numbers = [number for table in report["tables"] for number in table["numbers"]]
    ours = [number for number in numbers if number["ours"]]
    reasons = dict.fromkeys(reason for number in ours for reason in number["reasons"])
    rows = (
        (
            number["table"],
            code(number["task"]),
            " ".join([code(number["method"]), *(code(f"{key}={value}") for key, value in number["variant"].items())]),
            number["metric"].replace("_", " "),
            _number(number["value"]),
            _interval(number["ours"]),
            number["verdict"],
        )
        for number in ours
    )
    studies = ", ".join(map(code, report["studies"]))
    return (
        f"Studies: {studies}; [what they show](../measured/index.md). They give {len(ours)} of the {len(numbers)} "
        f"numbers. What differs from the paper's runs: {text('; '.join(reasons))}.\n"
        f"{table(('table', 'task', 'row', 'number', 'paper', 'ours', 'verdict'), rows)}"
    )


def _interval(ours: Mapping[str, Any]) -> str:
    """Format an estimate with its 95 % interval. `ours`: record with estimate, low and high."""
    return f"{_number(ours['estimate'])} \\[{_number(ours['low'])}, {_number(ours['high'])}\\]"


def _number(value: float | str) -> str:
    """Format a number with at least three digits, and as a whole number from 1,000 on; a word such as "never" stays."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
