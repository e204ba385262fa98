"""Reasoning before an answer: the switch of a chat template, and tokens between a pair of marks.

Templates of models such as Qwen3's take `enable_thinking`. The reasoning stands between `OPENED` and `CLOSED`, at the
beginning of the model's turn; it is begun for the model, and closed after a number of tokens if the model does not
close it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.models.backends.transformers_.rendering import decode_generated, tokens_of
from guidebench.harness.models.backends.transformers_.templates import template_of
from guidebench.harness.models.reasoning import CLOSED, OFF, OPENED, Thinking

ENDING = f"\n{CLOSED}\n\n"
"""What closes the reasoning."""
LEAST_ANSWER = 16
"""Tokens that are kept for an answer after the reasoning, near the end of the context (choice)."""
SWITCH = "enable_thinking"
"""Name of the variable of a chat template that has the model reason or not."""


class Reasoned(NamedTuple):
    """A text that goes on with the model's reasoning."""

    text: str
    """The rendered text, the reasoning and its end: what the answer follows."""
    reasoning: str
    tokens: int


def check(loaded: LoadedModel, thinking: Thinking) -> None:
    """Raise UserError if a model's chat template cannot do what the setting `thinking` says."""
    template = template_of(loaded) or ""
    if thinking is None or (thinking == OFF and SWITCH not in template and OPENED not in template):
        return
    if SWITCH not in template or (thinking != OFF and CLOSED not in template):
        reasons = "has it always reason" if OPENED in template else f"has no {SWITCH} with {OPENED} and {CLOSED}"
        raise UserError(
            f"chat.thinking={thinking}: the chat template of model {loaded.name!r} {reasons}; leave chat.thinking out, "
            f"or choose another model"
        )


def switched(thinking: Thinking) -> dict[str, bool]:
    """Return the variable of a chat template by which a model reasons or not; none if its template decides."""
    return {} if thinking is None else {SWITCH: thinking != OFF}


def reasoned(
    loaded: LoadedModel,
    texts: Sequence[str],
    images: Sequence[Sequence[Array]],
    tokens: int,
    sampling: Mapping[str, Any],
) -> list[Reasoned]:
    """Return each rendered text followed by at most so many tokens of reasoning and its end. `images`: those of each
    text; `sampling`: arguments of `generate`."""
    begun = [text if text.rstrip().endswith(OPENED) else f"{text}{OPENED}\n" for text in texts]
    inputs = tokens_of(loaded, begun, images)
    length, limit = inputs["input_ids"].shape[1], loaded.context
    room = None if limit is None else limit - length - LEAST_ANSWER
    tokens = tokens if room is None else max(1, min(tokens, room))
    words: torch.Tensor = loaded.model.generate(
        **inputs, max_new_tokens=tokens, stop_strings=[CLOSED], tokenizer=loaded.tokenizer, **sampling
    )[:, length:]
    reasonings = []
    for text, (written, count, _) in zip(begun, decode_generated(loaded, words), strict=True):
        reasoning = written.partition(CLOSED)[0].strip()
        while room is not None and reasoning and _count(loaded, f"{reasoning}{ENDING}") > room:
            reasoning = reasoning[: len(reasoning) * 3 // 4]
        reasonings.append(Reasoned(f"{text}{reasoning}{ENDING}", reasoning, min(count, tokens)))
    return reasonings


def _count(loaded: LoadedModel, text: str) -> int:
    return len(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])
