"""The judge `transformers`: a vision-language model that runs here, by recipe, repository id or local path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.models.access import Local
from guidebench.harness.parts import There
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.judge("transformers")
@dataclass(frozen=True)
class Transformers(Local):
    """Asks a vision-language model about each clip: P(yes) is the share of yes in the yes and no that it would say."""

    model: str = "perception_lm_1b"
    """Recipe, repository id or local path; weights are safetensors (VLM-RB, table 3)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null is its main branch (choice)."""
    prompt: Annotated[str, Text] = ""
    """What is asked about a clip; a suite's own stands in its layer, and an empty one cannot judge (choice)."""
    scoring: Literal["prefill", "logprobs", "literal"] = "prefill"
    """Where yes and no are read: prefill scores what follows "Answer:", logprobs the first yes or no that the model
    says by itself, literal takes its text for 1 or 0 (choice: VLM-RB, app. E, scores the first token; the prompt asks
    for "Answer: Yes")."""
    clips: Literal["video", "images"] = "video"
    """How frames are shown; a model that takes no videos is shown images (Perception-LM, a video for frame lists)."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Of weights and computation (choice: as most models are published)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: the paper's model needs .46 s a clip, 45 steps at its 97 steps/s (VLM-RB, tables 5 and 6); 1024 leaves
    room for a queue of 20)."""
    trust_remote_code: bool = False
    """Whether code that comes with the repository may run here, with all your rights (choice: never unasked)."""

    version: ClassVar[int] = 2
    title: ClassVar[str] = "a vision-language model that runs here"

    def fits(self, there: There) -> str:
        """Why this judge cannot answer there, or ""."""
        if self.prompt:
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def ready(self) -> None:
        """UserError for a missing package, or files that are not on this machine; nothing is loaded or downloaded."""
        try:
            super().ready()
        except UserError as error:
            raise UserError(
                f"judge=transformers judge.{error}\n"
                f"`bench doctor judge=transformers judge.model={self.model}` checks it. Without it, judge=openai asks "
                f"a model behind a server, and profile=quick takes a suite's own judge, written by hand, if it has one"
            ) from None

    def spawn_model(self, device: str) -> Model:
        """The model, loaded; `device` is the worker's. UserError for a missing package, an unknown model or device."""
        from guidebench.harness.models.backends.transformers_.loaded import Source
        from guidebench.harness.models.backends.transformers_.model import TransformersModel

        source = Source(self.model, self.revision, self.dtype, self.device or device, self.trust_remote_code)
        return TransformersModel(source, self.scoring, self.clips, self.batch_size)
