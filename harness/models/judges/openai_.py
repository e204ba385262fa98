"""The judge `openai`: a vision-language model behind an OpenAI-compatible server, hosted or self-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.models.access import Served, unchoosable
from guidebench.harness.models.backends.answers import BEGUN, YES_OR_NO
from guidebench.harness.models.backends.openai_ import choosing
from guidebench.harness.parts import CHOICE, CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Text, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


@register.judge("openai")
@dataclass(frozen=True)
class OpenAI(Served):
    """Asks a served vision-language model about each clip. P(yes) is the probability of yes divided by that of yes or
    no, or 0 or 1 from the text of the answer where the server returns no log-probabilities."""

    model: str = "gpt-4o-mini"
    """Recipe, or the server's name of the model (choice: the cheapest model with log-probabilities that a paper
    uses)."""
    prompt: Annotated[str, Text] = ""
    """Question about each clip. A suite's configuration layer sets its own; with an empty prompt the judge cannot run
    (choice)."""
    scoring: Literal["prefill", "logprobs", "literal", "choice"] = "logprobs"
    """How yes and no are read. prefill scores the token after "Answer:" and needs a server that continues a final
    message (vLLM); logprobs scores the first yes or no in the generated text; literal maps the text to 1 or 0 and works
    with any server; choice scores "Answer: Yes" and "Answer: No" as `choice_by` says (choice: hosted servers do not
    continue a message)."""
    detail: Literal["low", "high", "auto"] = "low"
    """Image resolution that a hosted model uses and charges for; other servers ignore it (choice: rendered frames are
    small)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: equal to the judge transformers, so that only the answers differ)."""

    choice_by: Annotated[Literal["prompt", "label"] | None, Later] = None
    """With `scoring=choice`, how the server says whether yes or no is likelier: `prompt`, by the log-probabilities of
    prompts that hold the answers (vLLM's `prompt_logprobs`); `label`, by those of letters under which the answers are
    listed. null for other scorings (choice: servers differ too much for a default)."""
    rotations: Annotated[int, Bounds(1, len(YES_OR_NO)), Unit("orders"), Later] = 2
    """With `choice_by=label`, orders in which yes and no are listed; each is a request, and the mean of their
    probabilities counts (choice: models prefer some places in a list)."""

    version: ClassVar[int] = 2
    title: ClassVar[str] = "a vision-language model behind a server"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        if reason := unchoosable(self.model, self.scoring) or self._contradiction():
            return reason
        if self.prompt or view.worded(self):
            return ""
        return "it has no prompt there; `bench models prompt suite=…` drafts one, to be given as judge.prompt=…"

    def _contradiction(self) -> str:
        """Return why the settings for choices contradict each other, or ""."""
        if self.scoring == CHOICE and self.choice_by is None:
            return (
                "scoring=choice needs judge.choice_by: prompt for vLLM, label for servers that return top_logprobs; "
                "with others, scoring=literal reads the answer"
            )
        if self.scoring != CHOICE and self.choice_by is not None:
            return f"judge.choice_by={self.choice_by} is for scoring=choice; leave it out, or set judge.scoring=choice"
        if self.choice_by != "label" and self.rotations != type(self).rotations:
            return f"judge.rotations={self.rotations} is for choice_by=label; leave it out"
        return ""

    @property
    def clip_requests(self) -> int:  # type: ignore[override]
        """Requests that a judgement takes."""
        return 1 if self._ways is None else self._ways.requests(len(YES_OR_NO))

    @property
    def clip_words(self) -> int:  # type: ignore[override]
        """Bytes of the list of labels, or of an answer that stands in the prompt."""
        labels = choosing.list_labels(BEGUN, choosing.names_of(YES_OR_NO))
        words = {"label": labels, "prompt": max(YES_OR_NO, key=len)}
        return len(words.get(self.choice_by or "", "").encode())

    @property
    def _ways(self) -> choosing.Choosing | None:
        return None if self.choice_by is None else choosing.Choosing(self.choice_by, self.rotations)

    def spawn_model(self, device: str) -> Model:
        """Return the model. `device` is ignored, since the server computes. Raise UserError for a missing package, key
        or address."""
        from guidebench.harness.models.backends.openai_.model import OpenAIModel

        return OpenAIModel(self.model, self.server(), self.scoring, self.detail, self.prices(), self._ways)
