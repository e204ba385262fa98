"""Which part fills each role of a cell: the one that the command names, or that its method or its suite does.

The roles follow from the `needs` of the agent, and recursively from those of its parts. Roles of models that the
command leaves open are filled by a set of models (`guidebench.harness.plan.model_sets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.harness import meanings, registry
from guidebench.harness.errors import UserError, a
from guidebench.harness.parts import Part
from guidebench.harness.plan import model_sets
from guidebench.harness.plan.model_sets import OpenRole
from guidebench.harness.plan.names import Chosen, StandIns
from guidebench.harness.recipes import Method


class Roles(NamedTuple):
    """The parts that fill the roles of a cell, and the settings that its set of models adds."""

    parts: tuple[Chosen, ...]
    """In the order of `Names`."""
    settings: Mapping[str, Any]
    """`role.field` -> value that the set gives, not checked yet."""
    stand_ins: StandIns
    """The set of models, and the roles in which another set stands in for it."""


def parts_of(
    suite: str, task: str, method: str, profile: str, chosen: Mapping[str, str], models: str = ""
) -> tuple[Chosen, ...]:
    """Return the parts of a cell in the order of `Names`; arguments and errors as of `fill`."""
    return fill(suite, task, method, profile, chosen, models).parts


def fill(
    suite: str, task: str, method: str, profile: str, chosen: Mapping[str, str], models: str = "", argument: str = ""
) -> Roles:
    """Fill every role of a cell.

    `chosen`: role -> name, for parts that the command names; a name means the part that is registered for the role, if
    there is one (`registry.meant`). `models`: the set of models, or "" for the one that is usual in the profile;
    `argument`: what `models.SET=` names. A role in which no set has a part gets the method's own, since perhaps nothing
    asks it; `config.validate` refuses it otherwise. Raise UserError for an unknown name, two parts that need one role
    for different kinds, and a role that nothing fills.
    """
    recipe: Method = registry.get("method", method)
    home = registry.get("suite", suite)
    if profile not in home.profiles:
        raise meanings.unknown_profile(suite, profile)
    models = models or model_sets.usual(profile)
    suites = {"learner": learner_of(home, task), "dataset": home.dataset}
    filled: dict[str, tuple[Chosen, str]] = {}
    settings: dict[str, Any] = {}
    instead: dict[str, str] = {}
    queue: list[tuple[str, str, str, type[Part]]] = [("agent", "agent", f"method {method!r}", Part)]
    while queue:
        role, kind, asker_text, asker = queue.pop(0)
        if kind == registry.HUMAN:  # a person has no part
            continue
        if role in filled:
            earlier, first = filled[role]
            if earlier.kind != kind:
                raise UserError(
                    f"{first} needs {a(earlier.kind)} in the role {role!r}, but {asker_text} needs {a(kind)} in it; "
                    f"parts of one method can share a role only for the same kind of part; rename one of the two roles"
                )
            continue
        name = chosen.get(role, "")
        if not name and kind in registry.MODELS:
            filling = model_sets.filling(models, OpenRole(role, kind, asker, recipe, suite, task, argument))
            if filling is not None:
                name = filling.part
                settings |= filling.settings
            elif not recipe.named(role, kind):
                raise unfilled(models, role, kind, method, suite)
            if filling is None or filling.instead:
                instead[role] = filling.instead if filling else ""
        name = name or recipe.named(role, kind) or suites.get(kind, "")
        if not name:
            raise UserError(
                f"method {method!r} needs {a(kind)} as {role!r}, but names none, and suite {suite!r} names none; name "
                f"one with {role}=… (known: {', '.join(registry.names(kind))})"
            )
        part = Chosen(role, kind, name := registry.meant(kind, name, role))
        filled[role] = part, asker_text
        config = registry.get(kind, name)
        queue += [(other, of, f"{kind} {name!r}", config) for other, of in config.needs.items()]
    for role in recipe.roles.keys() - filled.keys():  # another guide may need it; a role that no part needs is an error
        if role not in registry.roles():
            raise UserError(
                f"method {method!r} names {recipe.roles[role]!r} for the role {role!r}, which no part needs; its "
                f"own parts need the roles {', '.join(sorted(filled))}"
            )
    parts = tuple(sorted((part for part, _ in filled.values()), key=lambda p: (registry.KINDS.index(p.kind), p.role)))
    standing = tuple((part.role, instead[part.role]) for part in parts if part.role in instead)
    return Roles(parts, settings, StandIns(models, standing, argument))


def unfilled(models: str, role: str, kind: str, method: str, suite: str) -> UserError:
    """Return the error for a role in which neither the set of models nor one that stands in for it has a part."""
    sets = [models, *registry.get("model_set", models).substitutes]
    set_words = " nor ".join(f"models={name}" for name in sets)
    others = [name for name in registry.names("model_set") if name not in sets]
    further = f", or choose models={' or '.join(others)}" if others else ""
    return UserError(
        f"method {method!r} needs {a(kind)} as {role!r}, for which {'neither ' * (len(sets) > 1)}{set_words} has "
        f"{'a' if len(sets) > 1 else 'no'} part on suite {suite!r}; name one with {role}=… "
        f"(known: {', '.join(registry.names(kind))}){further}"
    )


def learner_of(home: Any, task: str) -> str:
    """Return a suite's default learner for a task."""
    return str(home.learners.get(task, home.learner))
