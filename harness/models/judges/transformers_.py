"""The judge `transformers`: a vision-language model on this machine, named by recipe, repository id or local path."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.models.access import Local, sees_nothing, unchoosable
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.judge("transformers")
@dataclass(frozen=True)
class Transformers(Local):
    """Asks a local vision-language model about each clip. P(yes) is the probability of yes divided by that of yes or
    no."""

    model: str = "perception_lm_1b"
    """Recipe, repository id or local path; the weights must be safetensors (VLM-RB, table 3)."""
    revision: str | None = None
    """Branch, tag or commit of the repository; null means its main branch (choice)."""
    prompt: Annotated[str, Text] = ""
    """Question about each clip. A suite's configuration layer sets its own; with an empty prompt the judge cannot run
    (choice)."""
    scoring: Literal["prefill", "logprobs", "literal", "choice"] = "prefill"
    """How yes and no are read. prefill scores the token after "Answer:", logprobs the first yes or no in the generated
    text; literal maps the text to 1 or 0; choice scores the turns "Answer: Yes" and "Answer: No", each to its end
    (choice: VLM-RB, app. E, scores the first token; the prompt asks for "Answer: Yes")."""
    clips: Literal["video", "images"] = "video"
    """Form in which frames are passed; a model without video input gets images (Perception-LM takes a list of frames as
    a video)."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Precision of weights and computation. auto means that of the model's recipe: float32 below a billion parameters,
    bfloat16 above; of a model without a recipe the files here tell the number, else recorded calls tell the precision,
    else it is bfloat16 (choice: most models are published in bfloat16, in which many CPUs are slow)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: the paper's model takes 0.46 s per clip, 45 steps at its 97 steps/s (VLM-RB, tables 5 and 6); 1024 leaves
    room for a queue of 20)."""
    trust_remote_code: bool = False
    """Whether code from the repository may run on this machine with your full permissions (choice: only on request)."""

    version: ClassVar[int] = 2
    title: ClassVar[str] = "a vision-language model that runs here"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        if reason := sees_nothing(self.model) or unchoosable(self.model, self.scoring):
            return reason
        if self.prompt or view.worded(self):
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def ready(self) -> None:
        """Raise UserError for a missing package or files that are not on this machine; load and download nothing."""
        try:
            super().ready()
        except UserError as error:
            reason = f" judge.{error}" if str(error).startswith("model=") else f": {error}"
            doctor = shlex.join(["bench", "doctor", "judge=transformers", f"judge.model={self.model}"])
            raise UserError(
                f"judge=transformers{reason}\n"
                f"`{doctor}` checks it. Without it, judge=openai asks "
                f"a model behind a server, and profile=quick takes a suite's own judge, written by hand, if it has one"
            ) from None

    def spawn_model(self, device: str) -> Model:
        """Return the loaded model; `device` is the worker's. Raise UserError for a missing package, unknown model or
        device."""
        from guidebench.harness.models.backends.transformers_.loaded_model import Source
        from guidebench.harness.models.backends.transformers_.model import TransformersModel

        dtype: Any = self.resolved().dtype
        source = Source(self.model, self.revision, dtype, self.device or device, self.trust_remote_code)
        return TransformersModel(source, self.scoring, self.clips, self.batch_size)
