"""Decoding under a JSON schema: at each step the model chooses among the tokens with which its object can go on.

llguidance says which tokens those are. Which of them is chosen follows from the call alone: a call is decoded alone,
and a grammar has no state but the tokens that were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.grammars import grammar_of
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.models.backends.transformers_.rendering import end_tokens
from guidebench.harness.models.calls import Json


class DeadEnd(ValueError):
    """No token continues what was written."""


class Grammars:
    """The grammars of schemas over the tokens of one model."""

    def __init__(self, loaded: LoadedModel) -> None:
        """Raise UserError for a model that names no token for the end of its turn, and for one whose tokenizer
        llguidance cannot read."""
        self.ends = [end for end in end_tokens(loaded) or [loaded.tokenizer.eos_token_id] if end is not None]
        if not self.ends:
            raise UserError(
                f"model {loaded.name!r} names no token that ends its turn (eos_token_id), so it cannot end an object; "
                f"add it to the model's generation_config.json"
            )
        self._loaded = loaded
        self._tokens: Any = None

    def constraint(self, schema: Mapping[str, Json], begun: int) -> Constraint:
        """Return the constraint of an object that follows `begun` tokens; raise UserError as `grammar_of` does."""
        grammar = grammar_of(schema)
        from llguidance import LLMatcher

        if self._tokens is None:
            self._tokens = self._read_tokens()
        return Constraint(LLMatcher(self._tokens, grammar), begun)

    def _read_tokens(self) -> Any:
        from llguidance.hf import from_tokenizer

        try:
            return from_tokenizer(self._loaded.tokenizer, eos_token=self.ends)
        except Exception as error:  # its own errors are plain ones
            raise UserError(
                f"the tokenizer of model {self._loaded.name!r} cannot be constrained ({type(error).__name__}: "
                f"{error}); leave answer=schema out, or choose another model"
            ) from None


class Constraint:
    """Leaves, of the tokens that may come next in a chat, those that continue its object (a processor of logits)."""

    def __init__(self, matcher: Any, begun: int) -> None:
        """`matcher`: of the grammar; `begun`: tokens of the prompt, after which the object begins."""
        self._matcher, self._read = matcher, begun

    @property
    def complete(self) -> bool:
        """Whether the tokens that were read make an object of the schema."""
        return bool(self._matcher.is_accepting())

    def read(self, tokens: torch.Tensor) -> None:
        """Read what was written since the last time. `tokens`: int64 [n] of the prompt and all that follows it. Raise
        DeadEnd for a token that does not continue the object."""
        for token in tokens[self._read :].tolist():
            if self._matcher.is_stopped():
                break  # the end of the turn follows
            if not self._matcher.consume_token(token):
                raise DeadEnd(f"the token {token} does not continue the object")
        self._read = len(tokens)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores [1, vocabulary] that are -inf for all tokens with which the object cannot go on. Raise DeadEnd
        if there is no other."""
        self.read(input_ids[0])
        fits = self._fitting(scores.shape[-1]).to(scores.device)
        if not bool((fits & (scores[0] > -torch.inf)).any()):
            raise DeadEnd("none of the model's tokens continues the object")
        return scores.masked_fill(~fits, -torch.inf)

    def _fitting(self, width: int) -> torch.Tensor:
        """Return whether each of `width` tokens continues the object, bool [width]."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise DeadEnd(str(self._matcher.get_error()).partition("\n")[0])
        fits = np.zeros(width, bool)
        allowed = np.unpackbits(bits, bitorder="little")[:width]
        fits[: len(allowed)] = allowed
        return torch.from_numpy(fits)
