"""The set `paper`: the models that a method's recipe names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from guidebench.harness.plan.model_sets import PAPER, ModelSet, OpenRole
from guidebench.harness.registry import register


@register.model_set(PAPER)
class Paper(ModelSet):
    """The foundation models of the paper, as the method or, for judges of clips, the suite names them."""

    name: ClassVar[str] = PAPER

    def words(self, role: OpenRole) -> Mapping[str, Any]:
        named = role.method_part or role.judge(self.name)
        return {role.role: named} if named else {}
