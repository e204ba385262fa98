"""Pages of every setting of every registered part, as `bench list` and `bench show` print it for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generated.markdown import code, table, text
from guidebench.harness import registry, settings
from guidebench.harness.commands.list_ import describe
from guidebench.harness.execution import Execution, Models
from guidebench.harness.plan import difficulties
from guidebench.harness.recipes import Evaluation, Method, Training
from guidebench.harness.settings import Cited

FOLDER = "reference/settings"
LONGEST = 60
"""Most characters of a value in a table; a longer one, such as a prompt, is cut."""
INTRODUCTION = """\
Where a setting stands in a command is said above each table. `bench show` prints the values that one cell has, with the
layer that set each: the part's own default, the suite, the method, the profile or the command line.
"""
SETS = ("paper", "scripted", "oracle")
RUN = (("training", Training), ("evaluation", Evaluation), ("models", Models), ("", Execution))


def pages() -> dict[str, str]:
    """Return address -> Markdown: a page for the settings of every run, and one for each kind of part."""
    pages = {f"{FOLDER}/run.md": "\n".join(["# Settings of a run", INTRODUCTION, *_run()])}
    for kind in registry.KINDS:
        title = f"# {kind.title()}s" if kind == "method" else f"# Settings of {kind}s"
        parts = [_part(kind, name) for name in registry.names(kind)]
        pages[f"{FOLDER}/{kind}.md"] = "\n".join([title, "" if kind == "method" else INTRODUCTION, *parts])
    return pages


def _run() -> Iterator[str]:
    for section, config in RUN:
        words = " ".join((config.__doc__ or "").split())
        yield f"## `{section}`" if section else "## The command itself"
        yield f"{text(words)} Written as `{section + '.' if section else ''}SETTING=VALUE`.\n{_fields(config)}"


def _part(kind: str, name: str) -> str:
    part = registry.get(kind, name)
    words, _, names = describe(kind, part).partition("  tasks: ")
    tasks = names.partition("  difficulties: ")[0]
    lines = [f"## `{name}` {{: #{name} }}", "", text(words[:1].upper() + words[1:])]
    if tasks:
        lines.append(f"\nTasks: {tasks}.")
    if kind == "method":
        return "\n".join([*lines, _recipe(part)])
    if kind != "launcher" and part.needs:
        needed = (f"{code(role)} ({other})" if role != other else code(role) for role, other in part.needs.items())
        lines.append(f"\nIt needs: {', '.join(needed)}.")
    fields = settings.fields(part)
    lines.append(f"\nWritten as `{kind}.SETTING=VALUE`." if fields else "\nIt has no settings.")
    lines.append(_fields(part))
    if kind == "suite":
        lines.append(_suite(name, part))
    return "\n".join(lines)


def _fields(config: type) -> str:
    """Return a Markdown table of the fields of a configuration class."""
    rows = (
        (
            code(field.name),
            _value(field.default),
            text(settings.describe(field)),
            text(field.meaning),
            text(field.source),
        )
        for field in settings.fields(config).values()
        if field.name not in ("models", "launching")
    )
    return table(("setting", "default", "values", "meaning", "source"), rows)


def _suite(name: str, suite: Any) -> str:
    """Describe a suite's drawing settings, its judges, its difficulties, and what it sets for other parts by
    profile."""
    lines = []
    if drawing := _fields(suite.drawing):
        lines.append(f"Its frames are drawn as `drawing.SETTING=VALUE` says:\n{drawing}")
    judges = ", ".join(f"`{judge}` with `models={models}`" for models, judge in suite.judges.items())
    lines.append(f"Its judges of clips: {judges or 'none'}.\n")
    levels = [
        (code(level), " ".join(map(code, typed)), text(reason))
        for level, words in difficulties.by_reason(name).items() for reason, typed in words.items()
    ]  # fmt: skip
    if levels:
        lines.append(
            f"Its difficulties, chosen by `difficulty=NAME`, which stands for their words:\n"
            f"{table(('difficulty', 'words', 'reason'), levels)}"
        )
    layers = {"every profile": suite.defaults, **{f"profile `{name}`": layer for name, layer in suite.profiles.items()}}
    rows = [row for called, layer in layers.items() for row in _layer(called, layer)]
    if rows:
        lines.append(f"What it sets of a run and of its parts:\n{table(('setting', 'value', 'in', 'source'), rows)}")
    return "\n".join(lines)


def _recipe(method: Method) -> str:
    """Describe the parts of a method, the settings that it changes, and its ablations."""
    parts = (
        f"{code(role)} [`{name}`]({kind}.md#{name})" if name else f"{code(role)} as the suite has it"
        for role, (kind, name) in _parts(method).items()
    )
    lines = [f"\nIts parts: {', '.join(parts)}.\n"]
    if rows := list(_sets(method)):
        lines.append(f"Its models by set (`models=NAME`):\n{table(('role', *SETS), rows)}")
    layers = {"every suite": method.defaults, **{f"suite `{name}`": layer for name, layer in method.on_suite.items()}}
    for suite, profiles in method.on_profile.items():
        layers |= {f"suite `{suite}`, profile `{name}`": layer for name, layer in profiles.items()}
    rows = [row for called, layer in layers.items() for row in _layer(called, layer)]
    if rows:
        lines.append(f"What it sets:\n{table(('setting', 'value', 'on', 'source'), rows)}")
    rows = [
        (code(name), key, value, source)
        for name, layer in method.ablations.items()
        for key, value, _, source in _layer("", layer)
    ]
    if rows:
        lines.append(
            f"Its ablations, run by `bench ablate`:\n{table(('ablation', 'setting', 'value', 'source'), rows)}"
        )
    return "\n".join(lines)


def _sets(method: Method) -> Iterator[tuple[str, ...]]:
    """Yield table rows (role, parts): for each role of a model, the part that the method names and the parts of the
    model sets that its asker declares."""
    parts = _parts(method)
    for role, (kind, name) in parts.items():
        if kind not in registry.MODELS:
            continue
        askers = (registry.get(*part) for part in parts.values() if part[1])
        asker = next(asker for asker in askers if role in asker.needs)
        declared = (getattr(asker, "model_sets", {}).get(models, {}).get(role, "") for models in SETS[1:])
        meant = (
            tuple(registry.meant(kind, part, role) for part in ((parts,) if isinstance(parts, str) else parts) if part)
            for parts in declared
        )
        absent = "none" if name else "as the suite has it"
        cells = ((name,) if name else (), *meant)
        yield (code(role), *(" or ".join(map(code, names)) if names else absent for names in cells))


def _parts(method: Method) -> dict[str, tuple[str, str]]:
    """Return role -> (kind, name) of the parts that a method's agent needs, directly or through other parts; the name
    is "" where the suite decides."""
    parts = {"agent": ("agent", method.named("agent", "agent"))}
    waiting = ["agent"]
    while waiting:
        kind, name = parts[waiting.pop(0)]
        for role, other in registry.get(kind, name).needs.items() if name else ():
            if role not in parts and other != registry.HUMAN:
                name = method.named(role, other)
                parts[role] = other, registry.meant(other, name, role) if name else ""
                waiting.append(role)
    return parts


def _layer(called: str, layer: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a table row (key, value, name of the layer, source) for each setting of a layer, those by task included."""
    for key, setting in layer.items():
        if key == "by_task":
            for task, task_layer in setting.items():
                yield from _layer(f"{called}, task `{task}`", task_layer)
            continue
        value, source = setting if isinstance(setting, Cited) else (setting, "")
        yield code(key), _value(value), called, text(source)


def _value(value: Any) -> str:
    text_ = settings.show(value)
    return code(text_ if len(text_) <= LONGEST else f"{text_[:LONGEST]}…") or "(empty)"
