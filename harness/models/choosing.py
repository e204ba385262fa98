"""Forms of answers: the settings by which a chat writes text, writes objects under a JSON schema or chooses among
candidates, and the dialogue that makes such choices.

A part whose dialogue is a `WritesObjects` declares the schemas of the objects that it reads; each of its calls then
carries one, and says that the model is constrained to it. A part whose dialogue is a `ChoosesAnswers` names the
candidates of a question. The chat says how likely it would write each of them (`ChoiceCall`), and the settings here
turn that into the answer. Recorded choices hold none of these settings, so equal questions are answered from one
recording whatever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from guidebench.harness.interfaces.questions import ChecksAnswers, Choice, ChoosesAnswers, WritesObjects
from guidebench.harness.models.calls import AskModel, Call, ChatCall, ChoiceCall, Message, Usage
from guidebench.harness.models.choice_scores import Acting, Scoring, chosen, mass, scored, shares
from guidebench.harness.parts import MESSAGE, SCHEMA, TEXT, AskingPart, ModelPart
from guidebench.harness.settings import Later
from guidebench.harness.types import Array

if TYPE_CHECKING:
    from guidebench.harness.interfaces import Dialogue, Suite

SETTINGS = ("answer", *ModelPart.choice_settings)
"""Settings of `Choosing`."""
NEUTRAL = "neutral_"
"""Beginning of the purpose of the call by which scores are calibrated."""


@dataclass(frozen=True, kw_only=True)
class Choosing(ModelPart):
    """Settings of a chat that writes its answer, or chooses among the candidates that the asking part names."""

    answer: Annotated[Literal["text", "schema", "choice"], Later] = "text"
    """Form of the answers: text that the model writes; an object that it writes under the JSON schema of the asking
    part, so that nothing else can come of it; or the candidate that it finds most likely among those that the asking
    part names, such as the possible actions (choice: text, as in the papers)."""
    candidate_score: Annotated[Scoring, Later] = "sum"
    """With `answer=choice`, score of a candidate: `sum`, the log-probability of its tokens and of the end of the turn
    after it; or `per_token` or `per_byte`, that of its tokens divided by their number, or by that of its bytes (choice:
    the probability of the answer)."""
    calibrate: Annotated[bool, Later] = False
    """With `answer=choice`, whether the score of the same candidate under a question without content is subtracted
    (choice: no; Zhao et al. 2021, "Calibrate before use")."""
    acts: Annotated[Acting, Later] = "argmax"
    """With `answer=choice`, which candidate is chosen: that of the highest score, or one drawn with the probabilities
    of the scores, by a hash of the question and the run's seed (choice: the highest)."""

    @property
    def answer_form(self) -> str:  # type: ignore[override]
        """The setting `answer`."""
        return self.answer

    def sampled(self, call: Call) -> Call:
        """Return a call with this chat's sampling settings, constrained to the schema that it carries where answers are
        objects."""
        call = super().sampled(call)
        if self.answer != SCHEMA or not isinstance(call, ChatCall) or call.schema is None:
            return call
        return replace(call, constrained=True)

    def choice_bound(self, prompt: int) -> Usage:
        """Return an upper bound of one attempt at a choice whose prompt, which lists the candidates, has so many
        bytes."""
        return Usage(1, 2 * prompt + 2 * MESSAGE)

    @property
    def requests(self) -> int:
        """Requests that a choice probably takes."""
        return 1

    def choice_expected(self, usage: Usage) -> Usage:
        """Return the estimated usage of choices, given that of as many answers in text."""
        times = self.requests * (1 + self.calibrate)
        return usage._replace(
            calls=times * usage.calls, tokens_in=times * usage.tokens_in, tokens_out=0,
            images=self.requests * usage.images,
        )  # fmt: skip


class ByChoice:
    """The dialogue in which a model chooses among candidates, by the settings of its role."""

    def __init__(self, dialogue: ChoosesAnswers, model: Choosing, seed: str = "") -> None:
        """`dialogue`: names the candidates and makes the answer; `seed`: the run's seed."""
        self._dialogue, self._model, self._seed = dialogue, model, seed
        self.calls = dialogue.choices * (1 + model.calibrate)

    def of_run(self, run: str) -> ByChoice:
        """Return the dialogue of a run, CELL/SEED, whose draws depend on its seed."""
        return ByChoice(self._dialogue, self._model, run.rpartition("/")[2])

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "", as the asking part's own dialogue
        does."""
        return self._dialogue.misfit(content, frames, answer) if isinstance(self._dialogue, ChecksAnswers) else ""

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Any:
        """Return the answer to a question, as the asking part's own dialogue does."""
        model = self._model

        async def choose(
            message: Message, prefix: str, candidates: Sequence[str], neutral: Message, aim: str = ""
        ) -> Choice | None:
            # Most tokenizers join a space with the word after it.
            call = ChoiceCall((message,), prefix, tuple(f" {candidate}" for candidate in candidates), aim)
            reply = await ask(call)
            if reply.failure:
                return None
            content_free = None
            if model.calibrate:
                neutral_reply = await ask(ChoiceCall((neutral,), prefix, call.candidates, NEUTRAL + aim))
                if neutral_reply.failure:
                    return None
                content_free = neutral_reply.value
            scores = scored(reply.value, call.candidates, model.candidate_score, content_free)
            number = chosen(scores, model.acts, call.request({}, None).key, self._seed)
            return Choice(number, shares(scores), mass(reply.value))

        return await self._dialogue.choose(content, frames, choose)


def dialogue_of(part: AskingPart, suite: Suite, task: str, role: str, model: ModelPart) -> Dialogue:
    """Return the dialogue of a part with the model in a role, in the form of answers that the model's settings
    select."""
    dialogue = part.dialogue(suite, task, role)
    if not isinstance(model, Choosing) or model.answer == TEXT:
        return dialogue
    if model.answer == SCHEMA:
        assert isinstance(dialogue, WritesObjects), "`check` refuses others"
        return dialogue.with_schemas()
    assert isinstance(dialogue, ChoosesAnswers), "`check_form` refuses others"
    return ByChoice(dialogue, model)
