"""Errors for words of a command that no cell has: each names the word that was probably meant.

In this order: our word for one that the field uses (`env`, `lr`), a setting of the command's own cells that the word is
a part of or misspells, the same setting in another section, and a setting that parts of other methods have.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guidebench.harness import meanings, registry, settings
from guidebench.harness.errors import UserError, a, count, nearest, unknown
from guidebench.harness.plan import config, model_sets
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.grammar import KINDS, Override
from guidebench.harness.recipes import Method
from guidebench.harness.spelling import close

SUITE_OR_TASK, METHOD_OR_PART = ("suite", "task"), ("method", "learner", "replay", "guide", "agent")
FIELD: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("env", "envs", "environment", "env_id", "env_name", "domain", "benchmark", "game"), SUITE_OR_TASK),
    **dict.fromkeys(("algo", "algos", "algorithm", "alg", "approach", "policy"), METHOD_OR_PART),
    **dict.fromkeys(("seed", "n_seeds", "num_seeds", "nseeds", "random_seed", "runs", "repeats"), ("seeds",)),
    **dict.fromkeys(("preset", "config", "scale", "mode"), ("profile",)),
    **dict.fromkeys(("level", "levels", "difficulties", "hardness"), ("difficulty",)),
    **dict.fromkeys(("buffer", "replay_buffer", "sampler", "memory"), ("replay",)),
    **dict.fromkeys(("reward", "shaping", "bonus"), ("guide",)),
    **dict.fromkeys(("vlm",), ("judge", "chat")),
    **dict.fromkeys(("llm", "lm", "language_model", "gpt"), ("chat",)),
    **dict.fromkeys(("encoder", "clip"), ("embedder",)),
    **dict.fromkeys(("pretrain", "pretrained", "init"), ("pretraining",)),
    **dict.fromkeys(
        ("out", "outdir", "out_dir", "output_dir", "logdir", "log_dir", "dir", "directory", "save_dir", "study"),
        ("output",),
    ),
    **dict.fromkeys(("jobs", "n_jobs", "num_workers", "n_workers", "processes", "parallel"), ("workers",)),
    **dict.fromkeys(("gpu", "cuda"), ("gpus", "device")),
    **dict.fromkeys(("n_envs", "num_envs"), ("env_workers",)),
    **dict.fromkeys(("logger", "log", "logging"), ("trackers",)),
    **dict.fromkeys(("cluster", "scheduler", "backend"), ("launcher",)),
    **dict.fromkeys(("save_every", "save_freq", "checkpoint_freq"), ("checkpoint_every",)),
}
"""A word that the field or other packages use -> ours."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("learning_rate", "lrate", "step_size"), ("lr",)),
    **dict.fromkeys(("gamma",), ("discount",)),
    **dict.fromkeys(("tau", "polyak"), ("target_rate", "target_every")),
    **dict.fromkeys(("batch", "minibatch", "minibatch_size"), ("batch_size",)),
    **dict.fromkeys(("num_steps", "n_steps", "total_steps", "timesteps", "total_timesteps", "max_steps", "frames"),
                    ("training.steps",)),
    **dict.fromkeys(("buffer_size", "replay_size", "memory_size"), ("training.capacity",)),
    **dict.fromkeys(("eval_every", "eval_freq", "eval_interval", "eval_frequency"), ("evaluation.every",)),
    **dict.fromkeys(("eval_episodes", "n_eval_episodes", "num_eval_episodes"), ("evaluation.episodes",)),
    **dict.fromkeys(("epsilon", "eps"), ("epsilon_start", "epsilon_end")),
    **dict.fromkeys(("update_every", "train_freq"), ("train_every",)),
    **dict.fromkeys(("start_steps", "warmup", "warmup_steps"), ("learning_starts",)),
    **dict.fromkeys(("hidden_size", "hidden_dim", "units"), ("hidden",)),
    **dict.fromkeys(("budget",), ("models.budget_usd", "models.budget_calls")),
    **dict.fromkeys(("cassette",), ("models.cassette",)),
}  # fmt: skip
"""A setting's name in other packages -> ours, with the section if it has only one."""
SECTIONS: Mapping[str, str] = {
    "train": "training", "eval": "evaluation", "env": "suite", "task": "suite", "buffer": "replay", "algo": "learner",
    "method": "learner", "agent": "learner", "vlm": "judge", "llm": "chat", "model": "models", "reward": "guide",
}  # fmt: skip
"""A section's name in other packages -> ours."""


def key(
    word: str, values: Sequence[Any], words: Iterable[str], present: Sequence[str] = (), title: str = "setting",
    prefix: str = "",
) -> UserError:  # fmt: skip
    """Return the error for an unknown key without a section.

    `words`: the valid keys without a section; `present`: the settings of the command's cells, as far as they are known;
    `title`: noun for the key in the message; `prefix`: text before the key in the command."""
    plain = word.lower().replace("-", "_")
    start = f"unknown {title} {word!r}"
    value = ",".join(map(settings.show, values))
    names = [*words]
    if not (near := [name for name in names if meanings.spelt(word, [name])]):
        if plain in registry.names(meanings.TRACKER):
            return UserError(f"{start}; write trackers={plain}")
        if ours := FIELD.get(plain):
            return UserError(f"{start}; {_in_our_words(ours, value)}")
        if advice := _settings(plain, present):
            return UserError(f"{start}; did you mean {_either(advice)}?")
        near = close(word, names)
    if near:
        return UserError(f"{start}; did you mean {_either(near, prefix)}?{_missing(near[0], value)}")
    if matches := nearest(word, present) or nearest(word, all_settings()):
        return UserError(f"{start}; did you mean {_either(matches)}?")
    return UserError(
        f"{start}; it is none of the words of a command ({', '.join(names)}), and `bench show` prints every setting"
    )


def unused(word: str, stage: str, cells: Iterable[Cell], settings_of_cells: Iterable[str]) -> UserError:
    """Return the error for a setting that no cell has, of `cells` or of the pre-training stages that `stage` names.
    `settings_of_cells`: the settings that cells have."""
    cells, present = [*cells], sorted(settings_of_cells)
    of = f"setting of the stage ({stage}):" if stage else "setting"
    if misplaced := _misplaced(word, cells):
        return misplaced
    section, _, name = word.rpartition(".")
    in_section = [key for key in present if key.startswith(f"{section}.")]
    if settings := _settings(name, in_section):
        part = next((f"{cell.names.part(section)}" for cell in cells if cell.names.part(section)), "")
        has = f"{section} {part!r} has {', '.join(settings)}" if part else f"here it is {', '.join(settings)}"
        others = [key for key in present if key.endswith(f".{name}")]
        return UserError(f"unknown {of} {word!r}: {has}{', and there is ' * bool(others)}{_either(others)}")
    if foreign := None if nearest(word, in_section) and not _foreign(word, cells) else _foreign(word, cells):
        return foreign
    if close(head := word.partition(".")[0], [config.PRETRAINING]):
        return UserError(f"unknown {of} {word!r}; did you mean {_either([word.replace(head, config.PRETRAINING)])}?")
    if near := nearest(word, in_section) or _elsewhere(section, name, present):
        return UserError(f"unknown {of} {word!r}; did you mean {_either(near)}?")
    return unknown(of, word, in_section or present, "`bench show` prints every setting")


def of_other_model(word: str, cells: Iterable[Cell], models: str, named: Iterable[str]) -> UserError | None:
    """Return the error for a setting that the method's own model in a role has and the one of the set of models lacks;
    None for any other setting. `models`: the set that the command names, or ""; `named`: roles that it names."""
    role, _, name = word.partition(".")
    if role in named:
        return None
    for cell in cells:
        part = next((part for part in cell.names.of(*registry.MODELS) if part.role == role), None)
        if part is None:
            continue
        named_part = registry.get("method", cell.names.method).named(role, part.kind)
        filler = registry.get(part.kind, registry.meant(part.kind, named_part, role)) if named_part else None
        if filler is not None and name in settings.fields(filler):
            model_set = models or model_sets.usual(cell.names.profile)
            return UserError(
                f"{word}= is given, but models={model_set} fills the role {role} with {part.name!r}, which has no such "
                f"setting; add {role}={named_part}, or models=paper"
            )
    return None


def _in_our_words(ours: Sequence[str], value: str) -> str:
    """Return the correction for a key of another package: the one of our keys `ours` that takes the value, or all of
    them."""
    if ours == ("seeds",):
        number = count(int(value), "seed") if value.isdigit() else ""
        advice = f"seeds={value} for {number}, or seeds=[{value}] for seed {value} alone"
        return f"write {advice if value.isdigit() else 'seeds=3 for three seeds, or seeds=[0,7] for these'}"
    if ours == SUITE_OR_TASK:
        for suite in (meanings.spelt(value, registry.names("suite")), *close(value, registry.names("suite"))):
            if suite:
                return f"write suite={suite}"
        suite, _, task = value.rpartition("/")
        homes = [suite] if suite in registry.names("suite") else meanings.suites_of(task)
        if homes and (task_name := meanings.task_of(homes[0], task)):
            return f"write suite={homes[0]} task={task_name}"
        return "write suite=… and task=…; `bench list suites` names both"
    for term in ours:
        if name := meanings.spelt(value, meanings.names_for(term)):
            return f"write {term}={name}"
    if ours == METHOD_OR_PART:
        name = next((name for term in ours for name in meanings.near(term, value)), "…")
        return f"write method={name}; `bench list methods` describes each"
    if ours == ("gpus", "device"):
        return f"write gpus={value}" if re.fullmatch(r"[\d,\[\]]+", value) else "write device=cuda, or gpus=[0,1]"
    if ours == ("trackers",):
        return "write trackers=…; `bench list trackers` names each"
    return f"write {' or '.join(f'{term}=' + (value or '…') for term in ours)}"


def _settings(name: str, present: Iterable[str]) -> list[str]:
    """Return the settings that a name means without being misspelt: of that name or one that ends with it, by our name
    or the field's."""
    keys = [*present]
    for term in (name, *SETTINGS.get(name, ())):
        if "." in term and term in keys:
            return [term]
        exact = [key for key in keys if key.rpartition(".")[2] == term]
        if matches := exact or [key for key in keys if key.endswith(f"_{term}")]:
            return matches[:4]
    return []


def _elsewhere(section: str, name: str, present: Sequence[str]) -> list[str]:
    """Return the settings probably meant by `section.name` whose section is misspelt, another package's word, or not
    the setting's own."""
    sections = list(dict.fromkeys(key.partition(".")[0] for key in present))
    head, dot, rest = section.partition(".")
    for right in (*close(head, sections), SECTIONS.get(head, "")):
        in_section = [key for key in present if key.startswith(f"{right}.")]
        if matches := _settings(name, in_section) or nearest(f"{right}.{name}", in_section):
            return [f"{right}.{rest}.{name}"] if dot and len(matches) == 1 else matches
    return _settings(name, present) or nearest(name, [key for key in present if "." in key])


def _missing(key: str, value: str) -> str:
    """Return a hint with the valid values of `key` if it was given without one, else ""."""
    names = meanings.names_for(key) if not value else []
    return f" Its value is missing: {key}= takes one of {', '.join(names)}" if 0 < len(names) <= 20 else ""


def _either(names: Sequence[str], prefix: str = "") -> str:
    return " or ".join(repr(prefix + name) for name in names)


def twice(word: str, values: Sequence[Any]) -> UserError:
    """Return the error for `word=` typed twice with `values`. If one of the values is the name of another kind of part,
    the error says how to write that part."""
    once = f"{word}= is given twice; name it once, with commas for several values"
    names = meanings.names_for(word)
    kind = next((kind for kind in meanings.KINDS if meanings.word(kind) == word), word)
    for value in filter(lambda value: isinstance(value, str), values if names else ()):
        if not meanings.spelt(value, names) and (meaning := meanings.other_meaning(kind, value)):
            return UserError(f"{word}= is given twice, and {meaning}")
    also = [(kind, value) for value in values for kind in KINDS if word == "method" and value in registry.names(kind)]
    hint = f"; {also[-1][1]} is also {a(also[-1][0])}: {also[-1][0]}={also[-1][1]}" if also else ""
    return UserError(f"{once}{hint}")


def suite_missing(parts: Mapping[str, Override], tasks: Sequence[str], levels: Sequence[str] = ()) -> UserError:
    """Return the error for a command that names no suite: what is wrong with its other words, if anything is, else
    the suites that have its task or difficulty (`levels`), or all."""
    for kind in KINDS:
        for value in parts[kind].values if kind in parts else ():
            if isinstance(value, str) and not meanings.spelt(value, registry.names(kind)):
                return meanings.unknown_name(kind, value)
    homes = list(dict.fromkeys(suite for task in tasks for suite in meanings.suites_of(task)))
    if tasks and not homes and (meaning := meanings.other_meaning("task", tasks[0])):
        return UserError(f"no suite named, and task={tasks[0]}: {meaning}")
    if homes:
        return UserError(f"no suite named; add {' or '.join(f'suite={suite}' for suite in homes)}, which has that task")
    if homes := list(dict.fromkeys(suite for name in levels for suite in meanings.suites_with_difficulty(name))):
        return UserError(
            f"no suite named; add {' or '.join(f'suite={suite}' for suite in homes)}, which has that difficulty"
        )
    return UserError(f"no suite named; add suite=… (known: {', '.join(registry.names('suite'))})")


def holders(value: str) -> list[str]:
    """Return the settings that have `value` among their options."""
    return [setting for setting, options in _options().items() if value in options]


def listed(setting: str) -> list[str]:
    """Return the options of a setting that are texts; [] for a setting without options."""
    return [value for value in _options().get(setting, ()) if isinstance(value, str)]


def _options() -> dict[str, tuple[Any, ...]]:
    """Return setting -> its options, for the settings of all parts whose type lists options."""
    by_setting: dict[str, tuple[Any, ...]] = {}
    for kind in ("suite", *KINDS):
        for name in registry.names(kind):
            for field in settings.fields(registry.get(kind, name)).values():
                if options := settings.options(field.type):
                    by_setting[f"{kind}.{field.name}"] = (*by_setting.get(f"{kind}.{field.name}", ()), *options)
    return by_setting


def methods_of(cells: Iterable[Cell]) -> str:
    """Return the names of the methods of cells, each once."""
    return ", ".join(dict.fromkeys(cell.names.method for cell in cells))


def roles_of(kind: str, cells: Iterable[Cell]) -> list[str]:
    """Return the roles of this kind in the cells whose name differs from the kind."""
    return sorted({part.role for cell in cells for part in cell.names.of(kind)} - {kind})


def _misplaced(word: str, cells: Iterable[Cell]) -> UserError | None:
    """Return the error for a `drawing` setting that no cell has; None for another section or if no suite has it."""
    if not word.startswith("drawing."):
        return None
    drawn = [cell.names.suite for cell in cells if cell.section("drawing") is not None]
    if not drawn:
        return UserError(f"{word}= is given, but none of the chosen methods has a part that looks at frames")
    if word not in drawing_settings():
        return None
    suites = " and ".join(map(repr, dict.fromkeys(drawn)))
    return UserError(f"{word}= is given, but suite {suites} has no such setting for its frames; leave it out")


def _foreign(word: str, cells: Iterable[Cell]) -> UserError | None:
    """Return the error for a setting that only parts of other methods have; None if no part has it."""
    kind, _, rest = word.partition(".")
    if kind not in KINDS:
        return None
    part, _, name = rest.rpartition(".")
    names = [part] if part in registry.names(kind) else [] if part else registry.names(kind)
    owners = [owner for owner in names if name in settings.fields(registry.get(kind, owner))]
    if not owners:
        return None
    methods = methods_of(cells)
    if roles := roles_of(kind, cells):
        return UserError(
            f"unknown setting {word!r} of the chosen methods ({methods}), which have {a(kind)} in a role of another "
            f"name than its kind; write {' or '.join(f'{role}.{name}=…' for role in roles)}"
        )
    recipes = {method: registry.get("method", method) for method in registry.names("method")}
    using = [
        method for method, recipe in recipes.items() if recipe.named(kind, kind) in owners and kind in _needed(recipe)
    ]
    swaps = owners if any(cell.names.part(kind) for cell in cells) else []
    ways = [
        f"{term}={choices[0]}" + (f" (or {', '.join(choices[1:])})" if len(choices) > 1 else "")
        for term, choices in (("method", using), (kind, swaps))
        if choices
    ]
    parts_text = f"{kind}{'s' if len(owners) > 1 else ''} {', '.join(owners)}"
    instead = f"choose {' or '.join(ways)}, or " if ways else ""
    return UserError(
        f"unknown setting {word!r} of the chosen methods ({methods}): it is a setting of {parts_text}; {instead}leave "
        f"it out"
    )


def _needed(recipe: Method) -> dict[str, str]:
    """Return role -> kind over the `needs` of a method's parts, without parts that only the suite names."""
    kinds: dict[str, str] = {}
    queue = [("agent", "agent")]
    while queue:
        role, kind = queue.pop()
        if role not in kinds and kind != registry.HUMAN:
            kinds[role] = kind
            name = recipe.named(role, kind)
            queue += registry.get(kind, registry.meant(kind, name, role)).needs.items() if name else []
    return kinds


def all_settings() -> list[str]:
    """Return every setting that a cell of any command may have."""
    names = []
    for section, section_class in config.PLAIN.items():
        names += [f"{section}.{field.name}" for field in dataclasses.fields(section_class)]
    for kind in ("suite", *KINDS):
        for name in registry.names(kind):
            names += [f"{kind}.{field.name}" for field in dataclasses.fields(registry.get(kind, name))]
    return list(dict.fromkeys([*names, *drawing_settings()]))


def drawing_settings() -> list[str]:
    """Return the settings of frames of every suite."""
    drawings = [registry.get("suite", name).drawing for name in registry.names("suite")]
    return [f"drawing.{field.name}" for drawing in drawings for field in dataclasses.fields(drawing)]
