"""Losses that guides and agents add to a learner's own: the networks they may use, and the gradients they contribute.

A learner processes blocks of seeds one after the other. For each block it calls every added loss once, before updating
anything, and adds the gradients to those of its own losses before clipping.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from guidebench.baselines.tensors import ObservationTensors, tensor, tensors
from guidebench.harness.errors import Notice, UserError, unknown
from guidebench.harness.interfaces import Array, Batch, Loss, Tensors


@dataclass(frozen=True)
class QNetworks:
    """The networks of a learner of action values that an added loss may use (group `q`)."""

    rows: slice
    """Seed rows of the batch, among those of the worker."""
    q: Callable[[ObservationTensors], Tensor]
    """Observations [S, B, …] -> Q-values [S, B, A]; for IQN, means over its policy's quantiles."""


@dataclass(frozen=True)
class ActorCriticNetworks:
    """The networks of SAC and TD3 that an added loss may use (groups `actor`, and `critic`, which includes a shared
    encoder)."""

    rows: slice
    """Seed rows of the batch, among those of the worker."""
    policy: Callable[[ObservationTensors], Tensor]
    """Observations [S, B, …] -> greedy actions [S, B, A] in [-1, 1]."""
    drawn: Callable[[ObservationTensors, Tensor], tuple[Tensor, Tensor]]
    """Observations and standard normal noise [S, B, A] -> actions of the policy [S, B, A], their log-probabilities [S,
    B]; UserError if the policy is deterministic."""
    log_probability: Callable[[ObservationTensors, Tensor], Tensor]
    """Observations and actions [S, B, A] -> log π(a|s), [S, B]; UserError if the policy is deterministic."""
    critic: Callable[[ObservationTensors, Tensor], Tensor]
    """Observations and actions [S, B, A] -> Q_i(s, a) of every critic, [S, N, B]."""


class Added(NamedTuple):
    """The sum of added losses of one group, for the seeds of one block."""

    value: Tensor  # [S], without gradient
    gradients: Sequence[Tensor | None]
    """Gradients of the sum of `value` by each parameter of the group; None for one that it does not depend on."""


def of(batch: Batch, rows: slice, device: str) -> Tensors:
    """Return the transitions of the seed rows `rows` on the learner's device."""

    def own(array: Array) -> Tensor:
        return tensor(array[rows], device)

    return Tensors(
        observation=tensors(batch.observation[rows], device),
        action=own(batch.action),
        reward=own(batch.reward),
        next_observation=tensors(batch.next_observation[rows], device),
        terminated=own(batch.terminated),
        weight=None if batch.weight is None else own(batch.weight),
        success=None if batch.success is None else own(batch.success),
        task_reward=None if batch.task_reward is None else own(batch.task_reward),
        columns={name: own(array) for name, array in batch.columns.items()},
    )


def check_groups(losses: Iterable[Loss], groups: Sequence[str]) -> None:
    """Raise UserError, naming the part that adds it, for a loss of a group that the learner does not have."""
    for loss in losses:
        for group in loss.groups:
            if group not in groups:
                raise unknown(f"group of the learner, to which {loss.who} adds a loss:", group, groups)


def added(
    losses: Iterable[Loss], batch: Tensors, networks: object, groups: Mapping[str, Sequence[Tensor]]
) -> dict[str, Added]:
    """Return what `losses` add for the seeds of one block, for each group that one of them may add to.

    `groups` are those that the update changes, name -> their parameters. A loss that may add to none of them is not
    called. UserError, naming the part that adds it, for a term that cannot be added.
    """
    found: dict[str, Added] = {}
    for loss in losses:
        mine = [group for group in loss.groups if group in groups]
        for group in mine:
            found.setdefault(group, Added(torch.zeros_like(batch.reward[:, 0]), [None] * len(groups[group])))
        if not mine:
            continue
        terms = loss.terms(batch, networks)
        for group in terms:
            if group not in loss.groups:
                raise unknown(f"group of a loss of {loss.who}, not among its `adds`:", group, loss.groups)
        due = [group for group in terms if group in groups]
        for group in due:
            term, parameters = terms[group], groups[group]
            _check(loss.who, group, term, len(batch.reward))
            own = torch.autograd.grad(term.sum(), list(parameters), retain_graph=group != due[-1], allow_unused=True)
            if all(gradient is None for gradient in own):
                raise UserError(
                    f"the loss that {loss.who} adds to {group!r} does not depend on that group's networks; compute it "
                    f"by the functions of `networks`"
                )
            before = found[group]
            both = [*zip(before.gradients, own, strict=True)]
            found[group] = Added(before.value + term.detach(), [_sum(*gradients) for gradients in both])
    return found


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else first + second


def _check(who: str, group: str, term: object, seeds: int) -> None:
    """Raise UserError for a term that is not one number per seed with a gradient."""
    begin = f"the loss that {who} adds to {group!r} is"
    if not isinstance(term, Tensor):
        raise UserError(f"{begin} a {type(term).__name__}; expected a tensor with one number per seed, [{seeds}]")
    if tuple(term.shape) != (seeds,):
        raise UserError(
            f"{begin} of shape {tuple(term.shape)}; expected one number per seed, ({seeds},), such as .mean(1) of what "
            f"it is for each transition"
        )
    if not term.requires_grad:
        raise UserError(
            f"{begin} without gradient; compute it by the functions of `networks`, outside torch.no_grad and without "
            f"detach"
        )


def warn_of_infinite(values: Mapping[str, Array], losses: Sequence[Loss], seeds: Sequence[int], moved: Array) -> None:
    """Warn of every added loss that is not finite and so stops its seed: group -> [S]; `moved` [S] selects the seeds in
    training."""
    for group, each in values.items():
        who = " and ".join(loss.who for loss in losses if group in loss.groups)
        for seed, value, moves in zip(seeds, each, moved, strict=True):
            if moves and not abs(value) < float("inf"):
                message = f"the loss that {who} adds to {group!r} is {value} for seed {seed}, which so stops"
                warnings.warn(Notice(message), stacklevel=2)
