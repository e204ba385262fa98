"""Layouts of each paper's tables and figures; the numbers are in `guidebench.results.published`."""

from __future__ import annotations

from guidebench.harness.errors import unknown
from guidebench.reports.papers import dsadf, kagi
from guidebench.reports.papers.layouts import Figure, JoinedColumn, Layout, Paper
from guidebench.reports.sections.training import Panel
from guidebench.results.published import PAPERS as NAMES

_VLM_RB = "vlm_rb"
_STEPS = JoinedColumn(
    "Steps to baseline's best",
    (("step_saving_percent", "method"), ("steps_to_baseline_best", "method"), ("steps_to_baseline_best", "baseline")),
)
_BEST = JoinedColumn(
    "Best success rate",
    (("gain_percent", "method"), ("best_success_rate", "method"), ("best_success_rate", "baseline")),
)
_TIME = JoinedColumn("Time saved", (("time_saving_percent", "method"),))
_LAMBDAS = ("null", "0.25", "0.5", "0.75", "1")

_SALLM, _PBRL = "rl_sallm_f", "metaworld_pbrl"
_EIGHT = (
    "button-press", "drawer-open", "drawer-close", "door-open", "door-unlock", "window-open", "handle-pull", "reach",
)  # fmt: skip
_METHODS = tuple((name, name, dict[str, str]()) for name in (_SALLM, "pebble", "sac"))
_ABLATED = (
    ("full method", _SALLM, dict[str, str]()),
    *(
        (name.replace("_", " "), _SALLM, {"ablation": name})
        for name in ("no_double_check", "no_llm_labels", "no_self_augmentation")
    ),
)
_LAST = "Ours is the success rate at the last evaluation of each run, in percent."
_TAKEN_OVER = (
    "RoboCLIP's, VLM-RM's and TADPoLe's numbers are taken over from TADPoLe's paper, which learns by TD-MPC; ours "
    "learn by SAC. TADPoLe's reward, in the paper and here, includes the task's success."
)
_LABELS = (
    "Ours: labels 0 or 1 beside a scripted teacher's, kept or not, of all queries of a run; the share discarded is of "
    "all queries."
)
_OFFLINE = (
    "Ours: preferences of the learned reward on pairs of segments that this project makes of expert and half-random "
    "episodes, at the last look; the paper's pairs are of a public data set."
)
_BILLS = "Ours is the mean over runs of what each run's questions took, whether or not a recorded answer was used."

_LAGEA, _MT10, _ABLATION = "lagea", "metaworld_mt10", "ablation"
_EIGHT_OF_MT10 = (
    "button-press-topdown", "door-open", "drawer-close", "drawer-open", "push", "reach", "window-close", "window-open",
)  # fmt: skip
"""MT10 without the two tasks that hardly any method solves."""
_TEN = (*_EIGHT_OF_MT10, "peg-insert-side", "pick-place")
_OF_GOALS = {
    "hidden": ("push", "drawer-open", "door-open"),
    "observable": ("button-press-topdown", "drawer-open", "door-open"),
}
"""Goals -> tasks of the ablations, in tables 3 and 7 and figure 5."""
_TABLE_7 = {
    "no_feedback_alignment": "alignment=frozen",
    "free_form_feedback": "feedback=freeform",
    "no_adaptive_rho": "rho=fixed",
    "only_adaptive_rho": "reward=task",
    "no_key_frames": "keyframes=none",
    "no_delta_reward": "delta=none",
}
"""Ablation of table 7 -> its name here."""
_FIGURE_5 = {
    "without goal reward": "no_goal_delta",
    "without feedback reward": "no_feedback_delta",
    "fixed rho": _TABLE_7["no_adaptive_rho"],
}
_ONE_EPISODE = (
    "A hidden goal is fixed for each seed, so that all evaluation episodes of a run are alike and one is played."
)
_POPULATION = "The paper does not name its ±: it is the population's standard deviation over seeds, which divides by n."
_SIX_PAIRS = (
    "Means are over the six pairs of task and goal. The gain over the best ablation in §4.3.2 is in points; those in "
    "the abstract are relative."
)
_TABLE_7_NOTE = (
    "The paper's ± is the sample's standard deviation over three seeds, which divides by n − 1. Unlike figure 5, no "
    "column removes the goal's or the feedback's reward alone."
)

_OLDER = "MetaWorld v3; the paper used v2"

PAPERS: dict[str, Paper] = {
    _VLM_RB: Paper(
        title="VLM-RB: replay prioritised by a vision-language model",
        models=("perception_lm_1b",),
        seeds=5,
        budgets={"minigrid_doorkey": 1_000_000, "ogbench_scene": 1_000_000},
        layouts=(
            Layout("1", "Improvement over the baselines", ("learner", "task", "baseline"), composed=(_BEST, _STEPS)),
            Layout("4", "Cap of the mixing schedule", ("replay.lambda_max", "baseline"), composed=(_BEST, _STEPS)),
            Layout("5", "Size of the model", ("model",), ("metric",)),
            Layout("6", "Training throughput", ("hardware",), ("metric", "method")),
            Layout("7", "Every task and algorithm", ("learner", "task", "baseline"), composed=(_BEST, _STEPS, _TIME)),
            Layout("8", "Means over tasks", ("suite", "learner", "baseline"), composed=(_BEST, _STEPS)),
        ),
        figures=(
            Figure(
                "3",
                "The judge's score beside the critic",
                "minigrid_doorkey",
                ("16x16",),
                ((_VLM_RB, _VLM_RB, {}),),
                "reference",
            ),
            Figure(
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
            Figure(
                "5",
                "Six ways to prioritise replay",
                "minigrid_doorkey",
                ("8x8", "12x12", "16x16"),
                tuple((name, name, {}) for name in (_VLM_RB, "uer", "per", "aer", "ero", "relo")),
                learners=("dqn",),
            ),
            Figure(
                "6",
                "Cap of the mixing schedule",
                "minigrid_doorkey",
                ("16x16",),
                tuple(
                    (f"cap {'none' if cap == 'null' else cap}", _VLM_RB, {"replay.lambda_max": cap}) for cap in _LAMBDAS
                ),
                schedule=True,
            ),
            Figure(
                "7",
                "Size of the model",
                "minigrid_doorkey",
                ("16x16",),
                tuple((size, _VLM_RB, {"model": f"perception_lm_{size}"}) for size in ("1b", "3b", "8b")),
            ),
            Figure(
                "9",
                "Four algorithms, discrete tasks",
                "minigrid_doorkey",
                ("8x8", "12x12", "16x16"),
                tuple((name, name, {}) for name in (_VLM_RB, "uer", "per")),
                learners=("dqn", "iqn"),
                arrows=True,
            ),
            Figure(
                "9",
                "Four algorithms, continuous tasks",
                "ogbench_scene",
                ("task3", "task4", "task5"),
                tuple((name, name, {}) for name in (_VLM_RB, "uer", "per")),
                learners=("sac", "td3"),
                arrows=True,
            ),
        ),
        samples="8",
    ),
    _LAGEA: Paper(
        title="LaGEA: feedback in words that shapes reward",
        models=("liv", "qwen2_5_vl_3b+liv+gpt2"),
        seeds=5,
        budgets={_MT10: 1_000_000},
        suites={_MT10: _OLDER},
        means={
            "goal=hidden_fixed": "suite.goal=hidden",
            "goal=observable_random": "suite.goal=observable",
            **{f"{_ABLATION}={theirs}": f"{_ABLATION}={ours}" for theirs, ours in _TABLE_7.items()},
        },
        spans={
            "goal=hidden_fixed,observable_random": {
                "hidden_fixed": _OF_GOALS["hidden"],
                "observable_random": _OF_GOALS["observable"],
            }
        },
        layouts=(
            Layout("1", "MT10, hidden and fixed goals", note=_ONE_EPISODE),
            Layout("2", "MT10, observable and random goals", note=_POPULATION),
            Layout("3", "Free and structured feedback", ("task", "goal"), (_ABLATION,), note=_SIX_PAIRS),
            Layout("7", "Ablations", ("task", "goal"), (_ABLATION,), note=_TABLE_7_NOTE),
        ),
        figures=(
            *(
                Figure(
                    "3",
                    f"Convergence, {goal} goals (the paper names neither tasks nor goals)",
                    _MT10,
                    _EIGHT_OF_MT10,
                    tuple((name, name, {"suite.goal": goal}) for name in (_LAGEA, "furl", "sac")),
                )
                for goal in _OF_GOALS
            ),
            *(
                Figure(
                    "4",
                    f"Key frames, {goal} goals (the paper does not name the goals)",
                    _MT10,
                    ("drawer-open",),
                    (
                        ("with key frames", _LAGEA, {"suite.goal": goal}),
                        ("without", _LAGEA, {"suite.goal": goal, _ABLATION: _TABLE_7["no_key_frames"]}),
                    ),
                    "training",
                    panels=(
                        Panel("success rate", {"": ""}),
                        Panel("mean dense reward of a batch", {"guide/reward": ""}),
                    ),
                )
                for goal in _OF_GOALS
            ),
            *(
                Figure(
                    "5",
                    f"Parts of the reward removed one at a time, {goal} goals (the paper shows means over tasks)",
                    _MT10,
                    tasks,
                    (
                        ("full method", _LAGEA, {"suite.goal": goal}),
                        *(
                            (name, _LAGEA, {"suite.goal": goal, _ABLATION: ablation})
                            for name, ablation in _FIGURE_5.items()
                        ),
                    ),
                    least=2,
                )
                for goal, tasks in _OF_GOALS.items()
            ),
            *(
                Figure(
                    "6",
                    f"Alignment of frames and feedback, {goal} goals (the paper does not name the task)",
                    _MT10,
                    _TEN,
                    ((_LAGEA, _LAGEA, {"suite.goal": goal}),),
                    "training",
                    panels=(
                        Panel("mean cosine", {"guide/success_cosine": "successes", "guide/failure_cosine": "failures"}),
                        Panel("success rate", {"": ""}),
                        Panel("loss", {"guide/bce": "BCE", "guide/nce": "InfoNCE", "guide/contrast": "symmetric"}),
                    ),
                )
                for goal in _OF_GOALS
            ),
        ),
    ),
    "kagi": kagi.PAPER,
    "dsadf": dsadf.PAPER,
    "rl_sallm_f": Paper(
        title="RL-SaLLM-F: preferences labelled by a language model",
        models=("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        seeds=5,
        budgets={_PBRL: 500_000, "point_maze": 500_000},
        suites={_PBRL: _OLDER},
        privileged=("pebble",),
        means={
            "reward": "suite.reward",
            "prompt=one_shot": "ablation=one_shot",
            "imagined=decision_transformer": "ablation=decision_transformer",
        },
        unclear={
            "test_score": "success in percent; the paper's score has no unit",
            "offline_label_accuracy_percent": "pairs of our own, not of a public data set",
        },
        layouts=(
            Layout("1", "Accuracy of labels", ("metric", "ablation"), ("task",), note=_LABELS),
            Layout("4", "Beside methods without reward", note=f"{_LAST} {_TAKEN_OVER}"),
            Layout("5", "Point mazes", columns=("method", "reward"), note=f"{_LAST} It stands for the test score."),
            Layout("6", "Accuracy of labels on offline data", columns=("method", "ablation"), note=_OFFLINE),
            Layout("7", "Tokens and cost of a run", ("ablation",), ("metric",), note=_BILLS),
        ),
        figures=(
            Figure(
                "1b",
                "Labels of a language model as they come",
                _PBRL,
                ("button-press",),
                (("as they come", "pebble_llm", {}),),
                "labels",
            ),
            Figure(
                "1c",
                "Double-checked labels, with and without imagined segments",
                _PBRL,
                ("button-press",),
                (("double-checked", _SALLM, {"ablation": "no_self_augmentation"}), ("full method", _SALLM, {})),
                "labels",
            ),
            Figure("3", "All methods", _PBRL, _EIGHT, _METHODS),
            Figure("4", "Ablations (the paper shows four tasks)", _PBRL, _EIGHT, _ABLATED, least=2),
            Figure(
                "5",
                "Learned rewards beside the task's own",
                _PBRL,
                ("button-press",),
                (("PEBBLE", "pebble", {}), *(row for row in _ABLATED if row[0] != "no double check")),
                "rewards",
            ),
            Figure("6", "Rewards of imagined segments", _PBRL, _EIGHT, ((_SALLM, _SALLM, {}),), "imagined"),
            Figure(
                "7",
                "Imagined trajectories (the paper shows two tasks)",
                _PBRL,
                _EIGHT,
                ((_SALLM, _SALLM, {}),),
                "paths",
            ),
            Figure(
                "8",
                "A larger model",
                _PBRL,
                ("drawer-open",),
                tuple((name, _SALLM, {"model": name}) for name in ("gpt-4o-mini", "gpt-4o")),
                "metrics",
                metrics=("success_percent", "segment_reward", "label_accuracy_percent", "equal_percent"),
            ),
            Figure("10", "All methods, return", _PBRL, _EIGHT, _METHODS, of="return"),
            Figure(
                "11", "Ablations, return (the paper shows four tasks)", _PBRL, _EIGHT, _ABLATED, of="return", least=2
            ),
            Figure(
                "12",
                "Beside labels from images",
                _PBRL,
                ("drawer-open",),
                (("full method", _SALLM, {}), ("gpt-4o", _SALLM, {"model": "gpt-4o"}), ("RL-VLM-F", "rl_vlm_f", {})),
                least=2,
            ),
            Figure(
                "13",
                "Who imagines (the paper shows three tasks)",
                _PBRL,
                _EIGHT,
                (
                    ("language model", _SALLM, {}),
                    ("Decision Transformer", _SALLM, {"imagined": "decision_transformer"}),
                ),
                least=2,
            ),
        ),
    ),
}


def paper(name: str) -> Paper:
    """Return the layout of a paper; raise UserError for a name that is not in `guidebench.results.published.PAPERS`."""
    if name not in PAPERS:
        raise unknown("paper", name, NAMES)
    return PAPERS[name]
