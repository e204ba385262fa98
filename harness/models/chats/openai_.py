"""The chat `openai`: a language model behind an OpenAI-compatible server, hosted or self-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.models.access import Served, Writing
from guidebench.harness.models.backends.answers import OUR_WORDS
from guidebench.harness.models.backends.openai_ import choosing
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.calls.choice import MOST_CANDIDATES
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.models.reasoning import Reasoning
from guidebench.harness.parts import CHOICE, MESSAGE, CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Model


CANDIDATES, ENUMERATED = 12, 16
"""Candidates of a choice, and tokens of an object that names one, for estimates (choice: actions of Crafter)."""


@register.chat("openai")
@dataclass(frozen=True)
class OpenAI(Served, Choosing, Reasoning, Writing):
    """Asks a served language model and returns its text as the answer, or how likely it says each of some
    candidates."""

    model: str = "gpt-4o-mini"
    """Recipe, or the server's name of the model (RL-SaLLM-F, §6.2: gpt-4o-mini-2024-07-18, to which the recipe
    resolves)."""
    detail: Literal["low", "high", "auto"] = "low"
    """Image resolution that a hosted model uses and charges for; other servers ignore it (choice: rendered frames are
    small)."""

    choice_by: Annotated[choosing.ChoiceBy | None, Later] = None
    """With `answer=choice`, how the server says which candidate is likely: `prompt`, by the log-probabilities of
    prompts that hold the candidates (vLLM's `prompt_logprobs`); `label`, by those of letters under which at most 20
    candidates are listed; `enum`, by writing the chosen candidate alone, without probabilities. null for a chat that
    answers in text (choice: servers differ too much for a default)."""
    rotations: Annotated[int, Bounds(1, len(choosing.LABELS)), Unit("orders"), Later] = 4
    """With `choice_by=label`, orders in which the candidates are listed, evenly spaced among their rotations; each is a
    request, and the mean of their probabilities counts (choice: models prefer some places in a list)."""

    constrains: ClassVar[bool] = True
    choice_settings: ClassVar[tuple[str, ...]] = (*Choosing.choice_settings, "choice_by", "rotations")
    answers: ClassVar[tuple[str, ...]] = (*Served.answers, "choice")
    version: ClassVar[int] = 1
    title: ClassVar[str] = "a language model behind a server"
    section: ClassVar[str] = "chat"

    @property
    def unweighed(self) -> str:
        """The setting by which answers hold the chosen candidate and no probabilities, or ""."""
        return "choice_by=enum" if self.choice_by == "enum" else ""

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot be used in the given cell, or ""."""
        if self.answer == CHOICE and (reason := self._unchoosable()):
            return reason
        return super().fits(view)

    def _unchoosable(self) -> str:
        """Return why the settings for choices contradict each other, or ""."""
        if self.choice_by is None:
            return (
                "answer=choice needs chat.choice_by: prompt for vLLM, label for servers that return top_logprobs, enum "
                "for others"
            )
        if self.choice_by != "label" and self.rotations != type(self).rotations:
            return f"chat.rotations={self.rotations} is for choice_by=label; leave it out"
        if self.choice_by != "prompt" and self.candidate_score != "sum":
            return (
                f"chat.candidate_score={self.candidate_score} divides by the length of a candidate, whose own tokens "
                f"choice_by={self.choice_by} does not score; leave it out, or set chat.choice_by=prompt"
            )
        if self.choice_by == "enum" and (self.calibrate or self.acts == "sample"):
            setting = "calibrate=true" if self.calibrate else "acts=sample"
            return (
                f"chat.{setting} needs the candidates' probabilities, and choice_by=enum tells none; leave it out, or "
                f"set chat.choice_by=label or prompt"
            )
        return ""

    @property
    def requests(self) -> int:
        ways = {"label": self.rotations, "prompt": CANDIDATES + 2}
        return ways.get(self.choice_by or "", 1)

    def choice_expected(self, usage: Usage) -> Usage:
        """Return the estimated usage of choices, each request of which writes a token, or with `enum` a candidate."""
        expected = super().choice_expected(usage)
        return expected._replace(tokens_out=expected.calls * (ENUMERATED if self.choice_by == "enum" else 1))

    def choice_bound(self, prompt: int) -> Usage:
        """Return an upper bound of one attempt at a choice, as `Choosing.choice_bound`."""
        if self.choice_by is None:
            return super().choice_bound(prompt)
        candidates = min(MOST_CANDIDATES, prompt // 2)  # each takes a letter and what separates it from the next one
        requests = choosing.Choosing(self.choice_by, self.rotations).requests(candidates)
        read, written = 2 * prompt + OUR_WORDS + 2 * MESSAGE, 1
        if self.choice_by == "enum":  # the schema quotes the candidates, in the prompt and beside it
            read, written = read + 6 * prompt, choosing.WRITTEN + 6 * prompt
        reread = requests * (requests - 1) // 2 * (written + OUR_WORDS) if self.choice_by == "enum" else 0
        return Usage(requests, requests * read + reread, requests * written)

    def ready(self) -> None:
        """Raise UserError for a missing package, key or address. Sends no call."""
        try:
            super().ready()
        except UserError as error:
            raise UserError(
                f"chat 'openai' ({self.model}) cannot be asked: {error}; or choose chat=transformers, a model that "
                f"runs here, or, for teacher=llm, chat=scripted, hand-written, which needs neither key nor weights"
            ) from None

    def spawn_model(self, device: str) -> Model:
        """Return the model. `device` is ignored, since the server computes. Raise UserError for a missing package, key
        or address."""
        from guidebench.harness.models.backends.openai_.model import OpenAIModel

        ways = None if self.choice_by is None else choosing.Choosing(self.choice_by, self.rotations)
        return OpenAIModel(
            self.model, self.server(), detail=self.detail, prices=self.prices(), choosing=ways, thinking=self.thinking
        )
