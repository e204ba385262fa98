"""KAGI's tables and figure 5, and what its rewards and numbers of demonstrations mean among our cells.

Tables I to III are of real robots and stay published numbers. Figure 5 prints none, so its orderings are claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guidebench.reports.papers.layouts import Figure, Layout, Paper, Reading

SUITE, TASK = "bin_sorting", "sorting"
FULL, SPARSE = "kagi", "robofume"
REWARD = "guide.formulation"
FEWER: Mapping[str, Mapping[str, str]] = {
    "standard": {}, "2x_fewer": {"ablation": "demos=2x"}, "5x_fewer": {"ablation": "demos=5x"},
}  # fmt: skip
"""The paper's amount of demonstrations -> ours: 20, 10 and 4 for each direction (§IV-B names 10 for two of them)."""
TITLES: Mapping[str, str] = {
    "standard": "All demonstrations",
    "2x_fewer": "Half of the demonstrations",
    "5x_fewer": "A fifth of the demonstrations",
}


def readings(task: str, method: str, variant: Mapping[str, str]) -> Sequence[Reading]:
    """Return which of our configurations a method and variant of the paper may mean, in order of preference. The sparse
    reward alone is RoboFuME's method, and equals KAGI's with that reward."""
    settings = FEWER.get(variant.get("demonstrations", "standard"), {})
    if variant.get("ablation") == "dense_only":
        return (Reading(FULL, {REWARD: "dense", **settings}),)
    if method == SPARSE:
        return (Reading(SPARSE, settings), Reading(FULL, {REWARD: "sparse", **settings}))
    return (Reading(method, {REWARD: "both", **settings} if method == FULL else settings),)


PAPER = Paper(
    title="KAGI: waypoints that shape reward",
    seeds=3,
    reads=readings,
    layouts=(
        Layout("I", "Four tasks on a real robot"),
        Layout("II", "A fifth of the demonstrations"),
        Layout("III", "Beside a planner that does not learn", columns=("method", "resets")),
    ),
    figures=tuple(
        Figure(
            "5",
            title,
            SUITE,
            (TASK,),
            (
                ("dense and sparse", FULL, {"demonstrations": amount}),
                ("sparse alone", SPARSE, {"demonstrations": amount}),
                ("dense alone", FULL, {"ablation": "dense_only", "demonstrations": amount}),
            ),
        )
        for amount, title in TITLES.items()
    ),
)
