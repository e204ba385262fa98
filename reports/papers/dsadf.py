"""DSADF's tables and figures, and what its names of methods mean among our cells.

The paper calls an agent by its model. Equal rows of several tables are the same runs: variation I of the ablations is
table 3's sparse reward, variations III and IV are table 4's Qwen rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guidebench.reports.papers.layouts import Figure, Layout, Named, Paper, Reading

SUITE, ROOMS = "crafter_ood", "housekeep"
FULL, TRANSFER = "dsadf", "dsadf_transfer"
ALONE, PLANNED = "model_as_agent", "model_with_planner"
BASELINES = ("sparse", "curiosity", "self_imitation", "linvit")
IN_DOMAIN = ("stone_sword", "mine_iron", "attack_cow", "deforestation")
LONG = ("mine_diamond", "iron_sword", "attack_cow_zombies")
SHORT = ("mine_diamond_short", "iron_sword_short", "wood_sword")
TIDYING = ("adjustment_1", "adjustment_2", "adjustment_3")
TASKS: Mapping[str, str] = {
    f"task{number}": task for number, task in enumerate((*IN_DOMAIN, *LONG, *SHORT, *TIDYING), 1)
}
"""The paper's task -> ours."""
PLANNER, PERFORMER = "gpt-4o", "qwen2_5_vl_7b"
ROLES: Mapping[str, str] = {
    "planner": PLANNER, "reflector": PLANNER, "scorer": PLANNER, "performer": PERFORMER, "text_embedder": "sbert",
    "prior": "", "goals": "",
}  # fmt: skip
AGENTS: Mapping[str, str] = {
    "qwen2_5_vl": PERFORMER, "llava_1_5": "llava-1.5", "minigpt_4": "minigpt-4", "gpt_4o": PLANNER,
    "qwen2_5": "qwen2.5-72b",
}  # fmt: skip
"""The paper's name of an agent that is a model -> the model."""
SWAPS: Mapping[str, str] = {
    "deepseek": "deepseek", "qwen2.5-72b": "qwen2.5-72b", "llama-3.1-405b": "llama-3.1-405b",
    "llava-1.5-13b": "llava-1.5", "minigpt-4-7b": "minigpt-4", "llama-3.1": "Llama-3.1-8B-Instruct",
}  # fmt: skip
"""The paper's name of a planner or performer -> the model."""
STAGES: Mapping[str, str] = {"ellm": "ellm_exploration", "apt": "apt_exploration"}
"""The paper's name of a pre-training -> the method of its stage."""
DEFAULT_STAGE = STAGES["ellm"]
"""Pre-training of everything that learns, where a table does not say it (§5.1)."""
UNSTAGED = "no pre-training; the paper's begins from ELLM's policy"


def readings(task: str, method: str, variant: Mapping[str, str]) -> Sequence[Reading]:
    """Return which of our configurations a method and variant of the paper may mean on our task, in order of
    preference."""
    if method in AGENTS:
        return _agents(AGENTS[method], variant.get("planner", ""))
    ablation = variant.get("ablation", "")
    transferred = task in (*LONG, *SHORT)
    if ablation == "performer_only":
        return _agents(PERFORMER, "")
    if ablation == "no_rl_agent":
        return _agents(PERFORMER, PLANNER)
    if ablation == "no_planner":
        method = "sparse"
    if method != FULL:
        if transferred and ablation:
            return _trained_readings("transfer", {"evaluated": method}, variant)
        return _trained_readings(method, {}, variant)
    models = _answering(
        SWAPS.get(variant.get("planner", ""), PLANNER), SWAPS.get(variant.get("performer", ""), PERFORMER)
    )
    changed = {"no_performer": {"agent.router": "rl"}, "no_reflection": {"agent.reflect": "false"}}.get(ablation, {})
    if ablation and not changed:
        return ()
    return _trained_readings(TRANSFER if transferred else FULL, {**models, **changed}, variant)


def _agents(performer: str, planner: str) -> Sequence[Reading]:
    """Return the configuration of a model that acts alone (`planner` empty), or by the plans of another model."""
    if not planner:
        return (Reading(ALONE, {"performer.model": performer}),)
    models = _answering(planner, performer)
    return (Reading(PLANNED, {role: model for role, model in models.items() if role != "scorer.model"}),)


def _answering(planner: str, performer: str) -> dict[str, str]:
    """Return the model of each role. The planner's model also reflects; proficiency is scored by the full system's
    model, with which the agent trained."""
    return {
        "planner.model": planner,
        "reflector.model": planner,
        "scorer.model": ROLES["scorer"],
        "performer.model": performer,
    }


def _trained_readings(method: str, settings: Mapping[str, str], variant: Mapping[str, str]) -> Sequence[Reading]:
    """Return the configurations of a method that learns: with the pre-training that the variant names or, if it names
    none, with the paper's default and then, with a reason against it, without any."""
    if stage_name := variant.get("pretraining"):
        return (Reading(method, {**settings, "pretraining": STAGES.get(stage_name, stage_name)}),)
    return (
        Reading(method, {**settings, "pretraining": DEFAULT_STAGE}),
        Reading(method, {**settings, "pretraining": "none"}, UNSTAGED),
    )


def _numbered(*tasks: str) -> tuple[str, ...]:
    return tuple(name for name, task in TASKS.items() if task in tasks)


def _learning(stage: str) -> tuple[Named, ...]:
    return tuple((name, name, {"pretraining": stage}) for name in (FULL, *BASELINES))


_ACTING: tuple[Named, ...] = (
    (FULL, FULL, {}),
    *(
        (f"{name}{' with GPT-4o' if planner else ''}", name, {"planner": planner} if planner else {})
        for planner in (PLANNER, "")
        for name in ("qwen2_5_vl", "llava_1_5", "minigpt_4")
    ),
    *((name, name, {}) for name in ("gpt_4o", "qwen2_5")),
)
_SECONDS = (
    "Ours are wall seconds of an evaluation episode, which are of another machine and shared by the episodes that are "
    "stepped together; in brackets its environment steps. The paper's times never exceed the cap of 15,000 steps."
)
_ELSEWHERE = (
    "Ours on unseen tasks are dsadf_transfer: evaluations alone of what dsadf learnt on tasks 1 to 4 in turn, or on "
    "another task, which the reasons name. The paper does not say whether one agent learnt them all. A dsadf that "
    "trained on the task itself is another question and fills no number."
)
_VARIATIONS = (
    "Variation I is sparse reward, II dsadf without performer, III model_with_planner, IV model_as_agent, V dsadf "
    "without reflection: the runs of tables 3 and 4 where these have the tasks."
)
PAPER = Paper(
    title="DSADF: a model that plans and steps in",
    models=(PLANNER,),
    budgets={SUITE: 2_000_000},
    suites={ROOMS: "a symbolic room of this project; the paper used Housekeep's simulator"},
    tasks=TASKS,
    reads=readings,
    roles=ROLES,
    transfers={TRANSFER: IN_DOMAIN, "transfer": IN_DOMAIN},
    joint={"trained": IN_DOMAIN},
    unnamed=("suite.observation", "suite.actions", "suite.impossible", "suite.goal_vector"),
    beside={"seconds": "evaluation_steps"},
    layouts=(
        Layout("3", "Tasks seen in training", ("pretraining", "method"), ("task", "metric"), note=_SECONDS),
        Layout("4", "Long unseen tasks", ("method", "planner"), ("task", "metric"), note=f"{_ELSEWHERE} {_SECONDS}"),
        Layout("5", "Short unseen tasks", ("method",), ("task", "metric"), note=f"{_ELSEWHERE} {_SECONDS}"),
        Layout(
            "6",
            "Which model plans",
            ("planner",),
            ("task", "metric"),
            note=f"Ours: the planner's model also reflects, in tests alone. {_ELSEWHERE} {_SECONDS}",
        ),
        Layout(
            "7",
            "Which model performs",
            ("performer",),
            ("task", "metric"),
            note=f"Its tasks 4 to 6, as printed, are read as 5 to 7, whose rows the full system has in tables 4, 6 and "
            f"9. {_ELSEWHERE} {_SECONDS}",
        ),
        Layout(
            "8",
            "Ablations on tasks seen in training",
            ("ablation",),
            ("task", "metric"),
            note=f"{_VARIATIONS} {_SECONDS}",
        ),
        Layout(
            "9",
            "Ablations on unseen tasks",
            ("ablation",),
            ("task", "metric"),
            note=f"{_VARIATIONS} On unseen tasks variation I is transfer, sparse's policy tested elsewhere. "
            f"{_ELSEWHERE} {_SECONDS}",
        ),
        Layout("10", "Housekeep", ("method",), ("task",), note="Ours: the mean share of items placed correctly."),
    ),
    figures=(
        *(
            Figure(
                "3",
                f"Success over training, from {stage.upper()}'s policies",
                SUITE,
                _numbered(*IN_DOMAIN),
                _learning(stage),
            )
            for stage in STAGES
        ),
        *(
            Figure(
                "4",
                f"Success over the steps of a test, from {stage.upper()}'s policies",
                SUITE,
                _numbered(*IN_DOMAIN),
                _learning(stage),
                of="tests",
            )
            for stage in STAGES
        ),
        *(
            Figure(
                "5",
                f"Share of sub-goals completed, from {stage.upper()}'s policies",
                SUITE,
                _numbered(*IN_DOMAIN),
                _learning(stage),
                "tasks",
                metrics=("completion_percent",),
            )
            for stage in STAGES
        ),
        Figure(
            "6",
            "Share of sub-goals completed by models on unseen tasks (the caption names neither tasks nor methods)",
            SUITE,
            _numbered(*LONG, *SHORT),
            _ACTING,
            "tasks",
            metrics=("completion_percent",),
        ),
    ),
)
