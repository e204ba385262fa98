"""Pre-training stages: the policies from which runs begin."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Agent, Array
from guidebench.harness.loop.building import make_build
from guidebench.harness.plan.config import KEEPS, NONE, PRETRAINING, Cell
from guidebench.harness.records.study import RunDirectory, StudyDirectory

POLICY = "policy.safetensors"
Shapes = Mapping[str, tuple[int, ...]]


def check(cell: Cell) -> None:
    """Raise UserError if the policy of a cell's stage does not fit its agent. Both agents are built for one seed."""
    assert cell.stage is not None
    _compare(cell, _shapes(cell.stage), _shapes(cell))


def begin(cell: Cell, agent: Agent, study: StudyDirectory, seeds: Sequence[int]) -> list[str]:
    """Give each seed row of a new agent the policy of the same seed of the stage; return the SHA-256 of their files.
    Raise UserError if a policy is missing or does not fit."""
    from safetensors.numpy import load

    assert cell.stage is not None
    digests = []
    for row, seed in enumerate(seeds):
        run = study.run(cell.stage.directory, seed)
        content = _policy(run)
        held, own = load(content), agent.parameters(row)
        _compare(cell, _shaped(held), _shaped(own))
        agent.load_parameters(row, {**own, **{name: values for name, values in held.items() if _kept(cell, name)}})
        digests.append(hashlib.sha256(content).hexdigest())
    return digests


def _policy(run: RunDirectory) -> bytes:
    try:
        return (run.path / POLICY).read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{run.path / POLICY} is missing, from which this run begins; restore the file, or delete {run.path} to "
            f"train the stage anew"
        ) from None


def barred(cell: Cell, study: StudyDirectory, seeds: Sequence[int]) -> dict[int, str]:
    """Return seed -> why its run cannot begin: an error where the stage's run has failed, "" where it is not finished
    yet. `seeds`: those whose runs have no checkpoint."""
    assert cell.stage is not None
    found = {}
    for seed in seeds:
        run = study.run(cell.stage.directory, seed)
        content = run.read()
        if (status := content.get("status", "waiting")) != "finished":
            last = str(content.get("error") or "").strip().splitlines()[-1:]
            told = f"its pre-training stage {run.path} failed" + (f" ({last[0]})" if last else "")
            found[seed] = f"{told}; the same command continues once that is mended" if status == "failed" else ""
    return found


def changed(cell: Cell, study: StudyDirectory, seed: int) -> str:
    """Return why a run that has begun does not belong to its stage's present policy, or ""."""
    assert cell.stage is not None
    begun = (study.run(cell.directory, seed).read().get("provenance") or {}).get("pretraining")
    policy = study.run(cell.stage.directory, seed).path / POLICY
    if begun is None or not policy.is_file() or hashlib.sha256(policy.read_bytes()).hexdigest() == begun:
        return ""
    return (
        f"seed {seed} of {cell.directory} began from another policy than {policy} holds now; delete the run's "
        f"directory to train it anew, or restore the stage"
    )


def _shapes(cell: Cell) -> Shapes:
    """Return name -> shape of the parameters of a cell's agent for one seed."""
    with tempfile.TemporaryDirectory() as scratch:
        build = make_build(cell, [0], "cpu", [Path(scratch)])
        agent: Any = build.parts["agent"].spawn(build)
        return _shaped(agent.parameters(0))


def _shaped(parameters: Mapping[str, Array]) -> Shapes:
    return {name: tuple(values.shape) for name, values in parameters.items()}


def _compare(cell: Cell, held: Shapes, needed: Shapes) -> None:
    """Raise UserError if the parameters of a stage are not those that the agent needs."""
    assert cell.stage is not None
    if absent := [begins for begins in cell.keeps if not any(_begins(name, begins) for name in held)]:
        known = ", ".join(dict.fromkeys(name.partition(".")[0] for name in held))
        raise UserError(
            f"{PRETRAINING}.{KEEPS}={list(cell.keeps)}: no parameter of the pre-training stage {cell.stage.directory} "
            f"begins with {absent[0]!r} (known: {known})"
        )
    names = (name for name in {**needed, **held} if _kept(cell, name))
    wrong = next((name for name in names if held.get(name) != needed.get(name)), None)
    if wrong is None:
        return
    one, other = (
        f"has no {wrong}" if shapes.get(wrong) is None else f"has {wrong} of shape {list(shapes[wrong])}"
        for shapes in (held, needed)
    )
    raise UserError(
        f"the policy of the pre-training stage {cell.stage.directory} does not fit {cell.directory}: the stage {one}, "
        f"and the network of {cell.names.method!r} {other}; give both the same observations, agent and learner "
        f"({PRETRAINING}.learner=…, {PRETRAINING}.suite.…), or set {PRETRAINING}={NONE}"
    )


def _kept(cell: Cell, name: str) -> bool:
    """Return whether a run of the cell takes this parameter from its stage."""
    return not cell.keeps or any(_begins(name, begins) for begins in cell.keeps)


def _begins(name: str, begins: str) -> bool:
    return name == begins or name.startswith(f"{begins}.")
