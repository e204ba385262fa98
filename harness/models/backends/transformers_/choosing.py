"""Choosing among candidates: log p of each candidate's tokens as the rest of a chat's answer, and of the turn's end.

There are three ways, of which a model takes the first that reproduces the last for a fixed call:

| way | for | computes |
| --- | --- | --- |
| branched | texts, in networks whose layers attend to all tokens | the prompt's chunks, kept across calls; one pass |
| continued | images, and other networks | the prompt once, continued by `PART` candidates at a time |
| alone | all | each candidate with the whole prompt |

The one pass of `branched` goes over what follows the kept chunks (`prefixes.py`) and over all candidates as branches.

A call is computed alone and in parts that follow from it, so its answer depends neither on what else waits nor on what
was asked before.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.answers import choice_of, yes_share
from guidebench.harness.models.backends.transformers_ import reasoning
from guidebench.harness.models.backends.transformers_.batching import Batcher, out_of_memory
from guidebench.harness.models.backends.transformers_.judging import Clips, check_vision, noise, reads_videos
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.models.backends.transformers_.prefixes import Prefixes, last_logits, repeated
from guidebench.harness.models.backends.transformers_.rendering import (
    end_tokens,
    frames_of,
    parts_of,
    readable_images,
    render,
    tokens_of,
)
from guidebench.harness.models.calls import ChoiceCall, JudgeCall, Message, Reply, Usage
from guidebench.harness.models.reasoning import Thinking

PART = 16
"""Candidates that are computed together (choice: each takes a copy of the prompt's keys and values)."""
PREFIX, FIXED = "Answer:", (" yes", " no, it is not so", " no, but it may be")
"""Beginning of the answer and candidates of the fixed call: with a space before a word, which tokenizers join with the
word, and not with what stands before it."""
LONGER = 24
"""Times that the fixed call without an image repeats its question, so that its prompt has kept chunks."""
TAIL = 16
"""Tokens of the prompt that are decoded with a candidate to see that its tokens are its own."""
TYPES = ("mm_token_type_ids", "token_type_ids")
"""Inputs that say of each token whether it is text, which is 0."""
Tokens = list[int]
Way = Literal["branched", "continued", "alone"]
Form = Literal["text", "images", "video"]
"""Form of a call's question: text alone, with images, or with a clip that the model reads as a video."""


class Choice(NamedTuple):
    """The prompt of a call, tokenised for the model, and the tokens of each candidate."""

    inputs: Mapping[str, Any]
    candidates: list[Tokens]

    @property
    def length(self) -> int:
        """Return the tokens of the prompt."""
        return int(self.inputs["input_ids"].shape[1])


class Tree(NamedTuple):
    """Tokens of candidates, each once for all candidates that begin alike up to it."""

    tokens: Tokens
    depths: torch.Tensor
    """Tokens of the candidate before each of `tokens`, int64 [tokens]."""
    sees: torch.Tensor
    """Whether a token sees another: itself and those before it in its candidate, bool [tokens, tokens]."""
    paths: list[list[int]]
    """Numbers of each candidate's tokens."""

    @classmethod
    def of(cls, candidates: Sequence[Tokens]) -> Tree:
        """Return the tree of candidates.

        >>> tree = Tree.of([[5, 6], [5, 7]])
        >>> tree.tokens, tree.depths.tolist(), tree.paths
        ([5, 6, 7], [0, 1, 1], [[0, 1], [0, 2]])
        """
        numbers: dict[tuple[int, ...], int] = {}
        for tokens in candidates:
            for length in range(1, 1 + len(tokens)):
                numbers.setdefault(tuple(tokens[:length]), len(numbers))
        sees = torch.eye(len(numbers), dtype=torch.bool)
        for path, number in numbers.items():
            if len(path) > 1:
                sees[number] |= sees[numbers[path[:-1]]]
        paths = [[numbers[tuple(tokens[:length])] for length in range(1, 1 + len(tokens))] for tokens in candidates]
        depths = torch.tensor([len(path) - 1 for path in numbers])
        return cls([path[-1] for path in numbers], depths, sees, paths)


class Choosing:
    """Scores the candidates of calls."""

    def __init__(
        self, loaded: LoadedModel, batcher: Batcher, clips: Clips = "images", thinking: Thinking = None
    ) -> None:
        """`clips`: form in which the frames of a judged clip are passed, to a model that reads videos; `thinking`: the
        chat's setting. Raise UserError for a model that writes no text, one that names no token for the end of its
        turn, and one that would reason first."""
        if loaded.kind == "embedding":
            raise UserError(
                f"model {loaded.name!r} writes no text, so it chooses among none; choose one for text-generation or "
                f"image-text-to-text"
            )
        reasoning.check(loaded, thinking)
        self._loaded, self._batcher, self._thinking = loaded, batcher, thinking
        self._ends = end_tokens(loaded) or [loaded.tokenizer.eos_token_id]
        if None in self._ends:
            raise UserError(
                f"model {loaded.name!r} names no token that ends its turn (eos_token_id), so it cannot choose among "
                f"candidates; add it to the model's generation_config.json"
            )
        self._prefixes = Prefixes(loaded.model)
        self._as_video = clips == "video" and reads_videos(loaded)
        self._ways: dict[Form, Way] = {}
        """The way for calls of a form. Fixed calls decide, so that no call is computed differently from others because
        it was the first after a start."""

    async def answer(self, call: ChoiceCall) -> Reply:
        """Return the log-probabilities, float32 [candidates, 3]. Tokens in are those of the prompt and of all
        candidates; none are written."""
        output = await self._batcher.put("choice", self._score, call, filled=False)
        scores, tokens = output.value
        return Reply(scores, Usage(1, tokens, images=len(call.images()), seconds=output.seconds))

    async def judge(self, call: JudgeCall) -> Reply:
        """Return P(yes) of a clip, the share of yes in the probability of yes and no as the model's turn. Raise
        UserError for a model that reads no images."""
        check_vision(self._loaded)
        output = await self._batcher.put("choice", self._score, call, filled=False)
        scores, tokens = output.value
        p_yes, mass = yes_share(scores)
        return Reply(p_yes, Usage(1, tokens, images=len(call.clip), seconds=output.seconds), {"mass": mass})

    def choice(self, call: ChoiceCall | JudgeCall) -> Choice:
        """Return the tokens of a call. Raise UserError for a candidate that has no tokens of its own, one that exceeds
        the context length together with the prompt, and images that the model does not read."""
        if isinstance(call, ChoiceCall):
            return self._choice(call)
        return self._choice(choice_of(call), call.clip if self._as_video else None)

    def _choice(self, call: ChoiceCall, video: Array | None = None) -> Choice:
        """Return the tokens of a call, whose images are passed as a `video`, uint8 [L, height, width, 3], if given."""
        loaded, images = self._loaded, readable_images(self._loaded, call.messages)
        conversation = [_conversed(message, video is not None) for message in call.messages]
        text = render(loaded, conversation, **reasoning.switched(self._thinking)) + call.prefix
        candidates = continuations(loaded.tokenizer, text, call.candidates, loaded.name)
        inputs = tokens_of(loaded, [text], [images]) if video is None else frames_of(loaded, [text], [video], True)
        choice = Choice(inputs, candidates)
        longest, limit = max(map(len, candidates)), loaded.context
        if limit is not None and choice.length + longest > limit:
            named = call.candidates[[*map(len, candidates)].index(longest)]
            raise UserError(
                f"a prompt of {choice.length} tokens and its candidate {named[:80]!r} of {longest} tokens are more "
                f"than the {limit} that model {loaded.name!r} reads; shorten one of them"
            )
        return choice

    def branched(self, choice: Choice) -> torch.Tensor:
        """Return the log-probabilities float32 [candidates, 2] from one pass over what follows the kept chunks of the
        prompt: its rest, and the tree of the candidates' tokens, each of which sees the prompt and those before it."""
        model, prompt = self._loaded.model, choice.inputs["input_ids"][0].tolist()
        cache, start = self._prefixes.cache(prompt)
        rest, tree = prompt[start:], Tree.of(choice.candidates)
        count, size = len(rest), len(rest) + len(tree.tokens)
        sees = torch.ones((size, size), dtype=torch.bool).tril()
        sees[count:, count:] = tree.sees
        mask = torch.zeros((1, 1, size, start + size), dtype=model.dtype)
        mask[..., start:].masked_fill_(~sees, torch.finfo(model.dtype).min)
        places = torch.cat([torch.arange(start, choice.length), choice.length + tree.depths])
        logits = model(
            input_ids=torch.tensor([rest + tree.tokens]).to(model.device), attention_mask=mask.to(model.device),
            position_ids=places[None].to(model.device), past_key_values=cache, use_cache=True,
            **last_logits(model, 1 + len(tree.tokens)),
        ).logits[0, -1 - len(tree.tokens) :].float()  # fmt: skip
        paths = ([0, *(1 + node for node in path)] for path in tree.paths)
        return torch.stack([
            self._read(logits[path], tokens) for path, tokens in zip(paths, choice.candidates, strict=True)
        ])  # fmt: skip

    def continued(self, choice: Choice) -> torch.Tensor:
        """Return the log-probabilities float32 [candidates, 2] from one computation of the prompt."""
        model, inputs, count = self._loaded.model, choice.inputs, choice.length
        output = model(**inputs, **last_logits(model, 1), use_cache=True)
        first, following = output.logits[0, -1:].float(), self._following(inputs)
        rows: list[torch.Tensor] = []
        for start in range(0, len(choice.candidates), PART):
            part = choice.candidates[start : start + PART]
            longest = max(map(len, part))
            ids = torch.tensor([tokens + [tokens[-1]] * (longest - len(tokens)) for tokens in part])
            present = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens in part])
            mask = torch.cat([torch.ones((len(part), count), dtype=present.dtype), present], 1)
            more = {}
            if following is not None:
                positions = torch.arange(following, following + longest, device=model.device)
                more["position_ids"] = positions.expand(3, len(part), longest)
            cache = repeated(output.past_key_values, len(part))
            logits = model(
                input_ids=ids.to(model.device), attention_mask=mask.to(model.device), past_key_values=cache,
                use_cache=True, **more,
            ).logits  # fmt: skip
            rows += [
                self._read(torch.cat([first, row[: len(tokens)].float()]), tokens)
                for row, tokens in zip(logits, part, strict=True)
            ]
        return torch.stack(rows)

    def alone(self, choice: Choice) -> torch.Tensor:
        """Return the log-probabilities float32 [candidates, 2], each candidate computed whole and without a cache."""
        model, inputs, rows = self._loaded.model, choice.inputs, []
        for tokens in choice.candidates:
            more = torch.tensor([tokens], device=model.device)
            ids = torch.cat([inputs["input_ids"], more], 1)
            types = {name: torch.cat([inputs[name], 0 * more], 1) for name in TYPES if name in inputs}
            full_inputs = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids), **types}
            logits = model(**full_inputs, **last_logits(model, 1 + len(tokens)), use_cache=False).logits[
                0, -1 - len(tokens) :
            ]
            rows.append(self._read(logits.float(), tokens))
        return torch.stack(rows)

    def _score(self, calls: Sequence[ChoiceCall | JudgeCall]) -> list[tuple[Array, int]]:
        """Return the answer to each call, and the tokens that it takes."""
        answers = []
        for call in calls:
            choice = self.choice(call)
            form: Form = "text"
            if call.images():
                form = "video" if isinstance(call, JudgeCall) and self._as_video else "images"
            if form not in self._ways:
                self._ways[form] = self._way(form)
            scores: torch.Tensor = getattr(self, self._ways[form])(choice)
            counts = np.array([*map(len, choice.candidates)], np.float32)
            answer = np.concatenate([scores.cpu().numpy(), counts[:, None]], 1, dtype=np.float32)
            answers.append((answer, choice.length + int(counts.sum())))
        return answers

    def _way(self, form: Form) -> Way:
        """Return the first way that reproduces the computation of each candidate alone for a fixed call; if it is that
        computation, log why, because choosing then takes longer."""
        frames = noise(({"text": 0, "images": 1, "video": 4}[form], 56, 56, 3))
        question = Message("user", ("Is it so? " * (1 if len(frames) else LONGER), *frames))
        choice = self._choice(ChoiceCall((question,), PREFIX, FIXED), frames if form == "video" else None)
        alone, reason = self.alone(choice), ""
        ways: tuple[Way, ...] = ("branched", "continued") if form == "text" else ("continued",)
        for way in ways:
            try:
                reason = self._fault(choice, alone, getattr(self, way)(choice))
            except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as error:
                # an architecture may not accept a cache; out-of-memory errors are re-raised
                if isinstance(error, RuntimeError) and out_of_memory(error):
                    raise
                reason = f"{type(error).__name__}: {error}"
            if not reason:
                return way
        name = self._loaded.name
        print(f"model {name!r} computes a prompt anew for every candidate ({reason})", file=sys.stderr, flush=True)
        return "alone"

    def _fault(self, choice: Choice, alone: torch.Tensor, computed: torch.Tensor) -> str:
        """Return by how much probabilities per token differ from those of each candidate alone; "" if by no more than
        rounding."""
        tolerance = 1e-4 if self._loaded.model.dtype == torch.float32 else 2e-2
        counts = torch.tensor([[len(tokens), 1] for tokens in choice.candidates], device=self._loaded.device)
        difference = float(((alone / counts).exp() - (computed / counts).exp()).abs().max())
        return "" if difference < tolerance else f"probabilities differ by {difference:.2g}"

    def _read(self, logits: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """Return log p of the tokens and of the turn's end after them, from the logits [1 + tokens, vocabulary] of each
        and of what follows."""
        chances = logits.log_softmax(-1)
        log_p = chances[torch.arange(len(tokens)), torch.tensor(tokens)].sum()
        return torch.stack([log_p, chances[-1, self._ends].logsumexp(-1)]).clamp(max=0)

    def _following(self, inputs: Mapping[str, Any]) -> int | None:
        """Return the position after the prompt for models with positions in time and space (Qwen's); None for those
        that count tokens."""
        count = getattr(getattr(self._loaded.model, "model", None), "get_rope_index", None)
        if count is None:
            return None
        takes = inspect.signature(count).parameters
        positions = count(**{name: tensor for name, tensor in inputs.items() if name in takes})[0]
        return int(positions.max()) + 1


def _conversed(message: Message, as_video: bool) -> dict[str, Any]:
    """Return a message as `render` takes it, with one place for all of its images if they are one video."""
    conversed = parts_of(message)
    if as_video:
        texts = [part for part in conversed["content"] if part["type"] == "text"]
        conversed["content"] = [*texts, {"type": "video"}]
    return conversed


def continuations(tokenizer: Any, text: str, candidates: Sequence[str], model: str) -> list[Tokens]:
    """Return the tokens with which each candidate continues a rendered prompt. Raise UserError for a candidate whose
    tokens are not its own: they do not decode to it, or one of them begins within the prompt."""
    begun, *rows = tokenizer([text, *(text + candidate for candidate in candidates)], add_special_tokens=False)[
        "input_ids"
    ]
    tail, continued = begun[-TAIL:], []
    before = _decoded(tokenizer, tail)
    for candidate, row in zip(candidates, rows, strict=True):
        tokens = row[len(begun) :]
        if row[: len(begun)] != begun or not tokens or _decoded(tokenizer, tail + tokens) != before + candidate:
            raise UserError(
                f"the candidate {candidate[:80]!r} has no tokens of its own after {text[-20:]!r}: those of model "
                f"{model!r} decode to another text or begin before it; let the candidate begin with a space and the "
                f"prefix end without one, or write it in other letters"
            )
        continued.append([*tokens])
    return continued


def _decoded(tokenizer: Any, tokens: Tokens) -> str:
    return str(tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False))
