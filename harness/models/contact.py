"""One call to every model that a study asks, before anything is trained: is the model there, and does it answer?

The calls are small and change no run: their answers are not recorded, and what they cost counts in the study's budget
and in `bench models stats`. A model that computes on this machine is loaded in a process of its own, which gives its
memory back. Hand-written judges and oracles are not asked, and with `models.mode=replay` nothing is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import apart
from guidebench.harness.errors import BudgetReached, UserError, in_role
from guidebench.harness.execution import Models
from guidebench.harness.models import keeping
from guidebench.harness.models.access import Served
from guidebench.harness.models.calls import Asker, CallResult, FailureKind
from guidebench.harness.models.checkup import tiny

ASKER = Asker("before training", 0, 0)
ATTEMPTS = 3
"""Most times that the call is made, so that one lost packet stops nobody and a dead server is known within seconds."""
ANSWERED_ANYHOW: frozenset[FailureKind] = frozenset(("malformed", "refused", "empty"))
"""Kinds of failure by which a model shows that it is there, though its answer to this small call is of no use."""


class Asked(NamedTuple):
    """A model of a study: its role, the kind of part that it is (judge, chat, embedder) and its built configuration."""

    role: str
    kind: str
    config: Any

    @property
    def name(self) -> str:
        """With the server's address where there is a server."""
        if not isinstance(self.config, Served):
            return f"{self.role} {self.config.model}"
        address = self.config.base_url or os.environ.get("OPENAI_BASE_URL") or "OpenAI's own server"
        return f"{self.role} {self.config.model} at {address}"


def check(
    asked: Iterable[Asked], models: Models, directory: Path, device: str, tell: Callable[[Asked, str], None]
) -> None:
    """Put one call to each model. `directory`: the study's folder of recorded answers; `tell` hears what came back.

    UserError names the first model that cannot be reached or that turns such calls away, and what to do.
    """
    if models.mode == "replay":
        return
    for each in distinct(asked):
        try:
            told = _apart(each, models, directory, device) if _here(each) else _ask(each, models, directory, device)
        except BudgetReached:
            continue  # what has been recorded may be enough; each run says so when it is not
        except UserError as error:
            said = in_role(str(error), each.kind, each.role)
            raise UserError(f"{_unreached(each)}: {said}{_remedy(each)}") from None
        if told.failure and told.failure not in ANSWERED_ANYHOW:
            raise UserError(f"{_unreached(each)} ({told.failure}): {told.detail.get('message', '')}{_remedy(each)}")
        if told.failure:
            message = told.detail.get("message", "")
            tell(each, f"{each.name} is there; its answer to a first small call was of no use ({message})")
        else:
            tell(each, f"{each.name} answered a first call in {told.usage.seconds:.1f} s")


def distinct(asked: Iterable[Asked]) -> list[Asked]:
    """Each model once, whatever it is asked and however its answers are delayed."""
    found: dict[Any, Asked] = {}
    for each in asked:
        if keeping.recorded(each.config):
            reached = {
                field.name: getattr(each.config, field.name)
                for field in dataclasses.fields(each.config)
                if field.name not in keeping.NOT_THE_MODEL
            }
            found.setdefault((each.kind, each.config.backend, repr(sorted(reached.items()))), each)
    return list(found.values())


def _here(each: Asked) -> bool:
    return bool(each.config.backend == "transformers")


def _ask(each: Asked, models: Models, directory: Path, device: str) -> CallResult:
    """What became of one call, over a desk that records no answer and keeps within the study's budget."""

    async def answered() -> CallResult:
        desk = keeping.desk(each.config, dataclasses.replace(models, mode="live"), directory, device, ATTEMPTS)
        try:
            return await desk.answer(tiny(each.config, each.kind), ASKER)
        finally:
            await desk.close()

    return asyncio.run(answered())


def _apart(each: Asked, models: Models, directory: Path, device: str) -> CallResult:
    """The same in a process of its own, which ends with what it has loaded."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            with apart.guarded():
                answer = pool.submit(_ask, each, models, directory, device)
            return answer.result()
        except BrokenProcessPool:
            raise UserError("its process ended while it was loaded or asked; memory may be too small for it") from None


def _unreached(each: Asked) -> str:
    return f"{each.name} did not answer a first call, so nothing was trained"


def _remedy(each: Asked) -> str:
    settings = f"{each.role}={each.config.backend} {each.role}.model={each.config.model}"
    if isinstance(each.config, Served) and each.config.base_url:
        settings += f" {each.role}.base_url={each.config.base_url}"
    mend = (
        "free some memory or choose another model"
        if _here(each)
        else f"start the server, or name the right one with {each.role}.base_url and {each.role}.model"
    )
    return (
        f"\n{mend}; `bench doctor {settings}` checks it in detail; models.mode=replay trains on recorded answers and "
        f"asks nothing"
    )
