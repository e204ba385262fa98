"""Columns of what a run records, and the identity of a run. Nothing here depends on a clock or a path."""

from __future__ import annotations

from typing import Any, NamedTuple

SCHEMA_VERSION = 1

EVALUATION: dict[str, type] = {
    "study": str,
    "cell": str,
    "suite": str,
    "task": str,
    "method": str,
    "learner": str,
    "backend": str,
    "model": str,
    "profile": str,
    "seed": int,
    "step": int,
    "episode": int,
    "return": float,
    "success": bool,
    "length": int,
}
"""One row per evaluation episode. `backend` is the judge's kind (scripted, oracle, …) and `model` its name
(sprite, …), both empty for a method without a judge; `step` counts environment steps of this seed."""

LEDGER: dict[str, type] = {
    "failures": int,
    **{
        f"{prefix}{name}": kind
        for prefix in ("", "billed_")
        for name, kind in (
            ("calls", int), ("tokens_in", int), ("tokens_out", int), ("images", int),
            ("seconds", float), ("usd", float),
        )
    },
}  # fmt: skip
"""What a run's questions to models took up to a step: as if nothing had been cached, and `billed_`, what was really
asked of a model. Questions that got no usable answer are counted in `failures` too."""

STATUSES = ("waiting", "running", "stopped", "finished", "failed")

MATRICES = ("ablation", "perturbation")
"""Kinds of matrix that study.json knows."""

PROFILES_RANKED = ("paper", "quick", "smoke")

INSTRUMENT_CHECK = (
    "hand-written for this task: what a perturbation does to it is a check of the instrument, "
    "not a finding about any model"
)
"""Of a scripted judge in a perturbation matrix."""


class Identity(NamedTuple):
    """What names the rows of a run: the leading columns of `EVALUATION`, `seed` included."""

    study: str
    cell: str
    suite: str
    task: str
    method: str
    learner: str
    backend: str
    model: str
    profile: str
    seed: int

    def row(self, **values: Any) -> dict[str, Any]:
        return {**self._asdict(), **values}


def label(method: str, backend: str, model: str, profile: str, variant: str = "") -> str:
    """Row name of a method in every table and legend: it keeps what judged it and the profile.

    >>> label("vlm_rb", "scripted", "sprite", "quick")
    'vlm_rb · sprite · quick'
    """
    name = f"{method} ({variant})" if variant else method
    return " · ".join(part for part in (name, model or backend, profile) if part)
