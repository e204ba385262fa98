"""The set `placebo`: in every role, the answers that a model gave to other questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from guidebench.harness.plan.model_sets import PLACEBO, ModelSet, OpenRole
from guidebench.harness.registry import register


@register.model_set(PLACEBO)
class Placebo(ModelSet):
    """Answers that were given to other questions, from the file or study that `models.placebo` names: no information,
    by which the effect of a guide's information is told from that of its mechanism."""

    name: ClassVar[str] = PLACEBO
    takes: ClassVar[str] = "FILE|STUDY"

    def words(self, role: OpenRole) -> Mapping[str, Any]:
        return {role.role: PLACEBO, f"{role.role}.source": role.argument}
