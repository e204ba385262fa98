"""What an unknown name of a command means: the same name of another kind, a word of the field, or a misspelt name.

It is read only once an error is certain, so it may load every plug-in and compare every name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from guidebench.harness import registry
from guidebench.harness.errors import UserError, a, unknown
from guidebench.harness.spelling import close

TASK, PROFILE, DIFFICULTY, TRACKER, MODEL_SET = "task", "profile", "difficulty", "tracker", "model_set"
WORDS = {MODEL_SET: "models", TRACKER: "trackers"}
"""Kind -> the word of a command that names one, where that differs from the kind."""
TITLES = {MODEL_SET: "set of models"}
"""Kind -> how messages call it, where that differs from the kind."""
KINDS = (*registry.KINDS, TRACKER, MODEL_SET)
"""Kinds whose names a command may hold, besides tasks, profiles and difficulties, which belong to suites."""
FIELD = {
    "uniform": "uer", "prioritized": "per", "prioritised": "per", "ddqn": "dqn", "double_dqn": "dqn",
    "dueling": "dueling_dqn", "qr_dqn": "iqn", "soft_actor_critic": "sac", "behavior_cloning": "bc",
    "behaviour_cloning": "bc", "sil": "self_imitation",
}  # fmt: skip
"""A name that papers and other packages use -> the registered one."""
VERSION = re.compile(r"-v\d+$")


def unknown_name(kind: str, name: str) -> UserError:
    """Return the error for a name that is not registered as this kind, with what it probably means."""
    title, names = TITLES.get(kind, kind), registry.names(kind)
    if not spelt(name, names):
        registered = FIELD.get(name.lower().replace("-", "_"), name)
        called = "" if registered == name else f" (here {registered!r})"
        if registered in names:
            return UserError(
                f"unknown {title} {name!r}; here it is called {registered!r}: write {word(kind)}={registered}"
            )
        if meaning := other_meaning(kind, registered):
            return UserError(f"unknown {title} {name!r}{called}: {meaning}")
    return unknown(title, name, names, _hint(kind, name))


def unknown_task(suite: str, name: str) -> UserError:
    """Return the error for a task that a suite does not have, with the suites that do."""
    subject, home = f"task of suite {suite!r}:", registry.get("suite", suite)
    if same := task_of(suite, name):
        return unknown(subject, name, [same])
    if homes := suites_of(name):
        task = task_of(homes[0], name)
        return UserError(f"unknown {subject} {name!r}; suite {homes[0]} has it: write suite={homes[0]} task={task}")
    if meaning := other_meaning(TASK, name):
        return UserError(f"unknown {subject} {name!r}: {meaning}")
    near = close(name, home.tasks) or close(name, home.aliases)
    return unknown(subject, name, [*home.tasks, *(alias for alias in near if alias in home.aliases)])


def unknown_profile(suite: str, name: str) -> UserError:
    """Return the error for a profile that a suite does not have."""
    subject, home = f"profile of suite {suite!r}:", registry.get("suite", suite)
    if not close(name, home.profiles):
        if task := task_of(suite, name):
            return UserError(f"unknown {subject} {name!r}: {task} is a task of this suite; write task={task}")
        if meaning := other_meaning(PROFILE, name):
            return UserError(f"unknown {subject} {name!r}: {meaning}")
    return unknown(subject, name, home.profiles)


def unknown_difficulty(suite: str, name: str) -> UserError:
    """Return the error for a difficulty that a suite does not have."""
    subject, declared = f"difficulty of suite {suite!r}:", registry.get("suite", suite).difficulties
    if not declared:
        return UserError(f"unknown {subject} {name!r}; it declares none: name task= and settings instead")
    if not close(name, declared):
        if homes := suites_with_difficulty(name):
            return UserError(
                f"unknown {subject} {name!r}; {listing([f'suite {home}' for home in homes])} has it, and this one has "
                f"{', '.join(declared)}: run suites with difficulties of other names one by one"
            )
        if task := task_of(suite, name):
            return UserError(f"unknown {subject} {name!r}: {task} is a task of this suite; write task={task}")
        if meaning := other_meaning(DIFFICULTY, name):
            return UserError(f"unknown {subject} {name!r}: {meaning}")
    return unknown(subject, name, declared, f"`bench show suite={suite}` lists the words of each")


def suites_with_difficulty(name: str) -> list[str]:
    """Return the suites that declare a difficulty of this name."""
    return [suite for suite in registry.names("suite") if name in registry.get("suite", suite).difficulties]


def other_meaning(kind: str, name: str) -> str:
    """Return what `name` is registered as other than `kind`, and the words of a command that use it; "" if no kind,
    task or profile has this name."""
    kinds = [other for other in KINDS if other != kind and spelt(name, registry.names(other))]
    if kind in registry.MODELS and MODEL_SET in kinds:  # which also fills the role of this kind
        kinds = [MODEL_SET, *(other for other in kinds if other in registry.MODELS)]
    elif "method" in kinds:  # a whole recipe, of which a part of that name is the piece
        kinds = ["method", *(other for other in kinds if other in registry.PARTS and other not in registry.MODELS)]
    if kinds == [MODEL_SET] and kind != PROFILE and name in profiles():
        return f"{name} is a profile and a set of models; write profile={name} or models={name}"
    if kinds:
        titles = listing([a(TITLES.get(other, other)) for other in kinds])
        ways = [way for other in kinds for way in _ways(kind, other, spelt(name, registry.names(other)))]
        return f"{spelt(name, registry.names(kinds[0]))} is {titles}; write {' or '.join(dict.fromkeys(ways))}"
    if homes := suites_of(name):
        task = task_of(homes[0], name)
        others = f" (and of {', '.join(homes[1:])})" if homes[1:] else ""
        return f"{task} is a task of suite {homes[0]}{others}; write suite={homes[0]} task={task}"
    if profile := spelt(name, profiles()):
        return f"{profile} is a profile; write profile={profile}"
    if kind != DIFFICULTY and (homes := suites_with_difficulty(level := spelt(name, names_for(DIFFICULTY)))):
        return f"{level} is a difficulty of suite {homes[0]}; write suite={homes[0]} difficulty={level}"
    return ""


def word(kind: str) -> str:
    """Return the key of a command that chooses a part of this kind, such as `models` for `model_set`."""
    return WORDS.get(kind, kind)


def names_for(key: str) -> list[str]:
    """Return every valid value of a command's key that names a part, a role, a task, a profile or a difficulty; [] for
    other keys."""
    kinds = {word(kind): [kind] for kind in KINDS} | {role: sorted(of) for role, of in registry.roles().items()}
    if key == TASK:
        return [task for suite in registry.names("suite") for task in _tasks(suite)]
    if key == PROFILE:
        return profiles()
    if key == DIFFICULTY:
        suites = [registry.get("suite", suite) for suite in registry.names("suite")]
        return list(dict.fromkeys(name for suite in suites for name in suite.difficulties))
    return [name for kind in kinds.get(key, ()) if kind != registry.HUMAN for name in registry.names(kind)]


def _tasks(suite: str) -> list[str]:
    home = registry.get("suite", suite)
    return [*home.tasks, *home.aliases]


def profiles() -> list[str]:
    return list(
        dict.fromkeys(profile for name in registry.names("suite") for profile in registry.get("suite", name).profiles)
    )


def suites_of(task: str) -> list[str]:
    """Return the suites that have a task of this name. A Gymnasium id is split into pieces: MiniGrid-DoorKey-8x8-v0
    means the task `8x8` of a suite whose name contains another piece, such as `doorkey`."""
    suites = registry.names("suite")
    exact = [suite for suite in suites if task_of(suite, task)]
    pieces = [] if spelt(task, suites) else re.split(r"[-_/]", VERSION.sub("", task).lower())
    return exact or [
        suite for suite in suites if _piece(suite, pieces) and any(piece in suite.split("_") for piece in pieces)
    ]


def task_of(suite: str, name: str) -> str:
    """Return the suite's task of this name or alias, ignoring case, hyphens and a version suffix such as -v0; "" if
    there is none."""
    home = registry.get("suite", suite)
    if name in home.aliases:
        return str(home.aliases[name])
    if task := spelt(name, home.tasks):
        return task
    versionless: dict[str, str] = {VERSION.sub("", task): task for task in home.tasks}
    if task := spelt(VERSION.sub("", name), versionless):
        return versionless[task]
    if spelt(name, registry.names("suite")):
        return ""
    pieces = re.split(r"[-_/]", VERSION.sub("", name).lower())
    return _piece(suite, pieces) if any(piece in suite.split("_") for piece in pieces) else ""


def _piece(suite: str, pieces: Sequence[str]) -> str:
    """Return the first task of a suite whose name is among these pieces of a Gymnasium id, or ""."""
    tasks: Sequence[str] = registry.get("suite", suite).tasks
    return next((task for task in tasks if task.lower() in pieces), "")


def spelt(name: str, names: Iterable[str]) -> str:
    """Return the member of `names` that equals `name` up to case, hyphens and underscores; "" if none does."""
    candidates = list(names)
    plain = _plain(name)
    return name if name in candidates else next((other for other in candidates if _plain(other) == plain), "")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _ways(kind: str, other: str, name: str) -> list[str]:
    """Return the words of a command that use the part `name` of the kind `other` where `kind` was meant: a method that
    contains it, and the part in its own role."""
    word_of_part = f"{word(other)}={name}"
    if kind != "method" or other not in registry.PARTS:
        return [word_of_part]
    if other == "learner":
        return [f"method={_plain_method()} {word_of_part}"]
    recipes = {method: registry.get("method", method) for method in registry.names("method")}
    using = [method for method, recipe in recipes.items() if getattr(recipe, other, "") == name]
    return [f"method={using[0]}, which uses it,", word_of_part] if using else [word_of_part]


def _plain_method() -> str:
    """Return the method that most suites use with their default learner."""
    usual = Counter(registry.get("suite", suite).method for suite in registry.names("suite"))
    return next((method for method, _ in usual.most_common() if not registry.get("method", method).learner), "NAME")


def _hint(kind: str, name: str) -> str:
    """Return what else to try for a name that is registered nowhere, to end the error message."""
    lists = f"`bench list {kind}s` describes each"
    if kind in registry.MODELS:
        backend = next((part for part in ("openai", "transformers") if part in registry.names(kind)), "")
        return f"{lists}; a model is named beside the part that reaches it: {kind}={backend} {kind}.model={name}"
    if kind == "method":
        return f"no part of a method has this name either (learners: {', '.join(registry.names('learner'))}); {lists}"
    return lists


def listing(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listing(["a learner"]), listing(["a judge", "a chat", "a replay"])
    ('a learner', 'a judge, a chat and a replay')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def near(key: str, name: str) -> list[str]:
    """Return the valid values of a command's key `key` that the misspelt `name` may stand for, nearest first."""
    return close(name, names_for(key))
