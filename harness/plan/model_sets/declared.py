"""The sets `scripted` and `oracle`, whose parts are those that askers and suites declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from guidebench.harness.plan.model_sets import ORACLE, SCRIPTED, ModelSet, OpenRole
from guidebench.harness.registry import register


class Declared(ModelSet):
    """Parts that are declared for a set of this name, where the suite has what they need (`ModelPart.suits`).

    For a role without a declaration it is the method's own part if that part's backend has the set's name: a method
    whose chat is hand-written needs to declare nothing. A judge of clips without either is the suite's.
    """

    def words(self, role: OpenRole) -> Mapping[str, Any]:
        words = role.declared(self.name)
        if not words and role.method_part and role.model(role.method_part).backend == self.name:
            words = {role.role: role.method_part}
        if not words and role.role not in getattr(role.asker, "puts", {}) and role.judge(self.name):
            words = {role.role: role.judge(self.name)}
        return words if words and role.suited(words[role.role]) else {}


@register.model_set(SCRIPTED)
class Scripted(Declared):
    """Hand-written models, which need no weights, server or key: they show that everything runs."""

    name: ClassVar[str] = SCRIPTED
    substitutes: ClassVar[tuple[str, ...]] = (ORACLE,)


@register.model_set(ORACLE)
class Oracle(Declared):
    """Privileged models, which are told what no method may know: an upper bound for models."""

    name: ClassVar[str] = ORACLE
    substitutes: ClassVar[tuple[str, ...]] = (SCRIPTED,)
