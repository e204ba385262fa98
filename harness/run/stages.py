"""Pre-training stages: the policies from which runs begin."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Agent, Array
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan.config import KEEPS, NONE, PRETRAINING, Cell
from guidebench.harness.records.files import read_regular
from guidebench.harness.records.study import POLICY, RunDirectory, StudyDirectory

Policy = Mapping[str, Array]


def check(cell: Cell) -> None:
    """Raise UserError if the policy of a cell's stage does not fit its agent. Both agents are built for one seed."""
    assert cell.stage is not None
    with tempfile.TemporaryDirectory() as scratch:
        _initial_parameters(cell, _built(cell, Path(scratch)), 0, _built(cell.stage, Path(scratch)).parameters(0))


def begin(cell: Cell, agent: Agent, study: StudyDirectory, seeds: Sequence[int]) -> list[str]:
    """Give each seed row of a new agent the policy of the same seed of the stage; return the SHA-256 of their files.
    Raise UserError if a policy is missing or does not fit."""
    from safetensors.numpy import load

    assert cell.stage is not None
    digests = []
    for row, seed in enumerate(seeds):
        run = study.run(cell.stage.directory, seed)
        content = _policy(run)
        agent.load_parameters(row, _initial_parameters(cell, agent, row, load(content)))
        digests.append(hashlib.sha256(content).hexdigest())
    return digests


def _policy(run: RunDirectory) -> bytes:
    try:
        return read_regular(run.path / POLICY)
    except FileNotFoundError:
        raise UserError(
            f"{run.path / POLICY} is missing, from which this run begins; restore the file, or delete {run.path} to "
            f"train the stage anew"
        ) from None


def barred(cell: Cell, study: StudyDirectory, seeds: Sequence[int]) -> dict[int, str]:
    """Return seed -> why its run cannot begin, for those that cannot: an error if the stage's run has failed, "" if it
    is not finished yet. `seeds`: those whose runs have no checkpoint."""
    assert cell.stage is not None
    reasons = {}
    for seed in seeds:
        run = study.run(cell.stage.directory, seed)
        content = run.read()
        if (status := content.get("status", "waiting")) != "finished":
            last = str(content.get("error") or "").strip().splitlines()[-1:]
            message = f"its pre-training stage {run.path} failed" + (f" ({last[0]})" if last else "")
            reasons[seed] = f"{message}; the same command continues once that is mended" if status == "failed" else ""
    return reasons


def changed(cell: Cell, study: StudyDirectory, seed: int) -> str:
    """Return why a run that has begun does not belong to its stage's present policy, or ""."""
    assert cell.stage is not None
    recorded = (study.run(cell.directory, seed).read().get("provenance") or {}).get("pretraining")
    policy = study.run(cell.stage.directory, seed).path / POLICY
    if recorded is None or not policy.is_file() or hashlib.sha256(read_regular(policy)).hexdigest() == recorded:
        return ""
    return (
        f"seed {seed} of {cell.directory} began from another policy than {policy} holds now; delete the run's "
        f"directory to train it anew, or restore the stage"
    )


def _built(cell: Cell, scratch: Path) -> Agent:
    """Return a cell's agent for one seed."""
    build = make_build(cell, [0], "cpu", [scratch])
    agent: Agent = build.parts["agent"].spawn(build)
    return agent


def _initial_parameters(cell: Cell, agent: Agent, row: int, policy: Policy) -> Policy:
    """Return the initial parameters of a seed row of an agent: the stage's for those that the cell keeps, the agent's
    own for the others. Raise UserError if the stage lacks one or has another shape."""
    assert cell.stage is not None
    if absent := [begins for begins in cell.keeps if not any(_begins(name, begins) for name in policy)]:
        groups = ", ".join(dict.fromkeys(name.partition(".")[0] for name in policy))
        raise UserError(
            f"{PRETRAINING}.{KEEPS}={list(cell.keeps)}: no parameter of the pre-training stage {cell.stage.directory} "
            f"begins with {absent[0]!r} (known: {groups})"
        )
    adopted, initial = agent.adopted(policy), agent.parameters(row)
    names = (name for name in {**initial, **adopted} if _comes_from_stage(cell, name))
    wrong = next((name for name in names if _shape(adopted, name) != _shape(initial, name)), None)
    if wrong is None:
        return {**initial, **{name: values for name, values in adopted.items() if _comes_from_stage(cell, name)}}
    one, other = (
        f"has no {wrong}" if wrong not in parameters else f"has {wrong} of shape {list(parameters[wrong].shape)}"
        for parameters in (adopted, initial)
    )
    raise UserError(
        f"the policy of the pre-training stage {cell.stage.directory} does not fit {cell.directory}: the stage {one}, "
        f"and the network of {cell.names.method!r} {other}; give both the same observations, agent and learner "
        f"({PRETRAINING}.learner=…, {PRETRAINING}.suite.…), or set {PRETRAINING}={NONE}"
    )


def _shape(policy: Policy, name: str) -> tuple[int, ...] | None:
    return policy[name].shape if name in policy else None


def _comes_from_stage(cell: Cell, name: str) -> bool:
    """Return whether a run of the cell takes this parameter from its stage."""
    return not cell.keeps or any(_begins(name, begins) for begins in cell.keeps)


def _begins(name: str, begins: str) -> bool:
    return name == begins or name.startswith(f"{begins}.")
