"""Repeat a sample of a cell's recorded calls with the model that its configuration names.

The model's name comes from the record. The verifier alone says how to reach it: an address, a path, repository code or
the name of a key's variable never comes from a submission.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import reader_process, registry, settings
from guidebench.harness.errors import BudgetReached, UserError, unknown
from guidebench.harness.execution import Models
from guidebench.harness.models import cassette_checks, single_calls, study_models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.images import pixels
from guidebench.harness.models.backends.transformers_ import loading
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Answer, Call, Ticket
from guidebench.harness.models.calls.base import CANONICAL
from guidebench.harness.models.cassette_file import STRANGERS, NotKept, faults_of, opened, read
from guidebench.harness.parts import FilePart
from guidebench.harness.plan import answering
from guidebench.harness.plan.config import Cell
from guidebench.results.verification.record import Check

DIFFERING = 0.1
"""Largest share of compared answers that may differ, because a served model is not always deterministic."""
MOST_TOKENS = 8_192
"""Most tokens of an answer to a repeated call."""
CALL_SETTINGS = ("prompt", "temperature", "max_tokens")
"""Settings of a model that its calls contain."""
MOST_IMAGES = 1_024
"""Most images of a repeated call."""


class RecordedCall(NamedTuple):
    """A recorded call."""

    request: Mapping[str, Any]
    """The parsed canonical request."""
    call: Call | None
    """None if the call cannot be repeated (its images are not recorded, for example) or compared (its array answer was
    not kept)."""
    value: Any
    """The recorded answer."""


class ReaskingCost(NamedTuple):
    """Budget of all calls of a verification together."""

    path: Path
    """Account file."""
    limits: Limits


ALLOW = "say how much with models.budget_usd=AMOUNT, or how often it may be asked with models.budget_calls=NUMBER"


class Unasked(Exception):
    """No call is made; the message says what is missing and which setting to pass."""


def asked_models(cell: Cell) -> list[str]:
    """Return the roles of the cell's foundation models."""
    return [part.role for part in cell.models if study_models.is_recorded(cell.section(part.role))]


def kinds(cell: Cell, section: str) -> list[str]:
    """Return the kinds of call that the cell's parts make to one of its models."""
    return [*answering.put(cell.names.parts, section)]


def checks(
    cell: Cell,
    runs: Sequence[int],
    file: Path,
    model_settings: Mapping[str, Any],
    count: int,
    seed: int,
    limit: float,
    account: ReaskingCost | None = None,
) -> list[Check]:
    """Return one check per model of the cell: repeat up to `count` recorded calls of the `runs` (seeds), sampled with
    `seed`, within `limit` seconds. `model_settings`: the verifier's, such as `judge.base_url`; `account`: budget,
    without which only local models are called."""
    roles = asked_models(cell)
    if not file.is_file():
        words = "the submission holds no recorded calls (bench submit --cassette adds them)"
        return [Check(f"model calls ({section})", None, words) for section in roles]
    try:
        sound(file)
        names = cell.runs(runs)
        put = [(_alike(cell, section), kinds(cell, section)) for section in roles]
        samples = reader_process.call(
            f"{file}: drawing calls from it", cassette_checks.seconds(file), _samples, file, put, names, count, seed
        )
    except UserError as error:
        return [Check(f"model calls ({section})", None, str(error)) for section in roles]
    return [
        _check(cell, section, *drawn_calls, model_settings, limit, account)
        for section, drawn_calls in zip(roles, samples, strict=True)
    ]


@functools.cache
def sound(file: Path) -> None:
    """Raise UserError for a cassette that this program would not have written; checked once for all cells."""
    reader_process.call(f"{file}: looking at it", cassette_checks.seconds(file), cassette_checks.verify, file)


def _samples(
    file: Path, put: Sequence[tuple[Sequence[str], Sequence[str]]], runs: Sequence[str], count: int, seed: int
) -> list[tuple[list[RecordedCall], int]]:
    """Return `sample` for the roles and kinds of each model."""
    return [sample(file, roles, kinds, runs, count, seed) for roles, kinds in put]


def _alike(cell: Cell, section: str) -> list[str]:
    """Return the role, followed by the other roles whose models get identical calls: such a call is recorded only once,
    under the first role."""

    def signature(role: str) -> list[Any]:
        config = cell.section(role)
        return [study_models.identity(config), *(getattr(config, name, None) for name in CALL_SETTINGS)]

    return [
        section,
        *(role for role in asked_models(cell) if role != section and signature(role) == signature(section)),
    ]


def _check(
    cell: Cell,
    section: str,
    calls: list[RecordedCall],
    total: int,
    model_settings: Mapping[str, Any],
    limit: float,
    account: ReaskingCost | None,
) -> Check:
    name = f"model calls ({section})"
    if not calls:
        return Check(name, None, "no call of its runs is on record")
    if wrong := next(filter(None, (_misfit(cell, section, recorded.request) for recorded in calls)), ""):
        return Check(name, False, f"calls on record were not asked as the configuration says: {wrong}")
    askable = [recorded for recorded in calls if recorded.call is not None]
    if not askable:
        why = "whose images or arrays were not kept, or which are too large to ask again"
        return Check(name, None, f"{total:,} calls on record, {why}")
    try:
        config = reached(cell, section, model_settings)
        affordable(config, section, account)
        outcomes = asyncio.run(
            _outcomes_of(config, [recorded.call for recorded in askable if recorded.call is not None], limit, account)
        )
    except (Unasked, UserError) as error:
        return Check(name, None, f"not asked again: {error}")
    except BudgetReached as spent:
        return Check(name, None, f"not all asked again: {spent}")
    except TimeoutError:
        return Check(name, None, f"not answered within {limit:g} s; give them more with --limit")
    words = f"{len(askable)} of {total:,} recorded calls asked again of {config.model}"
    if len(askable) < len(calls):
        words += f" ({len(calls)} were drawn, and the others' images or arrays were not kept, or they are too large)"
    return compared(name, len(calls), askable, outcomes, words)


def compared(
    name: str, sample_size: int, recorded: Sequence[RecordedCall], outcomes: Sequence[Answer], words: str
) -> Check:
    """Compare answers with the recorded ones. `sample_size`: calls drawn, at least half of which must be compared for
    the check to pass."""
    answered = [(then, now.value) for then, now in zip(recorded, outcomes, strict=True) if not now.failure]
    failures = [now for now in outcomes if now.failure]
    if failures:
        message = str(failures[0].detail.get("message", ""))[:200]
        words += f"; {len(failures)} got no answer ({failures[0].failure}: {message})"
    if not answered:
        return Check(name, None, words)
    verdicts = [_agrees(then, value) for then, value in answered]
    comparable = [agrees for agrees in verdicts if agrees is not None]
    if not comparable:
        return Check(name, None, f"{words}; {len(answered)} were answered, and sampled text is not compared")
    differing = comparable.count(False)
    words += f"; {len(comparable) - differing} of {len(comparable)} answers agree"
    for kind, distances in _distances(answered).items():
        words += f" within {kind.tolerance:g} ({kind.measure}, {max(distances):.3g} at most)"
    passed: bool | None = differing <= DIFFERING * len(comparable)
    if passed and 2 * len(comparable) < sample_size:
        passed, words = None, f"{words}; fewer than half of the {sample_size} that were drawn are too few"
    return Check(name, passed, words)


def _distances(answered: Sequence[tuple[RecordedCall, Any]]) -> dict[type[Call], list[float]]:
    """Return kind of call with a tolerance -> distance of each answer from the recorded one."""
    by_kind: dict[type[Call], list[float]] = {}
    for then, value in answered:
        if then.call is not None and then.call.tolerance and not then.call.sampled:
            by_kind.setdefault(type(then.call), []).append(then.call.distance(then.value, value))
    return by_kind


def sample(
    file: Path, roles: Sequence[str], kinds: Sequence[str], runs: Sequence[str], count: int, seed: int
) -> tuple[list[RecordedCall], int]:
    """Return up to `count` random calls of the given kinds, roles and runs (`CELL/SEED`), and the number of all such
    calls.

    Raises UserError for a file that is not a cassette.
    """
    within, marks, more = (", ".join("?" * len(names)) for names in (roles, runs, kinds))
    query = (
        f"SELECT key, MIN(run) FROM answers JOIN requests USING (key) WHERE role IN ({within}) "
        f"AND run IN ({marks}) AND json_extract(text, '$.kind') IN ({more}) GROUP BY key ORDER BY key"
    )
    with closing(opened(file, STRANGERS)) as db, faults_of(file):
        rows = db.execute(query, [*roles, *runs, *kinds]).fetchall()
        chosen = np.random.default_rng(seed).permutation(len(rows))[:count]
        return [_recorded(db, *rows[place]) for place in sorted(chosen)], len(rows)


def _recorded(db: sqlite3.Connection, key: str, run: str) -> RecordedCall:
    (text,) = db.execute("SELECT text FROM requests WHERE key = ?", (key,)).fetchone()
    request = json.loads(text)
    try:
        call = _call(request, db)
    except (KeyError, TypeError, ValueError):
        call = None
    try:
        return RecordedCall(request, call, read(db, cassette_checks.kind_of(request["kind"]), key, run))
    except NotKept:
        return RecordedCall(request, None, None)


def _call(request: Mapping[str, Any], db: sqlite3.Connection) -> Call | None:
    """Return the call of a request; return None or raise KeyError, TypeError or ValueError if it cannot be repeated."""
    images = 0

    def image(digest: str) -> Any:
        nonlocal images
        images += 1
        row = db.execute("SELECT png FROM images WHERE digest = ?", (digest,)).fetchone()
        if row is None or images > MOST_IMAGES:
            raise ValueError("an image is not on record, or there are too many")
        return pixels(row[0])

    if request.get("max_tokens", 0) > MOST_TOKENS:
        return None
    return cassette_checks.kind_of(request["kind"]).read(request, image)


def _misfit(cell: Cell, section: str, request: Mapping[str, Any]) -> str:
    """Return what in a recorded call contradicts the cell's configuration, or ""."""
    config = cell.section(section)
    if CANONICAL.encode(request["model"]) != CANONICAL.encode(study_models.identity(config)):
        return "they are another model's, or its settings are others"
    for name in CALL_SETTINGS:
        if name in request and hasattr(config, name) and request[name] != getattr(config, name):
            return f"{name} is another"
    return ""


def reached(cell: Cell, section: str, model_settings: Mapping[str, Any]) -> Any:
    """Return a configuration of the cell's model that can be called here: the model's identity from the record, and how
    to reach it only from `model_settings` (`judge.base_url`, `judge.model`, …). Raise Unasked if a setting is missing,
    and UserError for files with another digest than that on record."""
    recorded = cell.section(section)
    kind: type = type(recorded)
    fields = settings.fields(kind)
    section_settings = {
        name.removeprefix(f"{section}."): value
        for name, value in model_settings.items()
        if name.startswith(f"{section}.")
    }
    values = settings.identity(recorded)
    values.setdefault("model", recorded.row_name)  # where a digest is its identity
    for name, value in section_settings.items():
        if name not in fields:
            raise unknown(f"setting {section}.", name, fields)
        values[name] = settings.from_command(fields[name], value, f"{section}.{name}")
    config = kind(**values)
    if config.backend == "openai":
        if "base_url" not in section_settings:
            raise Unasked(f"name a server that has {config.model!r} with {section}.base_url=URL")
    elif config.backend == "transformers":
        if "model" not in section_settings and recipes.recipe(config.model) is None:
            raise Unasked(
                f"its model {config.model!r} is no recipe's, and nothing that a record names is loaded; say where it "
                f"is with {section}.model=PATH"
            )
        name = recipes.repository(config.model)
        if loading.local_path(name, config.revision) is None:
            raise Unasked(f"{name} is not on this machine; get it with `hf download {name}`")
        if isinstance(config, FilePart):
            config.verify()
    elif not section_settings:
        raise Unasked(f"its backend {config.backend!r} is a plug-in's; say how it is reached with {section}.…=…")
    for name in ("revision", "trust_remote_code"):
        if name in fields and name not in section_settings and getattr(config, name) != fields[name].default:
            raise Unasked(f"{name} is {getattr(config, name)!r} on record; pass {section}.{name}=… if you mean it")
    return config


def affordable(config: Any, section: str, account: ReaskingCost | None) -> None:
    """Raise Unasked if calls may cost money that no budget allows."""
    if config.backend == "transformers":
        return
    if account is None:
        raise Unasked(f"asking it may cost money; {ALLOW}")
    if account.limits.usd is not None and not study_models.has_price(config):
        raise Unasked(
            f"models.budget_usd={account.limits.usd:g} is set and what {config.model} costs is not known: give its "
            f"{section}.price_in and {section}.price_out, or set models.budget_calls instead"
        )


async def _outcomes_of(config: Any, calls: Sequence[Call], limit: float, account: ReaskingCost | None) -> list[Answer]:
    """Return the outcomes of the calls; raise TimeoutError if they take more than `limit` seconds in all, or
    BudgetReached."""
    from guidebench.harness.models.desk import Desk

    budget, model = (
        None if account is None else Budget(*account),
        study_models.load_model(config, single_calls.device()),
    )
    desk = Desk(model, {}, config.model, None, budget, config.policy(), "live", config.answers or None)
    try:
        async with asyncio.timeout(limit):
            answers = (desk.answer(call, Ticket("", n, 0)) for n, call in enumerate(calls))
            outcomes = await asyncio.gather(*answers, return_exceptions=True)  # none is cut off by another's error
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            return [outcome for outcome in outcomes if isinstance(outcome, Answer)]
    finally:
        await desk.close()


def _agrees(then: RecordedCall, value: Any) -> bool | None:
    """Return whether an answer agrees with the recorded one; None for sampled answers, which need not."""
    assert then.call is not None, "only repeated calls are compared"
    return None if then.call.sampled else then.call.distance(then.value, value) <= then.call.tolerance


def settings_of(words: Sequence[str]) -> tuple[dict[str, Any], Limits | None]:
    """Return the settings in a command line that say how to reach models, and the limits on their calls. Raise
    UserError for any other setting, and for a server without a limit."""
    from guidebench.harness.plan import grammar

    model_settings: dict[str, Any] = dict(grammar.single([*words])) if words else {}
    limits: dict[str, Any] = {}
    fields = settings.fields(Models)
    for name in [*model_settings]:
        section, _, field = name.partition(".")
        if section == "models" and field.removeprefix("budget_") in Limits._fields:
            limits[field.removeprefix("budget_")] = settings.from_command(fields[field], model_settings.pop(name), name)
        elif not field or not any(kind in registry.MODELS for kind in registry.roles().get(section, (section,))):
            raise UserError(
                f"{name!r}: only how models are reached (judge.base_url=…) and what asking them may take "
                f"(models.budget_usd=…) can be said here"
            )
    allowed = Limits(**limits) if any(value is not None for value in limits.values()) else None
    served = next(
        (name for name, value in model_settings.items() if name.endswith(".base_url") and value is not None), ""
    )
    if served and allowed is None:
        raise UserError(f"{served}={model_settings[served]}: asking a server may cost money; {ALLOW}")
    return model_settings, allowed
