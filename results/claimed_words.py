"""Comparison of the words of a study's claims with the cells on record, which were made elsewhere.

It reads claims.json and cell.json only, so a study is compared where its packages are not installed. What a record does
not hold is not compared: texts read from a file, and the folders of files that a digest identifies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness import registry, settings
from guidebench.harness.claims import CLAIMS, Claims, Row, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.plan import config
from guidebench.harness.plan.claim_rows import is_execution_word
from guidebench.harness.plan.grammar import Override, parse
from guidebench.harness.plan.matrix import PREFIX
from guidebench.harness.plan.model_sets import ORACLE, PLACEBO, SCRIPTED
from guidebench.harness.records.parts import RecordedPart

if TYPE_CHECKING:
    from guidebench.results.store import CellRecord, StageRecord

NAMES = ("suite", "task", "method", "profile")
STAND_INS = (SCRIPTED, ORACLE)
"""Sets of models that stand in for each other in roles for which one has no part."""
_UNSTARTED = ("suite", "task", "method")
"""Names of a cell that has not started, of which only the directory is on record."""


class Difference(NamedTuple):
    """A setting of a cell that is not what the claims say."""

    key: str
    claimed: str
    actual: str


class _Words(NamedTuple):
    """The words of a row, by the key that they have in a command."""

    of_row: Mapping[str, Override]
    shared: Mapping[str, Override]
    """Words of all rows whose keys the row does not have itself."""

    @property
    def every(self) -> Mapping[str, Override]:
        return {**self.shared, **self.of_row}

    @property
    def of_stage(self) -> _Words:
        """Return the words with the prefix `pretraining.`, without it."""
        inner = ({key: word for key, word in words.items() if key.startswith(PREFIX)} for words in self)
        return _Words(*({key.removeprefix(PREFIX): word for key, word in words.items()} for words in inner))


def check(record: Claims, row: Row, cells: Sequence[CellRecord], path: str) -> None:
    """Raise UserError, naming setting, claimed and actual value, if a cell of a row has other settings than its claims.
    `path`: the file that names the cells, for the message."""
    try:
        words = _words(record, row)
    except UserError as error:
        raise UserError(f"{path}: the row {key_of(row)!r} of {CLAIMS} is not as a command has it: {error}") from None
    for cell in cells:
        if difference := next(_differences(words, cell), None):
            raise UserError(
                f"{path}: the cell {cell.id} of the row {key_of(row)!r} has {difference.key}={difference.actual}, and "
                f"the claims have {difference.key}={difference.claimed}; restore the files that the study ran with, or "
                f"run these claims in another output=…"
            )
    begun = [cell for cell in cells if cell.profile]
    for key, word in words.of_row.items():
        if word.sweep and len(begun) == len(cells) and (lacking := _without_cell(key, word, cells)):
            raise UserError(
                f"{path}: the row {key_of(row)!r} has no cell with {key}={lacking}, which the claims sweep; restore "
                f"the files that the study ran with"
            )


def _words(record: Claims, row: Row) -> _Words:
    of_row = {word.key: word for word in parse(row)}
    shared = {word.key: word for word in parse(record.settings) if word.key not in of_row}
    return _Words(*({key: word for key, word in words.items() if not _says_how(key)} for words in (of_row, shared)))


def _says_how(key: str) -> bool:
    """Return whether a word says how runs are executed."""
    return key == "seeds" or is_execution_word(key)


def _differences(words: _Words, cell: CellRecord) -> Iterator[Difference]:
    """Yield how a cell differs from the words of its row."""
    if not cell.profile:
        yield from _names(words, {name: getattr(cell, name) for name in _UNSTARTED})
        return
    yield from _names(words, {name: getattr(cell, name) for name in NAMES})
    yield from _models(words, cell)
    yield from _unclaimed(words, cell)
    stages = [*reversed(cell.stages)]
    yield from _parts(words, [cell, *stages])
    yield from _settings(words, [cell, *stages])
    yield from _stages(words, stages)


def _names(words: _Words, names: Mapping[str, str]) -> Iterator[Difference]:
    for name, actual in names.items():
        if name not in words.every:
            continue
        claimed_names = [text for of_word in words.every[name].values for text in _texts(of_word)]
        if name == "task":
            claimed_names = [_task(names["suite"], task) for task in claimed_names]
        if actual not in claimed_names:
            yield Difference(name, ",".join(claimed_names), actual)


def _task(suite: str, task: str) -> str:
    """Return the name of a task for its alias, where the suite is installed."""
    with contextlib.suppress(UserError):
        return config.task_of(suite, task)
    return task


def _texts(name_or_names: Any) -> list[str]:
    """Return the names that a word gives: one, or several in brackets."""
    return [
        settings.show(element) for element in (name_or_names if isinstance(name_or_names, list) else [name_or_names])
    ]


def _parts(words: _Words, places: Sequence[CellRecord | StageRecord]) -> Iterator[Difference]:
    """Yield the parts that are not those of the words. `places`: the cell and its stages, the next one first."""
    roles = registry.roles()
    for key, word in words.every.items():
        if key not in registry.PARTS and key not in roles:
            continue
        part = next((place.parts[key] for place in places if key in place.parts), None)
        claimed_names = [name for of_word in word.values for name in _texts(of_word)]
        if part is None:
            yield Difference(key, ",".join(claimed_names), "(no such part)")
        elif not any(_is_named(key, part, name) for name in claimed_names):
            yield Difference(key, ",".join(claimed_names), part.name)


def _is_named(role: str, part: RecordedPart, name: str) -> bool:
    """Return whether a name means the part of a role: its own, the short one of `registry.meant`, or that of the part
    whose settings it takes (`Part.tuned_as`)."""
    if part.name in (name, f"{name}_{role}"):
        return True
    with contextlib.suppress(UserError):  # a part that is not installed here
        return bool(registry.get(part.kind, part.name).tuned_as == name)
    return False


def _models(words: _Words, cell: CellRecord) -> Iterator[Difference]:
    """Yield the models that are of another set than `models=SET` names."""
    if config.MODELS not in words.every:
        return
    set_names = [name for of_word in words.every[config.MODELS].values for name in _texts(of_word)]
    stands_in = any(f"{config.MODELS}={name} (" in cell.variant for name in set_names)
    fitting = {*set_names, *(STAND_INS if stands_in else ())}
    for role, part in cell.parts.items():
        if part.kind not in registry.MODELS or not part.backend or role in words.every:
            continue
        is_strange_placebo = part.backend == PLACEBO and PLACEBO not in set_names
        is_no_placebo = part.backend != PLACEBO and set_names == [PLACEBO]
        if is_strange_placebo or is_no_placebo or (fitting <= {*STAND_INS} and part.backend not in fitting):
            yield Difference(config.MODELS, ",".join(set_names), part.backend)


def _settings(words: _Words, places: Sequence[CellRecord | StageRecord]) -> Iterator[Difference]:
    """Yield the settings that differ from the words. A shared word counts where there is its setting; a word of the row
    has one in the cell or in a stage. Where several words mean one setting, it has to equal one of them."""
    for level in (words.of_row, words.shared):
        for key, word in level.items():
            if "." not in key or key.startswith((PREFIX, f"{config.MODELS}.")):
                continue
            place, meant = next(((place, of) for place in places if (of := _meant(key, place))), (places[0], []))
            if not meant and level is words.of_row and len(key.split(".")) == 2:
                yield Difference(key, _claimed(word), "(no such setting)")
            for setting in meant:
                rival_words = words.of_row if level is words.of_row else words.every
                rivals = [rival for rival_key, rival in rival_words.items() if setting in _meant(rival_key, place)]
                if not any(_agrees(place, setting, claimed) for rival in rivals for claimed in rival.values):
                    yield Difference(setting, _claimed(word), settings.show(_value(place, setting)))


def _claimed(word: Override) -> str:
    return ",".join(map(settings.show, word.values))


def _meant(key: str, place: CellRecord | StageRecord) -> list[str]:
    """Return the settings of a cell or a stage, `section.field`, that a key sets: `learner.sac.lr` that of each part
    with this name. [] for a setting that it lacks."""
    if "." not in key:
        return []
    section, *name, field = key.split(".")
    if not name:
        return [key] if key in place.settings else []
    roles = [
        role for role, part in place.parts.items() if section in (role, part.kind) and _is_named(role, part, name[0])
    ]
    return [setting for role in roles if (setting := f"{role}.{field}") in place.settings]


def _agrees(place: CellRecord | StageRecord, key: str, claimed: Any) -> bool:
    """Return whether a setting has a claimed value, as far as the record holds it."""
    actual = _value(place, key)
    if _equals(actual, claimed):
        return True
    if key == config.EPISODES and actual == 1 and _layer(place, key) != config.COMMAND:
        return True  # one suffices where all episodes of a run are equal
    if not (isinstance(actual, str) and isinstance(claimed, str)):
        return False
    digest = f"{key.partition('.')[0]}.{settings.DIGEST}"
    is_place = digest in place.settings and _value(place, digest) is not None
    return claimed.startswith("file:") or (is_place and PurePath(actual).name == PurePath(claimed).name)


def _equals(actual: Any, claimed: Any) -> bool:
    if isinstance(actual, list) and isinstance(claimed, list):
        return len(actual) == len(claimed) and all(map(_equals, actual, claimed))
    return isinstance(actual, bool) == isinstance(claimed, bool) and bool(actual == claimed)


def _value(place: CellRecord | StageRecord, key: str) -> Any:
    setting = place.settings.get(key)
    return setting.get("value") if isinstance(setting, Mapping) else setting


def _layer(place: CellRecord | StageRecord, key: str) -> Any:
    setting = place.settings.get(key)
    return setting.get("layer") if isinstance(setting, Mapping) else None


def _unclaimed(words: _Words, cell: CellRecord) -> Iterator[Difference]:
    """Yield the settings that the command gave to a cell and that no word of its row names. Not compared are settings
    of models, which a set of models may give, and all where a difficulty stands for its words."""
    if config.DIFFICULTY in words.every:
        return
    keys = [key.split(".") for key in words.every if "." in key]
    for setting in cell.settings:
        section, _, field = setting.partition(".")
        kind = cell.parts[section].kind if section in cell.parts else section
        is_named = any(key[-1] == field and key[0] in (section, kind) for key in keys)
        if _layer(cell, setting) == config.COMMAND and kind not in registry.MODELS and not is_named:
            yield Difference(setting, "(not given)", settings.show(_value(cell, setting)))


def _stages(words: _Words, stages: Sequence[StageRecord]) -> Iterator[Difference]:
    """Yield how the pre-training stages differ from the words with the prefix `pretraining.`. `stages`: the one just
    before the cell first."""
    claimed = words.every.get(config.PRETRAINING)
    if claimed is not None:
        method_names = [name for of_word in claimed.values for name in _texts(of_word)]
        actual = stages[0].method if stages else config.NONE
        if actual not in method_names:
            yield Difference(config.PRETRAINING, ",".join(method_names), actual)
    of_stage = words.of_stage
    if not stages or not of_stage.every:
        return
    inner = [
        *_names(of_stage, {name: getattr(stages[0], name) for name in ("suite", "task")}),
        *_parts(of_stage, stages[:1]),
        *_settings(of_stage, stages[:1]),
        *_stages(of_stage, stages[1:]),
    ]
    yield from (difference._replace(key=f"{PREFIX}{difference.key}") for difference in inner)


def _without_cell(key: str, word: Override, cells: Sequence[CellRecord]) -> str:
    """Return a value of a swept setting that no cell has; "" if there is none or the record does not hold it."""
    for swept in word.values:
        meant = [(cell, setting) for cell in cells for setting in _meant(key, cell)]
        if meant and not any(_agrees(cell, setting, swept) for cell, setting in meant):
            return settings.show(swept)
    return ""
