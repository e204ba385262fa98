"""Parses the overrides of a command by Hydra's grammar (key=value, where a list sweeps) and suggests corrections."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import config

NAME_KEYS = ("suite", "task", "method", "profile", config.DIFFICULTY, config.MODELS, "seeds", config.PRETRAINING)
KINDS = registry.PARTS
"""Kinds of part; each is also the name of a role."""
PATHS = ("output", "against", "claims", "models.cassette", "models.placebo")
MOST_VALUES = 100_000
"""Maximum number of values of a range; more is assumed to be a typing error."""
EXAMPLE = "for example: suite=minigrid_doorkey method=uer profile=quick seeds=3"
FLAGS = ("dry-run", "json", "only")
"""Options of commands that plan, without their hyphens."""
CLOSING = {"(": ")", "[": "]", "{": "}"}
SPECIAL = " :,()[]{}'\"=\\"
"""Characters that have a meaning in Hydra's grammar."""


class Override(NamedTuple):
    """A command-line override: its key and its values (one, or the elements of a sweep)."""

    key: str
    values: tuple[Any, ...]
    sweep: bool


def parse(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides by Hydra's grammar and expand sweeps. Raise UserError for the first that cannot be read."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override as HydraOverride
    from hydra.core.override_parser.types import QuotedString, Transformer
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    parsed = []

    def plain(value: Any) -> Any:
        if isinstance(value, QuotedString):
            return value.text
        if isinstance(value, list):
            return [plain(element) for element in value]
        return value

    for index, text in enumerate(overrides):
        if joined := _split(overrides, index):
            raise UserError(f"{' '.join(overrides[joined.first : joined.last])!r}: {joined.why}; write {joined.text}")
        if "=" not in text:
            raise UserError(f"{text!r} is not of the form key=value; {_meant(overrides, index)}")
        key, _, value = text.partition("=")
        if key in PATHS:
            parsed.append(Override(key, (_path(key, value),), False))
            continue
        if value.startswith("{") and _is_json_object(value):
            parsed.append(Override(key, (value,), False))
            continue
        try:
            override: HydraOverride = parser.parse_override(text)
            if override.is_delete() or override.is_add() or override.package is not None:
                raise UserError(f"{text!r}: write key=value, without +, ~ or @")
            if override.is_sweep_override():
                _check_range(text, override.value())
                values = tuple(plain(v) for v in override.sweep_iterator(Transformer.identity))
            else:
                values = (plain(override.value()),)
        except HydraException:
            raise UserError(f"{text[:200]!r} cannot be read: {_unreadable(text)}") from None
        except (ValueError, RecursionError) as error:  # for huge numbers and deeply nested lists
            raise UserError(f"{text[:200]!r} cannot be read: {str(error).splitlines()[0][:200]}") from None
        if not values:
            raise UserError(f"{text!r} expands to no value")
        parsed.append(Override(override.key_or_group, values, override.is_sweep_override()))
    return parsed


def single(overrides: Sequence[str]) -> dict[str, Any]:
    """Return key -> value for a command without sweeps. Raise UserError if a key has several values."""
    parsed = parse(overrides)
    for override in parsed:
        if override.sweep or sum(other.key == override.key for other in parsed) > 1:
            raise UserError(f"{override.key}= has several values; this command takes one")
    return {override.key: override.values[0] for override in parsed}


def _check_range(text: str, sweep: Any) -> None:
    """Raise UserError for a range with too many values, before the parser expands it."""
    from hydra.core.override_parser.types import RangeSweep

    if isinstance(sweep, RangeSweep):
        start, stop, step = (float(value or 0) for value in (sweep.start, sweep.stop, sweep.step))
        if step == 0 or not abs((stop - start) / step) <= MOST_VALUES:
            raise UserError(f"{text!r}: a range needs a step other than 0 and at most {MOST_VALUES:,} values")


def _is_json_object(text: str) -> bool:
    """Return whether a text is a JSON object, which Hydra's grammar does not read."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _path(key: str, text: str) -> str | None:
    """Return a path verbatim, without surrounding quotes and with ~ expanded, or None for null."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if not text:
        raise UserError(f"{key}=: expected a directory")
    return None if text == "null" else os.path.expanduser(text)


def _unreadable(text: str) -> str:
    """Describe for the user why Hydra's grammar cannot read the override `text`."""
    key, _, value = text.partition("=")
    unclosed: list[str] = []
    for character in re.sub(r"'[^']*'|\"[^\"]*\"", "", value):
        if character in CLOSING:
            unclosed.append(CLOSING[character])
        elif character in CLOSING.values() and (not unclosed or unclosed.pop() != character):
            return f"{character} closes nothing"
    if unclosed:
        return f"{''.join(reversed(unclosed))[:5]} is missing at its end"
    if value.endswith(","):
        return "it ends with a comma; name another value after it, or leave the comma out"
    if value.startswith(",") or ",," in value:
        return "a value is missing beside a comma"
    if not re.fullmatch(r"[\w.@/-]+", key):
        return f"{key!r} is no name of a setting; write key=value"
    return f"a value that holds a space or one of {SPECIAL.strip()} needs quotes within the shell's: '{key}=\"…\"'"


class _Joined(NamedTuple):
    """The words `first` to `last` - 1 of a command, which a stray space has split, and the word that they form."""

    first: int
    last: int
    text: str
    why: str


def _split(overrides: Sequence[str], index: int) -> _Joined | None:
    """Return the repair of the word at `index` if a stray space has split it from its neighbours, else None."""
    text, following = overrides[index], overrides[index + 1 : index + 2]
    after = following[0] if following and "=" not in following[0] else ""
    if "=" in text and ((text.endswith(",") and after) or after.startswith(",")):
        last = index + 1
        while last < len(overrides) and "=" not in overrides[last] and (
            overrides[last - 1].endswith(",") or overrides[last].startswith(",")
        ):  # fmt: skip
            last += 1
        side = "after" if text.endswith(",") else "before"
        return _Joined(index, last, "".join(overrides[index:last]), f"no space {side} the comma")
    if "=" in text and after and _open(text):
        last = index + 1
        while last < len(overrides) and _open("".join(overrides[index:last])):
            last += 1
        joined = "".join(overrides[index:last])
        return None if _open(joined) else _Joined(index, last, joined, "no space within brackets")
    if "=" not in text and following and following[0].startswith("="):
        value = following[0] if len(following[0]) > 1 else "=" + "".join(overrides[index + 2 : index + 3])
        return _Joined(index, index + (2 if len(following[0]) > 1 else 3), text + value, "no space before =")
    if text.endswith("=") and len(text) > 1 and after:
        return _Joined(index, index + 2, text + after, "no space after =")
    return _of_names(overrides, index)


def _open(text: str) -> bool:
    """Return whether a bracket of a word is not closed."""
    return any(text.count(character) > text.count(end) for character, end in CLOSING.items())


def _of_names(overrides: Sequence[str], index: int) -> _Joined | None:
    """Return the repair of a key or a name that contains a stray space, or a space for its underscore, else None."""
    from guidebench.harness import meanings
    from guidebench.harness.plan import unknown_words

    text, following = overrides[index], overrides[index + 1 : index + 2]
    if "=" in text and following and "=" not in following[0]:
        key, _, value = text.partition("=")
        listed, comma, first = value.rpartition(",")
        rest, other, further = following[0].partition(",")
        names = unknown_words.listed(key) if "." in key else meanings.names_for(key)
        spelling = {meanings.spelt(first + rest, names)} - {"", first}
        if spelling:
            return _Joined(
                index, index + 2, f"{key}={listed}{comma}{spelling.pop()}{other}{further}", "no space in a name"
            )
    if "=" not in text and following and "=" in following[0]:
        key, _, value = following[0].partition("=")
        written = {name.replace("_", ""): name for name in keys()}
        section, dot, field = key.partition(".")
        joined = f"{text}{section}".replace("_", "")
        if joined in written and text not in written.values():
            return _Joined(index, index + 2, f"{written[joined]}{dot}{field}={value}", "no space in a name")
        if text.endswith(".") or key.startswith("."):
            return _Joined(index, index + 2, f"{text}{following[0]}", "no space in a name")
    return None


def keys() -> list[str]:
    """Return the keys of a command that have no section: names, kinds of part, roles and execution settings."""
    from guidebench.harness import settings
    from guidebench.harness.execution import Execution

    return list(dict.fromkeys((*NAME_KEYS, *KINDS, *registry.roles(), *settings.fields(Execution))))


def _meant(overrides: Sequence[str], index: int) -> str:
    """Return a suggestion for a word given in place of key=value."""
    from guidebench.harness import meanings
    from guidebench.harness.plan import unknown_words
    from guidebench.harness.spelling import close

    text, following = overrides[index], overrides[index + 1 : index + 2]
    words = keys()
    if text.lstrip("-") in FLAGS:
        return f"the option is --{text.lstrip('-')}"
    if colon := re.fullmatch(r"([a-z_.]+):(.+)", text):
        return f"write {colon[1]}={colon[2]}"
    if text in words or ("." in text and text in unknown_words.all_settings()):
        return f"write {text}={following[0] if following and '=' not in following[0] else '…'}"

    def misspelt(word: str, names: Iterable[str]) -> str:
        return next(iter(close(word, names)), "")

    first, comma, others = text.partition(",")
    for find in (meanings.spelt, misspelt):
        if kinds := [kind for kind in meanings.KINDS if find(first, registry.names(kind))]:
            kinds = [kind for kind in kinds if kind in ("method", meanings.MODEL_SET)] or kinds[:3]
            ways = (f"{meanings.word(kind)}={find(first, registry.names(kind))}{comma}{others}" for kind in kinds)
            return f"write {' or '.join(ways)}"
        if homes := meanings.suites_of(first):
            home = "" if any(word.startswith("suite=") for word in overrides) else f"suite={homes[0]} "
            return f"write {home}task={meanings.task_of(homes[0], first)}{comma}{others}"
        if profile := find(text, meanings.profiles()):
            return f"write profile={profile}"
        if homes := meanings.suites_with_difficulty(level := find(text, meanings.names_for(config.DIFFICULTY))):
            home = "" if any(word.startswith("suite=") for word in overrides) else f"suite={homes[0]} "
            return f"write {home}{config.DIFFICULTY}={level}"
        if key := next(iter(close(text, words)), ""):
            return f"write {key}=…"
    if settings := unknown_words.holders(text):
        return f"write {' or '.join(f'{setting}={text}' for setting in settings[:3])}"
    before = overrides[index - 1] if index else ""
    if "=" in before and re.fullmatch(r"[\w-]+", text):
        return f"if it belongs to {before!r}, write {before}{text} without a space; {EXAMPLE}"
    return EXAMPLE
