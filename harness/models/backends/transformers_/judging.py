"""Judging of clips: the answer is prefilled with "Answer:", and the next token is scored.

P(yes) = p(Yes variants) / (p(Yes variants) + p(No variants)) (VLM-RB, §3.1 and table 3), where a variant is any token
that equals yes or no up to case and white space. The prompt's text precedes the clip if the model's chat template keeps
that order, so that the computation of its prefix is shared by all clips (choice). Templates that put frames before
text, such as Perception-LM's, leave only their header to share; their clips are computed in full.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.answers import BEGUN, SPOKEN, answer_index, yes_or_no
from guidebench.harness.models.backends.recipes import Scoring
from guidebench.harness.models.backends.transformers_.batching import out_of_memory
from guidebench.harness.models.backends.transformers_.frame_features import with_frame_features
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.models.backends.transformers_.prefixes import repeated
from guidebench.harness.models.backends.transformers_.rendering import decode_generated, frames_of, render
from guidebench.harness.models.calls import Failure, JudgeCall, Usage

PROMPTS = 4
"""Prompts whose computed prefix is cached."""
WORTH = 0.05
"""Smallest share of a clip's tokens for which a cached prefix is used: attention that continues a prefix needs an
explicit mask, which costs more than a short prefix saves (choice)."""
Clips = Literal["video", "images"]
PROBE = "Is it so?"
"""Prompt of the clips with which computations are compared."""


class Verdict(NamedTuple):
    """The model's judgement of a clip: `yes` is P(yes); `mass` is p(yes) + p(no), nan if not measured."""

    yes: float
    mass: float
    tokens_in: int
    tokens_out: int


class Judging:
    """Judges batches of clips with one shape and one prompt."""

    def __init__(self, loaded: LoadedModel, scoring: Scoring, clips: Clips, worth: float = WORTH) -> None:
        check_vision(loaded)
        self._loaded, self._scoring, self._worth = loaded, scoring, worth
        self._as_video = clips == "video" and reads_videos(loaded)
        self._yes, self._no = (variants(loaded.tokenizer, word, loaded.name) for word in ("yes", "no"))
        self._prefixes: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._exact: dict[tuple[bool, tuple[int, ...]], bool] = {}
        """Whether the fast computation reproduces this architecture's scores, without and with a cached prefix, for
        clips of a shape. Clips of noise are computed both ways to decide, so that no clip of a run is computed
        differently from others because it was the first after a start."""

    def kind(self, call: JudgeCall) -> Hashable:
        """Return the batch kind of a call; inputs of one kind have equal length."""
        return "judge", call.prompt, call.clip.shape

    def __call__(self, calls: Sequence[JudgeCall]) -> list[Verdict | Failure]:
        inputs = self.inputs(calls)
        if self._scoring == "prefill":
            logits = self.next_token(inputs, [call.clip for call in calls])
            return [*self._verdicts(logits, inputs["input_ids"].shape[1], 1)]
        verdicts = self._spoken(inputs) if self._scoring == "logprobs" else self._written(inputs)
        for failure in verdicts:
            if isinstance(failure, Failure):
                failure.usage = Usage(1, inputs["input_ids"].shape[1], SPOKEN, images=len(calls[0].clip))
        return verdicts

    def inputs(self, calls: Sequence[JudgeCall]) -> dict[str, Any]:
        """Return the model's inputs for clips of one kind; raise UserError if a clip exceeds the context length."""
        prompt, clips = calls[0].prompt, [call.clip for call in calls]
        parts = [{"type": "video"}] if self._as_video else [{"type": "image"}] * len(clips[0])
        text = render(self._loaded, [{"role": "user", "content": [{"type": "text", "text": prompt}, *parts]}])
        text += BEGUN if self._scoring == "prefill" else ""
        inputs = frames_of(self._loaded, [text] * len(clips), clips, as_video=self._as_video)
        length, limit = inputs["input_ids"].shape[1], self._loaded.context
        if limit is not None and length >= limit:
            raise UserError(
                f"a clip of {len(clips[0])} frames of {clips[0].shape[2]} x {clips[0].shape[1]} pixels takes {length} "
                f"tokens and model {self._loaded.name!r} reads {limit}; shorten the clip (replay.clip_length), draw "
                f"smaller frames, or choose another model"
            )
        return inputs

    def next_token(self, inputs: Mapping[str, Any], clips: Sequence[Array]) -> torch.Tensor:
        """Return float32 logits [n, vocabulary] of the next token, by the faster computation if it agrees with the full
        one."""
        length = self._shared(inputs["input_ids"])
        prefix = length if length > self._worth * inputs["input_ids"].shape[1] else 0
        computation = prefix > 0, clips[0].shape
        if computation not in self._exact:
            self._exact[computation] = self._agrees(clips, prefix > 0)
        return self._short(inputs, clips, prefix) if self._exact[computation] else self._full(inputs)

    def _agrees(self, clips: Sequence[Array], resumed: bool) -> bool:
        """Return whether the fast computation reproduces the full one for clips of noise in the shape of `clips`, with
        a cached prefix if `resumed`; if not, log it, because judging then takes longer."""
        probes = [noise(clips[0].shape)] * len(clips)
        inputs = self.inputs([JudgeCall(probe, PROBE) for probe in probes])
        full = self._full(inputs)
        tolerance = 1e-4 if self._loaded.model.dtype == torch.float32 else 2e-2
        try:
            fast = self._short(inputs, probes, self._shared(inputs["input_ids"]) if resumed else 0)
        except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as error:
            # an architecture may not accept a cache or precomputed features; out-of-memory errors are re-raised
            if isinstance(error, RuntimeError) and out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}"
        else:
            difference = float((full.softmax(-1) - fast.softmax(-1)).abs().max())
            if difference < tolerance:
                return True
            reason = f"probabilities differ by {difference:.2g}"
        print(f"model {self._loaded.name!r} is computed whole for every clip ({reason})", file=sys.stderr, flush=True)
        return False

    def _short(self, inputs: Mapping[str, Any], clips: Sequence[Array], prefix: int) -> torch.Tensor:
        """Compute the logits with equal frames encoded once, continuing from the cached prefix of `prefix` tokens."""
        inputs = with_frame_features(self._loaded.model, inputs, clips)
        return self._resumed(inputs, prefix) if prefix else self._full(inputs)

    def _full(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        return self._last(self._loaded.model(**inputs, **self._keeping_last(), use_cache=False))

    def _resumed(self, inputs: Mapping[str, Any], length: int) -> torch.Tensor:
        """Compute the logits from the cached keys and values of the first `length` tokens."""
        ids = inputs["input_ids"]
        cache = repeated(self._prefix(ids[:1, :length]), ids.shape[0])
        rest = dict(inputs)
        for name in ("input_ids", "mm_token_type_ids", "token_type_ids"):
            if name in rest:
                rest[name] = rest[name][:, length:]
        positions = self._positions(inputs)
        if positions is not None:
            rest["position_ids"] = positions[..., length:]
        return self._last(self._loaded.model(**rest, **self._keeping_last(), past_key_values=cache, use_cache=True))

    def _prefix(self, ids: torch.Tensor) -> Any:
        """Return the keys and values of the first tokens [1, m], cached for the most recently used prompts."""
        key = tuple(ids[0].tolist())
        if key not in self._prefixes:
            output = self._loaded.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=True)
            self._prefixes[key] = output.past_key_values
            while len(self._prefixes) > PROMPTS:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(key)
        return self._prefixes[key]

    def _positions(self, inputs: Mapping[str, Any]) -> torch.Tensor | None:
        """Return positions [3, n, m] in time and space for models that use them (Qwen's); None for token positions."""
        count = getattr(getattr(self._loaded.model, "model", None), "get_rope_index", None)
        if count is None:
            return None
        takes = inspect.signature(count).parameters
        positions: torch.Tensor = count(**{name: value for name, value in inputs.items() if name in takes})[0]
        return positions

    def _shared(self, ids: torch.Tensor) -> int:
        """Return the number of tokens before the first frame; 0 if frame tokens cannot be identified."""
        config, kinds = self._loaded.model.config, ("image_token", "video_token")
        named = (getattr(config, f"{kind}_{end}", None) for kind in kinds for end in ("id", "index"))
        frames = torch.tensor([token for token in named if token is not None], device=ids.device)
        at = torch.isin(ids[0], frames).nonzero()
        return int(at[0]) if len(at) else 0

    def _keeping_last(self) -> dict[str, int]:
        """Return the argument that limits logits to the last token, if the model has one."""
        takes = inspect.signature(self._loaded.model.forward).parameters
        return {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    @staticmethod
    def _last(output: Any) -> torch.Tensor:
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits

    def _verdicts(self, logits: torch.Tensor, tokens_in: int, tokens_out: int) -> list[Verdict]:
        """Return P(yes) and mass from each row of logits [n, vocabulary]."""
        yes, no = (logits[:, which.to(logits.device)].logsumexp(-1) for which in (self._yes, self._no))
        share = torch.sigmoid(yes - no).tolist()
        mass = (torch.logaddexp(yes, no) - logits.logsumexp(-1)).exp().tolist()
        return [
            Verdict(p_yes, min(1.0, p_either), tokens_in, tokens_out)
            for p_yes, p_either in zip(share, mass, strict=True)
        ]

    def _spoken(self, inputs: Mapping[str, Any]) -> list[Verdict | Failure]:
        """Score the generated token that says yes or no."""
        length = inputs["input_ids"].shape[1]
        output = self._loaded.model.generate(
            **inputs, max_new_tokens=SPOKEN, do_sample=False, output_logits=True, return_dict_in_generate=True
        )
        words = output.sequences[:, length:].cpu()
        is_answer = torch.isin(words, torch.cat([self._yes, self._no]))
        verdicts: list[Verdict | Failure] = []
        for row, text in enumerate(words):
            texts = [
                self._loaded.tokenizer.decode(text[: index + 1], skip_special_tokens=True) for index in range(len(text))
            ]
            try:
                step = answer_index(texts, is_answer[row].tolist())
            except Failure as failure:
                verdicts.append(failure)
                continue
            verdicts += self._verdicts(output.logits[step][row : row + 1].float(), length, step + 1)
        return verdicts

    def _written(self, inputs: Mapping[str, Any]) -> list[Verdict | Failure]:
        """Read the answer as text: P(yes) is 1 or 0."""
        length = inputs["input_ids"].shape[1]
        words = self._loaded.model.generate(**inputs, max_new_tokens=SPOKEN, do_sample=False)[:, length:]
        verdicts: list[Verdict | Failure] = []
        for text, tokens_out, _ in decode_generated(self._loaded, words):
            try:
                verdicts.append(Verdict(yes_or_no(text), float("nan"), length, tokens_out))
            except Failure as failure:
                verdicts.append(failure)
        return verdicts


def check_vision(loaded: LoadedModel) -> None:
    """Raise UserError for a model that reads no images."""
    if loaded.kind != "vision":
        raise UserError(
            f"model {loaded.name!r} reads no images, so it cannot judge clips; choose one for image-text-to-text"
        )


def reads_videos(loaded: LoadedModel) -> bool:
    """Return whether a model reads a clip as a video, and not as images alone."""
    return getattr(loaded.processor, "video_processor", None) is not None


def noise(shape: tuple[int, ...]) -> Array:
    """Return a clip of random pixels, uint8 of a shape [L, height, width, 3], whose second half repeats its first."""
    clip = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    half = len(clip) // 2
    clip[half : 2 * half] = clip[:half]
    return clip


def variants(tokenizer: Any, word: str, model: str) -> torch.Tensor:
    """Return the int64 tokens that equal `word` up to case and white space; raise UserError if there is none."""
    tokens = ((index, tokenizer.convert_tokens_to_string([token])) for token, index in tokenizer.get_vocab().items())
    matching = sorted(index for index, text in tokens if text.strip().lower() == word)
    if not matching:
        raise UserError(
            f"model {model!r} has no token for {word!r}, so its answers cannot be scored; use scoring=literal"
        )
    return torch.tensor(matching)
