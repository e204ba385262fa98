"""Difficulties of suites: each name stands for words of a command, such as a task, a start, a horizon and a budget.

`difficulty=NAME` is expanded into these words before settings are read, so a cell's id is that of typing them. A word
that the command types has precedence, and a setting of a part that a cell lacks is left out of that cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from guidebench.harness import meanings, registry, settings
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.plan import config
from guidebench.harness.plan.names import Names
from guidebench.harness.settings import Cited

NAMES = ("task", "profile")
"""Words of a difficulty that choose by name; all others are settings, `section.field` or `role.name.field`."""


def content(suite: str, name: str) -> dict[str, Cited]:
    """Return the words of a suite's difficulty, key -> value and source. Raise UserError for an unknown name, and for a
    word that no command could have."""
    declared: Mapping[str, Mapping[str, Any]] = registry.get("suite", suite).difficulties
    if name not in declared:
        raise meanings.unknown_difficulty(suite, name)
    words = {key: value if isinstance(value, Cited) else Cited(value, "") for key, value in declared[name].items()}
    try:
        for key, cited in words.items():
            _check(suite, key, cited.value)
    except UserError as error:
        raise UserError(f"difficulty {name!r} of suite {suite!r}: {error}") from None
    return words


def every(suite: str) -> dict[str, dict[str, Cited]]:
    """Return difficulty -> its words, for all difficulties of a suite, in their order; errors as of `content`."""
    return {name: content(suite, name) for name in registry.get("suite", suite).difficulties}


def by_reason(suite: str) -> dict[str, dict[str, list[str]]]:
    """Return difficulty -> reason -> the words `key=value` that have this source, for all difficulties of a suite."""
    words: dict[str, dict[str, list[str]]] = {}
    for name, cited_words in every(suite).items():
        words[name] = {}
        for key, cited in cited_words.items():
            words[name].setdefault(cited.source, []).append(f"{key}={settings.show(cited.value)}")
    return words


def chosen(suite: str, name: str) -> dict[str, str]:
    """Return which task and profile a difficulty names, under `task` and `profile`."""
    return {key: str(cited.value) for key, cited in content(suite, name).items() if key in NAMES}


def layer(suite: str, name: str) -> dict[str, Cited]:
    """Return the settings of a difficulty, without the names that it chooses."""
    return {key: cited for key, cited in content(suite, name).items() if key not in NAMES}


def typed(names: Names, name: str) -> tuple[str, ...]:
    """Return the words that a command would type in place of a difficulty of the suite, for a cell with these names.
    Settings that the cell lacks are left out."""
    words = {**chosen(names.suite, name), **config.of_difficulty(names, layer(names.suite, name))}
    return tuple(f"{key}={settings.show(getattr(value, 'value', value))}" for key, value in words.items())


def _check(suite: str, key: str, value: Any) -> None:
    """Raise UserError for a word of a difficulty that no command could have, or with an invalid value."""
    home = registry.get("suite", suite)
    if key == "task":
        config.task_of(suite, value)
    elif key == "profile":
        if value not in home.profiles:
            raise meanings.unknown_profile(suite, value)
    elif "." not in key:
        raise UserError(f"{key!r} is no word of a difficulty; give {', '.join(NAMES)} and settings with a section")
    else:
        section, *name, field = key.split(".")
        by_class = [settings.fields(part) for part in _classes(home, section, name)]
        fitting = [fields[field] for fields in by_class if field in fields]
        if not fitting:
            others = dict.fromkeys(".".join((section, *name, other)) for fields in by_class for other in fields)
            raise unknown("setting", key, others)
        settings.check(fitting[0], value, key)


def _classes(home: Any, section: str, name: list[str]) -> Iterator[type]:
    """Yield the configurations that a section of settings may mean: of the part `name` holds, or of every part that may
    fill the role."""
    plain = {**config.PLAIN, "suite": home, "drawing": home.drawing}
    roles = {kind: {kind} for kind in registry.PARTS} | registry.roles()
    if section in plain and not name:
        yield plain[section]
    elif section not in roles or len(name) > 1:
        raise unknown("section of settings", ".".join((section, *name)), [*plain, *roles])
    else:
        for kind in sorted(roles[section] - {registry.HUMAN}):
            for part in [registry.meant(kind, name[0], section)] if name else registry.names(kind):
                yield registry.get(kind, part)
