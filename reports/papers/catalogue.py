"""How each paper's tables and figures are laid out; their numbers are in `results.published`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.errors import unknown
from results.published import PAPERS as NAMES


class Column(NamedTuple):
    """A column that holds several numbers of a line, as in "+61.3% (1.00/0.62)"; the verdict is that of the first."""

    title: str
    numbers: tuple[tuple[str, str], ...]
    """(metric, whose): whose is "method", or "baseline" for what the baseline itself reached."""


@dataclass(frozen=True)
class Layout:
    """A table: which properties of a number name its line, and which its column.

    A property is suite, task, method, metric, or a key of its variant.
    """

    table: str
    title: str
    lines: tuple[str, ...] = ("task",)
    columns: tuple[str, ...] = ("method",)
    composed: tuple[Column, ...] = ()
    """Instead of `columns`, where a column holds more than one number."""


class Panels(NamedTuple):
    """A figure of learning curves: a panel per task and learner, a curve per method and variant."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    curves: tuple[tuple[str, str, Mapping[str, str]], ...]
    """(name, method, variant) in the order of the legend."""
    learners: tuple[str, ...] = ("",)
    reference: str = ""
    """A method of which only the level at the end is drawn, dashed."""
    arrows: bool = False
    """Whether to mark how much sooner and higher the first curve is than the better of the baselines."""


class Episode(NamedTuple):
    """A figure of the judge's score beside the critic along a reference episode, of a method's own configuration."""

    figure: str
    suite: str
    tasks: tuple[str, ...]
    method: str


@dataclass(frozen=True)
class Paper:
    """What a report on one paper holds."""

    title: str
    layouts: tuple[Layout, ...]
    models: tuple[str, ...] = ()
    """The foundation models it used, as this project calls them."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Suite -> environment steps of a run."""
    hardware: tuple[str, ...] = ()
    """Tables whose numbers belong to the authors' machines."""
    robots: tuple[str, ...] = ("real_robot",)
    """Suites that are no simulation."""
    panels: tuple[Panels, ...] = ()
    episode: Episode | None = None
    schedule: str = ""
    """The figure that also shows how λ rose."""
    samples: str = ""
    """The figure that shows frames as a judge sees them."""


_VLM_RB = "vlm_rb"
_STEPS = Column(
    "Steps to baseline's best",
    (("step_saving_percent", "method"), ("steps_to_baseline_best", "method"), ("steps_to_baseline_best", "baseline")),
)
_BEST = Column(
    "Best success rate",
    (("gain_percent", "method"), ("best_success_rate", "method"), ("best_success_rate", "baseline")),
)
_TIME = Column("Time saved", (("time_saving_percent", "method"),))
_LAMBDAS = ("null", "0.25", "0.5", "0.75", "1")

PAPERS: dict[str, Paper] = {
    _VLM_RB: Paper(
        title="VLM-RB: replay prioritised by a vision-language model",
        models=("perception_lm_1b",),
        budgets={"minigrid_doorkey": 1_000_000, "ogbench_scene": 1_000_000},
        hardware=("5", "6"),
        layouts=(
            Layout("1", "Improvement over the baselines", ("learner", "task", "baseline"), composed=(_BEST, _STEPS)),
            Layout("4", "Cap of the mixing schedule", ("replay.lambda_max", "baseline"), composed=(_BEST, _STEPS)),
            Layout("5", "Size of the model", ("model",), ("metric",)),
            Layout("6", "Training throughput", ("hardware",), ("metric", "method")),
            Layout("7", "Every task and algorithm", ("learner", "task", "baseline"), composed=(_BEST, _STEPS, _TIME)),
            Layout("8", "Means over tasks", ("suite", "learner", "baseline"), composed=(_BEST, _STEPS)),
        ),
        panels=(
            Panels(
                "4",
                "Standard, misleading and abstract frames",
                "minigrid_doorkey",
                ("16x16",),
                (
                    ("standard", _VLM_RB, {"drawing.perturbation": "none"}),
                    ("sprite swap (misleading)", _VLM_RB, {"drawing.perturbation": "sprite_swap"}),
                    ("texture (abstract)", _VLM_RB, {"drawing.perturbation": "texture"}),
                ),
                reference="per",
            ),
            Panels(
                "5",
                "Six ways to prioritise replay",
                "minigrid_doorkey",
                ("8x8", "12x12", "16x16"),
                tuple((name, name, {}) for name in (_VLM_RB, "uer", "per", "aer", "ero", "relo")),
                learners=("dqn",),
            ),
            Panels(
                "6",
                "Cap of the mixing schedule",
                "minigrid_doorkey",
                ("16x16",),
                tuple(
                    (f"cap {'none' if cap == 'null' else cap}", _VLM_RB, {"replay.lambda_max": cap}) for cap in _LAMBDAS
                ),
            ),
            Panels(
                "7",
                "Size of the model",
                "minigrid_doorkey",
                ("16x16",),
                tuple((size, _VLM_RB, {"model": f"perception_lm_{size}"}) for size in ("1b", "3b", "8b")),
            ),
            Panels(
                "9",
                "Four algorithms, discrete tasks",
                "minigrid_doorkey",
                ("8x8", "12x12", "16x16"),
                tuple((name, name, {}) for name in (_VLM_RB, "uer", "per")),
                learners=("dqn", "iqn"),
                arrows=True,
            ),
            Panels(
                "9",
                "Four algorithms, continuous tasks",
                "ogbench_scene",
                ("task3", "task4", "task5"),
                tuple((name, name, {}) for name in (_VLM_RB, "uer", "per")),
                learners=("sac", "td3"),
                arrows=True,
            ),
        ),
        episode=Episode("3", "minigrid_doorkey", ("16x16",), _VLM_RB),
        schedule="6",
        samples="8",
    ),
    "lagea": Paper(
        title="LaGEA: feedback in words that shapes reward",
        models=("Qwen/Qwen2.5-VL-3B-Instruct",),
        budgets={"metaworld_mt10": 1_000_000},
        layouts=(
            Layout("1", "MT10, hidden and fixed goals"),
            Layout("2", "MT10, observable and random goals"),
            Layout("3", "Free and structured feedback", ("task", "goal"), ("ablation",)),
            Layout("7", "Ablations", ("task", "goal"), ("ablation",)),
        ),
    ),
    "kagi": Paper(
        title="KAGI: waypoints that shape reward",
        layouts=(
            Layout("I", "Four tasks on a real robot"),
            Layout("II", "A fifth of the demonstrations"),
            Layout("III", "Beside a planner that does not learn", columns=("method", "resets")),
        ),
    ),
    "dsadf": Paper(
        title="DSADF: a model that plans and steps in",
        models=("gpt-4o",),
        budgets={"crafter_ood": 2_000_000},
        layouts=(
            Layout("3", "Tasks seen in training", ("pretraining", "method"), ("task", "metric")),
            Layout("4", "Long unseen tasks", ("method", "planner"), ("task", "metric")),
            Layout("5", "Short unseen tasks", ("method",), ("task", "metric")),
            Layout("6", "Which model plans", ("planner",), ("task", "metric")),
            Layout("7", "Which model performs", ("performer",), ("task", "metric")),
            Layout("8", "Ablations on tasks seen in training", ("ablation",), ("task", "metric")),
            Layout("9", "Ablations on unseen tasks", ("ablation",), ("task", "metric")),
            Layout("10", "Housekeep", ("method",), ("task",)),
        ),
    ),
    "rl_sallm_f": Paper(
        title="RL-SaLLM-F: preferences labelled by a language model",
        models=("gpt-4o-mini-2024-07-18",),
        budgets={"metaworld_pbrl": 500_000},
        layouts=(
            Layout("1", "Accuracy of labels", ("metric", "ablation"), ("task",)),
            Layout("4", "Beside methods without reward"),
            Layout("5", "Point mazes", columns=("method", "reward")),
            Layout("6", "Accuracy of labels on offline data", columns=("ablation",)),
            Layout("7", "Tokens and cost of a run", ("ablation",), ("metric",)),
        ),
    ),
}


def paper(name: str) -> Paper:
    """The layout of a paper; UserError for a name that is not in `results.published.PAPERS`."""
    if name not in PAPERS:
        raise unknown("paper", name, NAMES)
    return PAPERS[name]
