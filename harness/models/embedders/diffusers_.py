"""The embedder `diffusers`: a text-to-image diffusion model on this machine, which tells how well it denoises frames.

It embeds nothing; it fills the role because what it answers is an array for each frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.models.access import Local
from guidebench.harness.models.backends import recipes
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.embedder("diffusers")
@dataclass(frozen=True)
class Diffusers(Local):
    """Tells how well a latent diffusion model predicts the noise in frames, with and without a text."""

    model: str = "sd-2.1-base"
    """Recipe, repository id or local path of a pipeline that predicts noise; the weights must be safetensors (TADPoLe,
    released code)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null means its main branch (choice)."""
    dtype: Literal["bfloat16", "float16", "float32"] = "float32"
    """Precision of weights and computation (TADPoLe, released code, unless told to halve it)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (TADPoLe rewards transitions before they are learnt from)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a text-to-image diffusion model that runs here"
    answers: ClassVar[tuple[str, ...]] = ("denoise",)

    def fits(self, view: CellView) -> str:
        """Return why this model cannot be used in the given cell, or ""."""
        recipe = recipes.recipe(self.model)
        if recipe is None or "denoise" in recipe.calls:
            return ""
        return f"its model {self.model!r} ({recipe.title}) is no diffusion model; choose sd-2.1-base"

    def ready(self) -> None:
        """Raise UserError for a missing package, files that are not on this machine, or other files than those of
        `digest`; load and download nothing."""
        from guidebench.harness.models.backends.diffusers_.loading import check_packages

        check_packages()
        super().ready()

    def spawn_model(self, device: str) -> Model:
        """Return the loaded model; `device` is the worker's. Raise UserError for a missing package, unknown model or
        device."""
        from guidebench.harness.models.backends.diffusers_.model import DiffusersModel
        from guidebench.harness.models.backends.transformers_.loaded_model import Source

        source = Source(self.model, self.revision, self.dtype, self.device or device)
        return DiffusersModel(source, batch_size=self.batch_size)
