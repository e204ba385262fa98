"""The embedder `transformers`: a CLIP-like model on this machine, named by recipe, repository id or local path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.models import convert
from guidebench.harness.models.access import Local, sees_nothing
from guidebench.harness.models.backends import recipes
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.embedder("transformers")
@dataclass(frozen=True)
class Transformers(Local):
    """Maps frames and texts to vectors of one space, on this machine."""

    model: str = "clip_vit_l14"
    """Recipe, repository id or local path; the weights must be safetensors (VLM-RM, figure 4: the largest of its four
    CLIPs that has a recipe)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null means its main branch (choice)."""
    dtype: Literal["bfloat16", "float16", "float32"] = "float32"
    """Precision of weights and computation (choice: rewards are small differences between vectors)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (VLM-RM, §3.3: transitions are rewarded before they are learnt from)."""
    trust_remote_code: bool = False
    """Whether code from the repository may run on this machine with your full permissions (choice: only on request)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a model of images and texts that runs here"

    def fits(self, view: CellView) -> str:
        """Return why this embedder cannot be used in the given cell, or ""."""
        if reason := sees_nothing(self.model):
            return reason
        recipe = recipes.recipe(self.model)
        if recipe is None or "embed" in recipe.calls:
            return ""
        return f"its model {self.model!r} ({recipe.title}) embeds nothing; choose another embedder.model, such as clip"

    def dimensions(self) -> int | None:
        """Return the width that the model's recipe states, or the one in the header of a file that `bench models
        convert` made; None if neither states it."""
        if (recipe := recipes.recipe(self.model)) is not None:
            return recipe.width or None
        return convert.width(Path(self.model)) if self.model.endswith(".safetensors") else None

    def spawn_model(self, device: str) -> Model:
        """Return the loaded model; `device` is the worker's. Raise UserError for a missing package, unknown model or
        device."""
        from guidebench.harness.models.backends.transformers_.loaded_model import Source
        from guidebench.harness.models.backends.transformers_.model import TransformersModel

        source = Source(self.model, self.revision, self.dtype, self.device or device, self.trust_remote_code)
        return TransformersModel(source, batch_size=self.batch_size)
