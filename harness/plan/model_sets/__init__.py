"""Sets of models: `models=NAME`, a word of a plan, names a part for every role of a model that the command leaves open.

A set gives words of a command, `ROLE=PART` and, where it has them, `ROLE.FIELD=VALUE`. They are taken before any
setting is read, so a cell is the same as if a person had typed them. Sets are registered with `@register.model_set`, in
a module directly in this folder or in a plug-in under the entry point group `guidebench.model_sets`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.parts import AskingPart, ModelPart, Part, SuitePart
from guidebench.harness.recipes import Method

PAPER, SCRIPTED, ORACLE, PLACEBO = "paper", "scripted", "oracle", "placebo"


def usual(profile: str) -> str:
    """Return the set that fills open roles in a profile if the command names none."""
    return PAPER if profile == "paper" else SCRIPTED


class OpenRole(NamedTuple):
    """A role of a model that the command leaves open, and the cell that has it."""

    role: str
    kind: str
    """`judge`, `chat` or `embedder`."""
    asker: type[Part]
    """Configuration class of the part that needs the role."""
    method: Method
    suite: str
    """Name of the suite."""
    task: str
    argument: str = ""
    """What the word `models.SET=` names, for a set that takes it (`ModelSet.takes`)."""

    @property
    def home(self) -> SuitePart:
        """Return the suite in its default settings."""
        return _home(self.suite)

    @property
    def method_part(self) -> str:
        """Return the part that the method names, or ""."""
        return self.method.named(self.role, self.kind)

    def declared(self, name: str) -> Mapping[str, Any]:
        """Return the words that the part which needs the role declares for the set `name` (`AskingPart.model_sets`); of
        several parts the first that is made for the task, else the last."""
        words = self.asker.model_sets.get(name, {}) if issubclass(self.asker, AskingPart) else {}
        role_words: dict[str, Any] = {key: word for key, word in words.items() if key.partition(".")[0] == self.role}
        if isinstance(parts := role_words.get(self.role), tuple):
            role_words[self.role] = next((part for part in parts if self.suited(part)), parts[-1])
        return role_words

    def judge(self, name: str) -> str:
        """Return the judge of clips that the suite has for the set `name` (`SuitePart.judges`), or "" if it has none or
        this is no role of a judge."""
        return self.home.judges.get(name, "") if self.kind == "judge" else ""

    def model(self, name: str) -> type[ModelPart]:
        """Return the configuration class of the part that `name` means in this role."""
        config: type[ModelPart] = registry.get(self.kind, registry.meant(self.kind, name, self.role))
        return config

    def suited(self, name: str) -> bool:
        """Return whether the part that `name` means is made for the task (`ModelPart.suites` and `ModelPart.suits`)."""
        config = self.model(name)
        return (not config.suites or self.suite in config.suites) and config.suits(self.home, self.task)


@registry.cached(256)
def _home(suite: str) -> SuitePart:
    home: SuitePart = registry.get("suite", suite)()
    return home


class ModelSet(ABC):
    """A set of models. A subclass without arguments is registered below `@register.model_set("name")`."""

    name: ClassVar[str]
    takes: ClassVar[str] = ""
    """What the set needs to be named by a second word, `models.NAME=`, such as `FILE|STUDY`; "" for nothing."""
    substitutes: ClassVar[tuple[str, ...]] = ()
    """Names of the sets of which the first that has a part stands in for a role in which this one has none."""

    @abstractmethod
    def words(self, role: OpenRole) -> Mapping[str, Any]:
        """Return the words of a command that this set has for a role, ROLE -> part and ROLE.FIELD -> value, or {} if it
        has no part for it."""


class Filling(NamedTuple):
    """What a set of models gives to a role."""

    part: str
    settings: Mapping[str, Any]
    """ROLE.FIELD -> value, not checked yet."""
    instead: str
    """Name of the set that stands in; "" if the part is the set's own."""


def filling(name: str, role: OpenRole) -> Filling | None:
    """Return what a set gives to a role, or a set that stands in for it; None if none of them has a part.

    Raise UserError for an unknown set, and for one whose words are of another role.
    """
    model_set: type[ModelSet] = registry.get("model_set", name)
    for set_name in (name, *model_set.substitutes):
        words = dict(registry.get("model_set", set_name)().words(role))
        if not words:
            continue
        part = words.pop(role.role, None)
        strange = [key for key in words if not key.startswith(f"{role.role}.")]
        if not isinstance(part, str) or strange:
            raise UserError(
                f"models={set_name} gives {[role.role, *words] if part else [*words]} for the role {role.role!r}; "
                f"expected {role.role} -> a part, and {role.role}.FIELD -> values"
            )
        return Filling(part, words, set_name if set_name != name else "")
    return None
