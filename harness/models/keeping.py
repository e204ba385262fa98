"""Where a study keeps what its models answered and what that cost, and the desk of a worker that asks them.

| in STUDY/models/ | |
| --- | --- |
| cassette.sqlite | every call on record, merged when the study ends |
| shard-….sqlite | of one model process, while it runs |
| budget.json | what was spent and is reserved, where a budget is set |
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guidebench.harness import settings
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage

if TYPE_CHECKING:
    from guidebench.harness.models.desk import Desk, Policy

BUDGET = "budget.json"
LOADING = 900.0
"""Seconds that a model may take to load before its process counts as hung."""
NOT_THE_MODEL = ("delay", "prompt", "temperature", "max_tokens")
"""Settings that belong to the asking: they stand in the call itself, or, as the delay, change no answer."""


def folder(study: Path) -> Path:
    """Of a study's directory."""
    return study / "models"


def recorded(model: Any) -> bool:
    """Whether calls to this are worth keeping: a foundation model's are; hand-written code and oracles answer at once,
    for nothing and always the same. `model`: built configuration of a judge, chat or embedder, or None."""
    return getattr(model, "backend", "scripted") not in ("scripted", "oracle")


def sources(models: Models, directory: Path) -> list[Path]:
    """The files of recorded answers that count; UserError if the one that is named is not there."""
    from guidebench.harness.models import cassette

    found = cassette.files(directory)
    if models.cassette is not None:
        named = Path(models.cassette)
        others = cassette.files(folder(named)) if named.is_dir() else [named] if named.is_file() else []
        if not others:
            raise UserError(
                f"models.cassette={models.cassette}: no recorded calls there; name a study that recorded some, or a "
                f"file of `bench models export`"
            )
        found += others
    return found


def check(models: Models, directory: Path, asked: Sequence[Any], runs: Iterable[str] = ()) -> None:
    """As `answerable`, and UserError for a model that is not ready; then the account of the study is open."""
    if models.mode != "replay":
        for model in asked:
            model.ready()
    answerable(models, directory, asked, runs)
    from guidebench.harness.models import cassette

    if asked and models.budgeted and cassette.files(directory) and not (directory / BUDGET).exists():
        _count_what_was_spent(directory)


def answerable(models: Models, directory: Path, asked: Sequence[Any], runs: Iterable[str] = ()) -> None:
    """UserError where answers are to be replayed and none are on record, or arrays that the runs need were not kept, or
    a budget in USD is set for a model of unknown price; nothing is written. `asked`: built configurations of the
    foundation models; `runs`: CELL/SEED of those that are to be trained."""
    if not asked:
        return
    for model in asked:
        if models.budget_usd is not None and not priced(model):
            raise UserError(
                f"models.budget_usd={models.budget_usd:g} is set and what {model.model} costs is not known: give "
                f"its price_in and price_out (judge.price_in, chat.price_in), or set models.budget_calls"
            )
    from guidebench.harness.models import cassette

    found = sources(models, directory)
    for file in found:
        cassette.check(file)
    if models.mode == "replay" and not found:
        raise UserError(
            f"models.mode=replay, and {directory} holds no recorded calls; name where they are with "
            f"models.cassette=STUDY, or record them first with models.mode=record"
        )
    if models.mode == "replay" and (lost := cassette.lost(found, runs)):
        told = " and ".join(f"{number:,} of {model}" for model, number in sorted(lost.items()))
        raise UserError(
            f"models.mode=replay, and arrays that these runs were answered by are not on record any more ({told}): "
            f"models.keep_arrays=finished dropped them when their runs had finished, so the study needs its model; use "
            f"models.mode=record, which asks for them again, or name a cassette that has them with models.cassette"
        )


def unready(models: Models, asked: Sequence[Any]) -> list[str]:
    """Why models that a study asks could not be asked from this machine, each said once; nothing is asked or loaded."""
    found: dict[str, None] = {}
    for model in asked:
        try:
            if models.mode != "replay" and recorded(model):
                model.ready()
        except UserError as error:
            found[str(error)] = None
    return list(found)


def shortfall(models: Models, directory: Path, needed: Usage) -> str:
    """Which budget ends before `needed`, an estimate of what the study has yet to ask, in words; "" where none does."""
    from guidebench.harness.models.budget import UNITS, Budget, Limits

    spent = dict.fromkeys(UNITS, 0.0)
    if (directory / BUDGET).exists():
        account = Budget(directory / BUDGET, Limits())
        spent |= account.spent
        account.close()
    for which in ("usd", "calls"):  # how long a model takes nobody knows beforehand
        limit, asked = getattr(models, f"budget_{which}"), getattr(needed, which)
        if limit is not None and spent[which] + asked > limit:
            before = f" beside {spent[which]:,.6g} spent already" if spent[which] else ""
            return (
                f"models.budget_{which}={limit:g} is below the estimate of {asked:,.6g} {UNITS[which]}{before}: runs "
                f"will stop at a checkpoint when it is reached, and a higher budget continues them"
            )
    return ""


def priced(model: Any) -> bool:
    """Whether what a model costs is known: from its settings, or from its recipe."""
    return model.price_in is not None or recipes.pricing(model.model) != "unknown"


def _count_what_was_spent(directory: Path) -> None:
    """Open the account of a study that has asked models without one."""
    from guidebench.harness.models import exchange
    from guidebench.harness.models.budget import Budget, Limits

    account = Budget(directory / BUDGET, Limits())
    for model in exchange.stats(directory.parent).models:
        account.settle(Usage(), model.spent)
    account.close()


def settle(directory: Path, finished: Collection[str] = ()) -> None:
    """Merge the shards of model processes that have ended, and drop the arrays that the runs `finished` (CELL/SEED)
    were told; nothing happens where there are none."""
    if any(directory.glob("shard-*.sqlite")) or (finished and (directory / "cassette.sqlite").exists()):
        from guidebench.harness.models import cassette

        cassette.merge(directory, finished)


def patience(policy: Policy, calls: int = 1) -> float:
    """Seconds within which a question of so many calls is answered or has failed, whatever happens but a hung
    process."""
    return LOADING + calls * policy.longest


def identity(config: Any) -> dict[str, Any]:
    """What of a model's built configuration can change its answers, as it stands in recorded requests."""
    known = {key: value for key, value in settings.identity(config).items() if key not in NOT_THE_MODEL}
    return known | {"backend": config.backend}


def desk(config: Any, models: Models, directory: Path, device: str, attempts: int | None = None) -> Desk:
    """The desk of a model process, for the built configuration of a foundation model. `attempts`: at most so many per
    call, where that is fewer than its own."""
    from guidebench.harness.models import cassette
    from guidebench.harness.models.budget import Budget, Limits
    from guidebench.harness.models.desk import Desk

    directory.mkdir(parents=True, exist_ok=True)
    shard = directory / f"shard-{uuid.uuid4().hex}.sqlite"
    limits = Limits(usd=models.budget_usd, calls=models.budget_calls, seconds=models.budget_seconds)
    policy = config.policy()
    return Desk(
        None if models.mode == "replay" else config.spawn_model(device),
        identity(config),
        str(config.model),
        cassette.Cassette(sources(models, directory), shard, keep_images=models.keep_images),
        Budget(directory / BUDGET, limits) if models.budgeted else None,
        policy if attempts is None else replace(policy, attempts=min(attempts, policy.attempts)),
        models.mode,
        config.answers or None,
    )
