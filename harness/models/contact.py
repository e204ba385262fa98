"""Make one call to every model of a study before training starts, to check that each is reachable and answers.

The calls are small and change no run. Their answers are not recorded, but their cost counts in the study's budget and
in `bench models stats`. A local model is loaded in a separate process, which frees its memory at the end. Hand-written
judges and oracles are not called, and with `models.mode=replay` no model is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.companions import Companion
from guidebench.harness.errors import BudgetReached, UserError, in_role
from guidebench.harness.execution import Models
from guidebench.harness.heartbeats import SILENT_AFTER, Silent
from guidebench.harness.models import study_models
from guidebench.harness.models.access import Served
from guidebench.harness.models.calls import Answer, FailureKind, Ticket
from guidebench.harness.models.checkup import tiny
from guidebench.harness.models.spending import FIRST_CALL

ASKER = Ticket(FIRST_CALL, 0, 0)
ATTEMPTS = 3
"""Attempts per call: a single lost packet stops no study, and a dead server is detected within seconds."""
ANSWERED_ANYHOW: frozenset[FailureKind] = frozenset(("malformed", "refused", "empty"))
"""Kinds of failure that prove the model reachable, although its answer to the small call is unusable."""


class StudyModel(NamedTuple):
    """A model of a study: its role, its kind of part (judge, chat, embedder) and its built configuration."""

    role: str
    kind: str
    config: Any

    @property
    def name(self) -> str:
        """Role and model, with the server's address if there is a server."""
        if not isinstance(self.config, Served):
            return f"{self.role} {self.config.model}"
        address = self.config.base_url or os.environ.get("OPENAI_BASE_URL") or "OpenAI's own server"
        return f"{self.role} {self.config.model} at {address}"


def check(
    targets: Iterable[StudyModel], models: Models, directory: Path, device: str,
    tell: Callable[[StudyModel, str], None], shared: bool = False, silent_after: float = SILENT_AFTER,
) -> None:  # fmt: skip
    """Make one call to each of the models `targets`. `directory`: the study's folder of recorded answers; `tell`
    receives each outcome; `shared`: whether workers on other machines may write that folder at the same time;
    `silent_after`: seconds without a heartbeat after which the process of a local model is killed.

    Raises UserError naming the first model that cannot be reached or that rejects such calls, and the remedy.
    """
    if models.mode == "replay":
        return
    for model in distinct(targets):
        try:
            if study_models.is_local(model.config):
                outcome = _ask_in_process(silent_after, model, models, directory, device, shared)
            else:
                outcome = _ask(model, models, directory, device, shared)
        except BudgetReached:
            continue  # recorded answers may suffice; a run stops by itself if they do not
        except UserError as error:
            problem = in_role(str(error), model.kind, model.role)
            raise UserError(f"{_no_answer(model)}: {problem}{_remedy(model)}") from None
        if outcome.failure and outcome.failure not in ANSWERED_ANYHOW:
            raise UserError(
                f"{_no_answer(model)} ({outcome.failure}): {outcome.detail.get('message', '')}{_remedy(model)}"
            )
        if outcome.failure:
            message = outcome.detail.get("message", "")
            tell(model, f"{model.name} is there; its answer to a first small call was of no use ({message})")
        elif fault := tiny(model.config, model.kind).small_fault(outcome.value):
            raise UserError(
                f"{model.name} cannot be used as set, so nothing was trained: in a first call, {fault}{_remedy(model)}"
            )
        else:
            tell(model, f"{model.name} answered a first call in {outcome.usage.seconds:.1f} s")


def distinct(models: Iterable[StudyModel]) -> list[StudyModel]:
    """Return each foundation model once for each form of its answers, ignoring settings such as prompt and delay that
    do not change the model."""
    model_of_settings: dict[Any, StudyModel] = {}
    for model in models:
        if study_models.is_recorded(model.config):
            decisive = {
                field.name: getattr(model.config, field.name)
                for field in dataclasses.fields(model.config)
                if field.name not in study_models.NOT_THE_MODEL
            }
            key = (model.kind, model.config.backend, model.config.answer_form, repr(sorted(decisive.items())))
            model_of_settings.setdefault(key, model)
    return list(model_of_settings.values())


def _ask(model: StudyModel, models: Models, directory: Path, device: str, shared: bool) -> Answer:
    """Return the outcome of one call, through a desk that records no answer and respects the study's budget."""

    async def attempt() -> Answer:
        live = dataclasses.replace(models, mode="live")
        with tempfile.TemporaryDirectory() as scratch:
            other = study_models.Shared(scratch, "contact") if shared else None
            desk = study_models.desk(model.config, live, directory, device, ATTEMPTS, other)
            try:
                return await desk.answer(tiny(model.config, model.kind), ASKER)
            finally:
                await desk.close(last=desk.publish)

    return asyncio.run(attempt())


def _ask_in_process(
    silent_after: float, model: StudyModel, models: Models, directory: Path, device: str, shared: bool
) -> Answer:
    """Run `_ask` in a separate process, whose end frees the loaded model."""
    with Companion(_serve, silent_after) as process:
        try:
            process.send((model, models, directory, device, shared))
            answer: Answer | Exception = process.receive()
        except (EOFError, ConnectionError):
            raise UserError("its process ended while it was loaded or asked; memory may be too small for it") from None
        except Silent as silent:
            raise UserError(f"its process, in which it was loaded and asked, {silent}") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _serve(connection: Connection) -> None:
    """Receive the arguments of `_ask` from a connection, and send back its return value or the exception it raised."""
    for arguments in reader_process.requests(connection):
        answer: Answer | Exception
        try:
            answer = _ask(*arguments)
        except Exception as error:
            answer = error
        connection.send(answer)


def _no_answer(model: StudyModel) -> str:
    return f"{model.name} did not answer a first call, so nothing was trained"


def _remedy(model: StudyModel) -> str:
    settings = [f"{model.role}={model.config.backend}", f"{model.role}.model={model.config.model}"]
    if isinstance(model.config, Served) and model.config.base_url:
        settings.append(f"{model.role}.base_url={model.config.base_url}")
    mend = (
        "free some memory or choose another model"
        if study_models.is_local(model.config)
        else f"start the server, or name the right one with {model.role}.base_url and {model.role}.model"
    )
    doctor = shlex.join(["bench", "doctor", *settings])
    return f"\n{mend}; `{doctor}` checks it in detail; models.mode=replay trains on recorded answers and asks nothing"
