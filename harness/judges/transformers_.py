"""The judge `transformers`: a vision-language model that runs here, by recipe, repository id or local path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from harness.interfaces import Suite
from harness.registry import register
from harness.settings import Bounds, Text, Transport, Unit

if TYPE_CHECKING:
    from harness.foundation.calls import Model
    from harness.foundation.desk import Policy


@register.judge("transformers")
@dataclass(frozen=True)
class Transformers:
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
    device: Annotated[str | None, Transport] = None
    """Where it runs: cpu, cuda, cuda:1, …; null is the worker's own device (choice)."""
    batch_size: Annotated[int | None, Bounds(1), Unit("clips"), Transport] = None
    """The most clips computed together; null finds what fits into memory (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("clips"), Transport] = 64
    """Clips sent to it at a time, of which batches are made (choice: as many as the largest batch)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 600.0
    """How long one clip may take, its place in the queue included (choice: ample for a large model on a CPU)."""
    attempts: Annotated[int, Bounds(1), Transport] = 2
    """Times that a clip is asked about before it counts as failed (choice: a local model fails alike twice)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = """@inproceedings{wolf2020transformers,
  title = {Transformers: State-of-the-Art Natural Language Processing},
  author = {Wolf, Thomas and Debut, Lysandre and Sanh, Victor and Chaumond, Julien and Delangue, Clement and Moi,
    Anthony and Cistac, Pierric and Rault, Tim and Louf, R\\'emi and Funtowicz, Morgan and Davison, Joe and Shleifer,
    Sam and von Platen, Patrick and Ma, Clara and Jernite, Yacine and Plu, Julien and Xu, Canwen and Le Scao, Teven
    and Gugger, Sylvain and Drame, Mariama and Lhoest, Quentin and Rush, Alexander M.},
  booktitle = {Proceedings of the 2020 Conference on Empirical Methods in Natural Language Processing: System
    Demonstrations},
  pages = {38--45},
  year = {2020}
}"""
    backend: ClassVar[str] = "transformers"
    privileged: ClassVar[bool] = False
    title: ClassVar[str] = "a vision-language model that runs here"

    def fits(self, suite: Suite) -> str:
        """Why this judge cannot answer there, or ""."""
        if self.prompt:
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def ready(self) -> None:
        """UserError for a missing package, or a path at which nothing lies; nothing is loaded."""
        from harness.foundation.backends.transformers_.loading import check

        check(self.model)

    def spawn_model(self, device: str) -> Model:
        """The model, loaded; `device` is the worker's. UserError for a missing package, an unknown model or device."""
        from harness.foundation.backends.transformers_.loading import Source
        from harness.foundation.backends.transformers_.model import TransformersModel

        source = Source(self.model, self.revision, self.dtype, self.device or device, self.trust_remote_code)
        return TransformersModel(source, self.scoring, self.clips, self.batch_size)

    def policy(self) -> Policy:
        """How often and how long it is asked."""
        from harness.foundation.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)
