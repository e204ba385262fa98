"""The embedders that segment images and follow objects: the roles `segmenter` and `tracker` mean them by
`segmenter=transformers` and `tracker=transformers`.

They embed nothing; they are registered as embedders because their answers are about the pixels of a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.models.access import Local, sees_nothing
from guidebench.harness.models.backends import recipes
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.embedder("transformers_segmenter")
@dataclass(frozen=True)
class Segmenter(Local):
    """Gives the masks of what an image shows at points, by SAM 2 on this machine."""

    model: str = "sam2"
    """Recipe, repository id or local path of a SAM 2; the weights must be safetensors (KAGI, §III-B: SAM 2)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null means its main branch (choice)."""
    dtype: Literal["bfloat16", "float16", "float32"] = "float32"
    """Precision of weights and computation (choice: a threshold decides each pixel)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (choice: keypoints are needed before the episode is rewarded)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "SAM 2, which segments images here"
    answers: ClassVar[tuple[str, ...]] = ("segment",)

    def fits(self, view: CellView) -> str:
        """Return why this model cannot be used in the given cell, or ""."""
        if reason := sees_nothing(self.model):
            return reason
        recipe = recipes.recipe(self.model)
        if recipe is None or self.answers[0] in recipe.calls:
            return ""
        return f"its model {self.model!r} ({recipe.title}) answers no call of kind {self.answers[0]!r}; choose sam2"

    def spawn_model(self, device: str) -> Model:
        """Return the loaded model; `device` is the worker's. Raise UserError for a missing package, unknown model or
        device."""
        from guidebench.harness.models.backends.transformers_.loaded_model import Source
        from guidebench.harness.models.backends.transformers_.segmenting import SegmentingModel

        source = Source(self.model, self.revision, self.dtype, self.device or device)
        return SegmentingModel(source, self.answers[0], batch_size=self.batch_size)  # type: ignore[arg-type]


@register.embedder("transformers_tracker")
@dataclass(frozen=True)
class Tracker(Segmenter):
    """Follows the object at a point of a video's first frame, by SAM 2's network for videos on this machine (choice:
    KAGI names CoTracker, which transformers lacks)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "SAM 2, which follows objects in videos here"
    answers: ClassVar[tuple[str, ...]] = ("track",)
