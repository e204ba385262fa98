"""Environments that methods are compared on, one package each: tasks, how they are drawn, what happens in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from harness.environments import Environment, Recorded


@overload
def make(
    name: str,
    *,
    record: str | Path,
    method: str,
    seed: int = ...,
    steps: int | None = ...,
    learner: str = ...,
    model: str = ...,
    settings: Mapping[str, Any] | None = ...,
    profile: str = ...,
    **suite: Any,
) -> Recorded: ...


@overload
def make(name: str, *, profile: str = ..., **suite: Any) -> Environment: ...


def make(
    name: str,
    *,
    record: str | Path | None = None,
    method: str = "",
    seed: int = 0,
    steps: int | None = None,
    learner: str = "",
    model: str = "",
    settings: Mapping[str, Any] | None = None,
    profile: str = "paper",
    **suite: Any,
) -> Environment:
    """SUITE/TASK as a Gymnasium environment; `suite` are settings of the suite (`bench show suite=…`).

    With `record`, the directory of a study, it is one run of `method` with this `seed`: its steps count as training,
    episodes of its `evaluation` are logged, and `close()` finishes the run. `steps` are the profile's unless given;
    `settings` are the method's hyperparameters. Raises UserError on a mistake before anything is written.
    """
    from harness import environments
    from harness.errors import UserError

    cell = environments.cell_of(name, profile, **suite)
    if record is not None:
        return environments.recorded(
            cell, record, method=method, seed=seed, steps=steps, learner=learner, model=model, settings=settings or {}
        )
    if method or seed or steps is not None or learner or model or settings:
        raise UserError("method, seed, steps, learner, model and settings describe a run: give record=STUDY with them")
    return environments.Environment(cell)
