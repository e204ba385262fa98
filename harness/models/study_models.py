"""A study's files of recorded answers and costs, and the desk of a worker that calls its models.

| in STUDY/models/ | |
| --- | --- |
| cassette.sqlite | every recorded call, merged when the study ends |
| shard-….sqlite | calls of one model process, until they are merged |
| budget.json | amounts spent and reserved, if a budget is set |
| grants/ | parts of the budget that were granted to processes on several machines |
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness import reader_process, settings
from guidebench.harness.errors import UserError, too_large
from guidebench.harness.execution import Models
from guidebench.harness.models import choosing
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage
from guidebench.harness.parts import FilePart

if TYPE_CHECKING:
    from guidebench.harness.models.budget import Budget, Limits
    from guidebench.harness.models.calls import Model
    from guidebench.harness.models.cassette import Cassette
    from guidebench.harness.models.desk import Desk, Policy
    from guidebench.harness.models.grants import Grants

BUDGET = "budget.json"
HAND_WRITTEN = ("scripted", "oracle", "placebo")
"""Backends of models that are no foundation models."""
LOADING = 900.0
"""Seconds that a model may take to load before its process counts as hung."""
NOT_THE_MODEL = ("delay", "prompt", "temperature", "max_tokens", *choosing.SETTINGS)
"""Settings left out of a model's identity: the call itself contains them, or, as for the delay, they change no
answer."""


class Shared(NamedTuple):
    """Settings of a model process for a study that several machines write."""

    scratch: str
    """Folder on this machine, which outlives the process."""
    cell: str
    """Id of the cell of its runs."""


def folder(study: Path) -> Path:
    """Return the folder of a study's recorded answers."""
    return study / "models"


def is_recorded(model: Any) -> bool:
    """Return whether calls to a model are recorded: a foundation model's are; hand-written code, oracles and
    placebos are instant, free and deterministic. `model`: built configuration of a judge, chat or embedder, or None."""
    return getattr(model, "backend", "scripted") not in HAND_WRITTEN


def is_local(model: Any) -> bool:
    """Return whether a process of this program loads the model's weights on this machine. `model`: built configuration
    of a judge, chat or embedder."""
    return getattr(model, "backend", "") == "transformers"


def sources(models: Models, directory: Path | None) -> list[Path]:
    """Return the cassettes to read: the study's own, which this command writes, and those that `models.cassette` names,
    after each of their rows was checked. Raise UserError if it names none, or one that fails the check. `directory`:
    the study's folder of recorded answers, None for no study."""
    from guidebench.harness.models import cassette

    return [*([] if directory is None else cassette.files(directory)), *named_sources(models)]


def named_sources(models: Models) -> list[Path]:
    """Return the cassettes that `models.cassette` names, checked; raise UserError as `sources` does."""
    if not models.cassettes:
        return []
    from guidebench.harness.models import named_cassettes

    files: dict[Path, None] = {}
    for named in models.cassettes:
        cassettes = named_cassettes.files(named)
        if not cassettes:
            raise UserError(
                f"models.cassette={named}: no recorded calls there; name a study that recorded some, or a file of "
                f"`bench models export`"
            )
        files |= dict.fromkeys(cassettes)
    return [*files]


def check(models: Models, directory: Path, configs: Sequence[Any], runs: Iterable[str] = ()) -> None:
    """Raise UserError for a model that is not ready, check as `check_answers` does, and open the study's budget
    account."""
    if models.mode != "replay":
        for model in configs:
            model.ready()
    check_answers(models, directory, configs, runs)
    from guidebench.harness.models import cassette

    if configs and models.budgeted and not (directory / BUDGET).exists():
        _open_account(directory, bool(cassette.files(directory)))


def check_answers(models: Models, directory: Path, configs: Sequence[Any], runs: Iterable[str] = ()) -> None:
    """Raise UserError if replay lacks recorded answers or dropped arrays, or if a budget in USD is set for a model of
    unknown price; write nothing. `configs`: built configurations of the foundation models; `runs`: CELL/SEED of the
    runs to train."""
    if not configs:
        return
    for model in configs:
        if models.budget_usd is not None and not has_price(model):
            raise UserError(
                f"models.budget_usd={models.budget_usd:g} is set and what {model.model} costs is not known: give "
                f"its price_in and price_out (judge.price_in, chat.price_in), or set models.budget_calls"
            )
    from guidebench.harness.models import cassette

    cassettes = sources(models, directory)
    for file in cassettes:
        cassette.check(file)
    if models.mode == "replay" and not cassettes:
        raise UserError(
            f"models.mode=replay, and {directory} holds no recorded calls; name where they are with "
            f"models.cassette=STUDY, or record them first with models.mode=record"
        )
    if models.mode == "replay" and (lost := cassette.lost_arrays(cassettes, runs)):
        counts = " and ".join(f"{number:,} of {model}" for model, number in sorted(lost.items()))
        raise UserError(
            f"models.mode=replay, and arrays that these runs were answered by are not on record any more ({counts}): "
            f"models.keep_arrays=finished dropped them when their runs had finished, so the study needs its model; use "
            f"models.mode=record, which asks for them again, or name a cassette that has them with models.cassette"
        )


def unready_reasons(models: Models, configs: Sequence[Any]) -> list[str]:
    """Return the distinct reasons why models of a study cannot be used from this machine; call and load nothing."""
    reasons: dict[str, None] = {}
    for model in configs:
        try:
            if models.mode != "replay" and is_recorded(model):
                model.ready()
        except UserError as error:
            reasons[str(error)] = None
    return list(reasons)


def shortfall(models: Models, directory: Path, needed: Usage) -> str:
    """Return a warning if a budget is smaller than `needed`, the estimated usage that the study has yet to incur; else
    ""."""
    from guidebench.harness.models import grants
    from guidebench.harness.models.budget import UNITS

    spent = grants.spent_and_granted(directory / grants.FOLDER, directory / BUDGET)
    for which in ("usd", "calls"):  # a model's time cannot be estimated beforehand
        limit, estimated = getattr(models, f"budget_{which}"), getattr(needed, which)
        if limit is not None and spent[which] + estimated > limit:
            before = f" beside {spent[which]:,.6g} spent already" if spent[which] else ""
            return (
                f"models.budget_{which}={limit:g} is below the estimate of {estimated:,.6g} {UNITS[which]}{before}: "
                f"runs will stop at a checkpoint when it is reached, and a higher budget continues them"
            )
    return ""


def has_price(model: Any) -> bool:
    """Return whether a model's price is known, from its settings or its recipe."""
    return model.price_in is not None or recipes.pricing(model.model) != "unknown"


def _open_account(directory: Path, before: bool) -> None:
    """Create the budget account of a study. `before`: whether calls were made without one, whose usage it then
    counts."""
    from guidebench.harness.models import exchange
    from guidebench.harness.models.budget import Budget, Limits

    account = Budget(directory / BUDGET, Limits())
    for model in exchange.read_stats(directory.parent).models if before else ():
        account.settle(Usage(), model.spent)
    account.close()


def settle(directory: Path, finished: Collection[str] = (), alone: Callable[[], bool] = lambda: True) -> None:
    """Merge the shards of model processes that have ended, add what was spent in grants to the account, and drop the
    arrays that answered the runs `finished` (CELL/SEED). Do nothing unless `alone()` returns that no other machine uses
    the files; it is called while none can begin to."""
    from guidebench.harness.models import cassette, grants

    if any(directory.glob(cassette.SHARDS)) or (finished and (directory / cassette.MERGED).exists()):
        cassette.merge(directory, finished, alone)
    if (directory / grants.FOLDER).exists():
        with cassette.writing(directory):
            if alone():
                grants.settle(directory / grants.FOLDER, directory / BUDGET)


def patience(policy: Policy, calls: int = 1) -> float:
    """Return the seconds within which a question of `calls` calls is answered or fails, unless the process hangs."""
    return LOADING + calls * policy.longest


def identity(config: Any) -> dict[str, Any]:
    """Return the settings of a built configuration that can change the model's answers; recorded requests hold them as
    `model`. Settings that were added when requests were on record (`Later`) are left out at their default."""
    kind: type = type(config)
    declared = settings.fields(kind)
    decisive = {
        name: chosen for name, chosen in settings.identity(config).items()
        if name not in NOT_THE_MODEL and not (declared[name].later and chosen == declared[name].default)
    }  # fmt: skip
    return decisive | {"backend": config.backend}


def load_model(config: Any, device: str) -> Model:
    """Load and return the model of a built configuration. Raise NoMemory if it does not fit into memory, UserError if
    its files have changed since its digest was computed, and any other error of its `spawn_model`."""
    if isinstance(config, FilePart):
        config.verify()
    try:
        model: Model = config.spawn_model(device)
    except Exception as error:
        if lacking := too_large(str(config.model), error):
            raise lacking from None
        raise
    finally:
        reader_process.close()  # the process that checked the files has imported large libraries
    return model


def desk(
    config: Any, models: Models, directory: Path, device: str, attempts: int | None = None,
    shared: Shared | None = None, spawn: Callable[[str], Model] | None = None,
) -> Desk:  # fmt: skip
    """Return the desk of a model process for the built configuration of a foundation model. `attempts`: upper limit on
    the configured attempts per call; `shared`: settings for a study that several machines write, else None; `spawn`:
    returns the model for a device, instead of loading it in this process."""
    from guidebench.harness.models.budget import Limits
    from guidebench.harness.models.desk import Desk

    directory.mkdir(parents=True, exist_ok=True)
    limits = Limits(usd=models.budget_usd, calls=models.budget_calls, seconds=models.budget_seconds)
    policy = config.policy()
    cassette = _cassette(models, directory, shared)  # before the model, which may fail: it holds what was answered
    return Desk(
        None if models.mode == "replay" else spawn(device) if spawn else load_model(config, device),
        identity(config),
        str(getattr(config, "row_name", config.model)),
        cassette,
        _account(directory, limits, shared) if models.budgeted else None,
        policy if attempts is None else replace(policy, attempts=min(attempts, policy.attempts)),
        models.mode,
        config.answers or None,
    )


def _cassette(models: Models, directory: Path, shared: Shared | None) -> Cassette:
    from guidebench.harness.models import cassette, segments

    if shared is not None:
        with cassette.writing(directory):
            pass  # a merge under way has ended; a later one sees that the runs are held
    paths = sources(models, directory)
    reader_process.close()  # the process that checked the named cassettes would wait as long as the study takes
    if shared is None:
        return cassette.Cassette(paths, directory / f"shard-{uuid.uuid4().hex}.sqlite", models.keep_images)
    read = [path for path in paths if path.parent != directory or path.name == cassette.MERGED]
    return segments.Segmented(read, Path(shared.scratch), directory, shared.cell, models.keep_images)


def _account(directory: Path, limits: Limits, shared: Shared | None) -> Budget | Grants:
    from guidebench.harness.models import budget, grants

    if shared is None:
        return budget.Budget(directory / BUDGET, limits)
    return grants.Grants(directory / grants.FOLDER, directory / BUDGET, limits)
