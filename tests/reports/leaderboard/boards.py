"""Boards made up for tests of the page: scores by a seeded generator, everything else in words."""

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from guidebench.harness import statistics
from guidebench.reports.leaderboard.board import (
    Board,
    Curve,
    Details,
    Entry,
    Estimate,
    Film,
    Films,
    Frames,
    Origin,
    Refused,
    Setting,
    Suite,
    Tab,
    TaskScore,
    Variation,
)
from guidebench.results.verification.record import Check
from tests.results import animations

METHODS = ("uer", "per", "vlm_rb", "lagea", "kagi", "dsadf", "pebble", "rl_sallm_f", "sac", "td3")
MODELS = {"vlm_rb": "qwen3-vl-8b", "lagea": "gpt-oss-120b", "kagi": "llava-ov-7b", "rl_sallm_f": "gpt-4o-mini"}
STANDINGS: Any = ("verified", "self-reported", "self-reported", "disputed")


def estimate(scores: np.ndarray, metric: str = "iqm") -> Estimate:
    """Return the estimate of scores [runs, tasks], with few resamples."""
    interval = statistics.intervals(scores, [metric], reps=200)[metric]
    return Estimate(*(None if np.isnan(bound) else float(bound) for bound in interval))


def curve(curves: np.ndarray, steps: Sequence[int]) -> Curve:
    """Return the IQM curve of curves [runs, tasks, checkpoints]."""
    band = statistics.intervals(curves, ["iqm"], reps=100)["iqm"]
    low, high = (tuple(None if np.isnan(x) else float(x) for x in bounds) for bounds in (band.low, band.high))
    return Curve("steps", tuple(map(float, steps)), tuple(map(float, band.estimate)), low, high)


def png(colour: int) -> str:
    """Return a small picture as base64 PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (96, 32), (colour, 120, 200)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def films(number: int = 2, words: str = "open the door", size: int = 5) -> Films:
    """Return animated episodes, of which the last is a success."""
    webp = base64.b64encode(animations.webp(size, (96, 64))).decode()
    episodes = [
        Film("Success after 9 steps" if last else "Failure after 12 steps",
             f"8x8, seed 0, episode {episode}; return 0.5", ((2, words),), 0, webp)
        for episode in range(number) for last in [episode == number - 1]
    ]  # fmt: skip
    return Films((f"8x8, seed 0: {number} of 32 episodes; so what is shown here is no rate.",), tuple(episodes))


def entry(
    name: str,
    suite: str = "grid",
    tab: Tab = "quick",
    method: str = "uer",
    tasks: Sequence[str] = ("6x6", "8x8"),
    seeds: int = 5,
    level: float = 0.5,
    rank: tuple[int, int, int] | None = None,
    board: str = "",
    points: int = 10,
    **changes: Any,
) -> tuple[Entry, Details]:
    """Return a leaderboard row with a success rate around `level`, and its details; `rank`: rank, best and worst
    rank."""
    rng = np.random.default_rng(abs(hash_of(name)))
    rise = np.linspace(0.05, 1, points)[None, None] * level
    curves = np.round(np.clip(rise + rng.normal(0, 0.08, (seeds, len(tasks), points)), 0, 1) * 50) / 50
    steps = [1000 * (i + 1) for i in range(points)]
    scores = curves[:, :, -1]
    model = MODELS.get(method, "")
    row = Entry(
        **{"id": name, "suite": suite, "tab": tab, "profile": "quick", "label": f"{method} {model}".strip()},
        **{"method": method, "learner": "dqn", "backend": "http" if model else "", "model": model},
        score=estimate(scores),
        mean=estimate(scores, "mean"),
        board=board,
        rank=rank[0] if rank else None,
        rank_low=rank[1] if rank else None,
        rank_high=rank[2] if rank else None,
        apart="" if rank else "2 seeds on 8x8; 3 are needed",
        seeds=tuple(range(seeds)),
        tasks=tuple(tasks),
        **{"steps": steps[-1], "episodes": 50, "calls": 1200 if model else None, "usd": 1.25 if model else None},
        hardware=("AMD EPYC 7763 64-Core Processor, 2 cores",),
        standing=STANDINGS[hash_of(name) % len(STANDINGS)],
        **{"protocol": "suite 1, record 1", "source": "study-a"},
    )
    per_task = tuple(
        TaskScore(
            task,
            estimate(scores[:, [i]]),
            estimate(scores[:, [i]], "mean"),
            Estimate(*(x and x / 2 for x in (estimate(scores[:, [i]]).value, None, None))),
            tuple(map(float, scores[:, i])),
            curve(curves[:, [i]], steps),
        )
        for i, task in enumerate(tasks)
    )
    details = Details(
        tasks=per_task,
        curve=curve(curves, steps),
        variations=(
            Variation("ablation", "no priorities", tasks[0], Estimate(0.4, 0.3, 0.5), Estimate(-0.1, -0.2, 0.05)),
            Variation("perturbation", "sprite_swap", tasks[0], Estimate(0.2, 0.1, 0.3), Estimate(-0.3, -0.4, -0.2)),
        ),
        frames=(Frames("a clip of 8x8 as the judge sees it", png(hash_of(name) % 200)),),
        settings=tuple(Setting(f"learner.setting_{i}", str(0.5**i), "paper, table 3") for i in range(12)),
        origins=(Origin("0123456789ab", "torch 2.9, numpy 2.3", "AMD EPYC, 2 cores", seeds * len(tasks)),),
        runs=tuple(f"{suite}/{task}/{method}/seed-{seed}" for task in tasks for seed in range(seeds)),
        bibtex="@article{someone2025,\n  title = {A method},\n  year = {2025}\n}",
        checks=(Check("re-evaluated on new seeds", True, "0.52, within the interval"),)
        if row.standing != "self-reported"
        else (),
    )
    return replace(row, **changes), details


def hash_of(name: str) -> int:
    return sum((i + 1) * ord(sign) for i, sign in enumerate(name))


def board(*rows: tuple[Entry, Details], **changes: Any) -> Board:
    """Return a board of these entries."""
    suites = dict.fromkeys(row.suite for row, _ in rows)
    return replace(
        Board(
            title="Leaderboard",
            commit="0123456789ab",
            minimum="at least 3 seeds on every task, 10 episodes in the final evaluation, and the complete budget",
            few="Report five seeds or more.",
            suites=tuple(Suite(name, name.replace("_", " ").title(), 1) for name in suites),
            entries=tuple(row for row, _ in rows),
            details={row.id: details for row, details in rows},
            refused=(Refused("handed-in.zip", "manifest.json: 'files' is missing"),),
            notes=("Two rows come from uncommitted changes.",),
        ),
        **changes,
    )


def example() -> Board:
    """Return a board of some thirty rows in three tabs and two suites, with ties and unranked rows."""
    rows = []
    for suite, tasks in (("grid", ("6x6", "8x8")), ("scene", ("drawer",))):
        for i, method in enumerate(METHODS):
            rank = None if i == 9 else (1 + i // 2 * 2, max(1, i - 1), min(9, i + 3))
            seeds = 2 if i == 9 else 5
            rows.append(
                entry(f"{suite}-{method}", suite, "quick", method, tasks, seeds, level=0.95 - 0.09 * i, rank=rank)
            )
        for i, method in enumerate(METHODS[:4]):
            names = {"profile": "paper", "rank": (i + 1,) * 3, "level": 0.9 - 0.2 * i}
            rows.append(entry(f"{suite}-{method}-p", suite, "paper", method, tasks, **names))
    judged = {"backend": "scripted", "model": "sprite", "label": "vlm_rb sprite (scripted)"}
    rows.append(entry("grid-scripted", "grid", "scripted", "vlm_rb", level=0.9, rank=(1, 1, 1), **judged))
    return board(*rows)
