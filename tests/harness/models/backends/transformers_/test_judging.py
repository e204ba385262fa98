from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_.judging import Judging, Verdict, variants
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from guidebench.harness.models.calls import Failure, JudgeCall
from tests.refusals import check_refused

PROMPT = 'Is the goal reached in this clip? Reply with exactly "Answer: Yes" or "Answer: No".'
VISION = ("qwen_vl", "perception_lm")


def load_judge(directory: Path, scoring: Any = "prefill", clips: Any = "video", worth: float = 0.05) -> Judging:
    return Judging(load(Source(str(directory), dtype="float32")), scoring, clips, worth)


def scores(judge: Judging, clips: list[Any]) -> list[float]:
    with torch.inference_mode():
        return [verdict.yes for verdict in judge([JudgeCall(clip, PROMPT) for clip in clips])]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", VISION)
@pytest.mark.parametrize("media_kind", ["video", "images"])
def test_the_score_is_the_share_of_yes_in_what_plain_generate_would_say_next(
    tiny: Callable[..., Path], clips: list[Any], name: str, media_kind: str
) -> None:
    """Computed by hand: the chat template ends in "Answer:", `generate` returns one token, and its probabilities are
    summed."""
    directory = tiny(name)
    verdicts = load_judge(directory, clips=media_kind)([JudgeCall(clip, PROMPT) for clip in clips])
    loaded = load(Source(str(directory), dtype="float32"))
    processor, frames = loaded.processor, list(clips[1])
    parts = [{"type": "video"}] if media_kind == "video" else [{"type": "image"}] * len(frames)
    chat = [
        {"role": "user", "content": [{"type": "text", "text": PROMPT}, *parts]},
        {"role": "assistant", "content": [{"type": "text", "text": "Answer:"}]},
    ]
    text = processor.apply_chat_template(chat, tokenize=False, continue_final_message=True)
    media: dict[str, Any] = {"images": frames}
    if media_kind == "video":
        media = {"videos": [frames], "do_sample_frames": False, "video_metadata": [{"fps": 2, "total_num_frames": 4}]}
    inputs = processor(text=[text], return_tensors="pt", add_special_tokens=False, **media)
    generation = loaded.model.generate(
        **inputs, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True
    )
    probability = generation.logits[0][0].softmax(-1)
    words = processor.tokenizer.get_vocab()
    yes, no = (
        sum(float(probability[words[form]]) for form in forms)
        for forms in (("Yes", "yes", "YES", "ĠYes", "Ġyes", "ĠYES"), ("No", "no", "NO", "ĠNo", "Ġno", "ĠNO"))
    )
    assert isinstance(verdicts[1], Verdict) and verdicts[1].yes == pytest.approx(yes / (yes + no), abs=1e-4)
    assert verdicts[1].mass == pytest.approx(yes + no, abs=1e-4)
    assert verdicts[1].tokens_in == inputs["input_ids"].shape[1]


@pytest.mark.parametrize(
    ("name", "media_kind", "repeats"),
    [
        ("qwen_vl", "video", True),
        ("qwen_vl", "images", False),
        ("perception_lm", "video", False),
        ("perception_lm", "images", True),
    ],
)
def test_a_kept_prefix_equal_frames_and_a_batch_leave_scores_as_they_are(
    tiny: Callable[..., Path],
    clips: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    media_kind: str,
    repeats: bool,
) -> None:
    if repeats:
        clips[1][1], clips[2][2], clips[4][:] = clips[1][0], clips[0][2], clips[3]
    plain = load_judge(tiny(name), clips=media_kind)
    monkeypatch.setattr(plain, "next_token", lambda inputs, clips: plain._full(inputs))
    cached, uncached = (
        load_judge(tiny(name), clips=media_kind, worth=0.0),
        load_judge(tiny(name), clips=media_kind, worth=1.0),
    )
    one_by_one = [scores(plain, [clip])[0] for clip in clips]
    assert scores(cached, clips[:1]) == pytest.approx(one_by_one[:1], abs=1e-4)
    assert cached._exact == {(True, clips[0].shape): True}
    assert scores(cached, clips) == pytest.approx(one_by_one, abs=1e-4)
    assert scores(uncached, clips[:1]) + scores(uncached, clips[1:]) == pytest.approx(one_by_one, abs=1e-4)
    assert uncached._exact == {(False, clips[0].shape): True}
    assert scores(cached, clips[::-1]) == pytest.approx(one_by_one[::-1], abs=1e-4)
    assert max(one_by_one) - min(one_by_one) > 1e-3, "the clips differ, so their scores do"


@pytest.mark.parametrize("name", VISION)
@pytest.mark.parametrize("media_kind", ["video", "images"])
def test_a_score_is_the_same_bits_in_every_batch_of_one_size_and_as_the_first_after_a_start(
    tiny: Callable[..., Path], clips: list[Any], name: str, media_kind: str
) -> None:
    clips[1][1], clips[2][2], clips[4][:] = clips[1][0], clips[0][2], clips[3]  # equal frames are encoded once
    judge = load_judge(tiny(name), clips=media_kind)
    first = scores(judge, clips[:4])
    assert scores(judge, clips[:4]) == first
    assert scores(judge, [clips[2], clips[4], clips[0], clips[1]]) == [first[2], first[3], *first[:2]]
    assert [scores(judge, [clip] * 4) for clip in clips[:4]] == [[score] * 4 for score in first]
    alone = [scores(judge, [clip]) for clip in clips]
    assert [scores(load_judge(tiny(name), clips=media_kind), [clip]) for clip in clips[::2]] == alone[::2]


def test_the_prompt_comes_before_the_clip_where_the_template_keeps_the_order(
    tiny: Callable[..., Path], clips: list[Any]
) -> None:
    shared = {}
    for name in VISION:
        judge = load_judge(tiny(name))
        ids = judge.inputs([JudgeCall(clips[0], PROMPT)])["input_ids"]
        shared[name] = PROMPT in judge._loaded.tokenizer.decode(ids[0, : judge._shared(ids)])
    assert shared == {"qwen_vl": True, "perception_lm": False}


def test_an_architecture_that_a_kept_prefix_would_change_is_computed_whole(
    tiny: Callable[..., Path], clips: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = scores(load_judge(tiny("qwen_vl")), clips)
    judge = load_judge(tiny("qwen_vl"))
    positions = judge._positions
    monkeypatch.setattr(judge, "_positions", lambda inputs: 3 * positions(inputs))  # as a model with other position ids
    assert scores(judge, clips) == pytest.approx(expected, abs=1e-4)
    assert judge._exact == {(True, clips[0].shape): False}
    assert scores(judge, clips) == pytest.approx(expected, abs=1e-4)


def test_an_architecture_that_bears_no_kept_prefix_is_computed_whole_and_the_log_says_why(
    tiny: Callable[..., Path], clips: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    expected = scores(load_judge(tiny("qwen_vl")), clips[:2])
    for error in (TypeError("no cache here"), RuntimeError("shapes do not fit"), KeyError("features")):

        def refuse(*_: Any, error: Exception = error) -> None:
            raise error

        judge = load_judge(tiny("qwen_vl"))
        monkeypatch.setattr(judge, "_resumed", refuse)
        assert scores(judge, clips[:2]) == pytest.approx(expected, abs=1e-4)
        log = capsys.readouterr().err
        assert judge._exact == {(True, clips[0].shape): False} and log.count("is computed whole for every clip") == 1
        assert type(error).__name__ in log


def test_too_little_memory_for_the_short_way_is_not_taken_for_an_architecture_that_cannot(
    tiny: Callable[..., Path], clips: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    judge = load_judge(tiny("qwen_vl"))
    monkeypatch.setattr(judge, "_resumed", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        scores(judge, clips)
    assert judge._exact == {}


def test_many_prompts_keep_few_prefixes(tiny: Callable[..., Path], clips: list[Any]) -> None:
    judge = load_judge(tiny("qwen_vl"), worth=0.0)
    for number in range(8):
        judge([JudgeCall(clips[0], f"{PROMPT} ({number})")])
    assert len(judge._prefixes) == 4


@pytest.mark.parametrize("name", VISION)
def test_an_answer_of_its_own_is_scored_where_it_says_yes_or_no(
    tiny: Callable[..., Path], clips: list[Any], name: str
) -> None:
    judge = load_judge(tiny(name), scoring="logprobs")
    with steer_generation(judge, *({letter: 30.0} for letter in "Answer:"), {"ĠYes": 30.0, "ĠNo": 29.0}):
        (verdict,) = judge([JudgeCall(clips[0], PROMPT)])
    assert isinstance(verdict, Verdict) and verdict.yes == pytest.approx(1 / (1 + torch.e**-1), abs=1e-3)
    assert verdict.mass == pytest.approx(1.0, abs=1e-3) and verdict.tokens_out == 8
    with steer_generation(judge, *[{"A": 30.0}] * 8):
        (failure,) = judge([JudgeCall(clips[0], PROMPT)])
    assert isinstance(failure, Failure) and failure.kind == "malformed" and "'AAAAAAAA'" in str(failure)
    assert failure.usage.tokens_out == 8 and failure.usage.images == 4


@pytest.mark.parametrize(("token", "score"), [("ĠYes", 1.0), ("ĠNo", 0.0)])
def test_a_literal_answer_is_read_as_text(
    tiny: Callable[..., Path], clips: list[Any], token: str, score: float
) -> None:
    judge = load_judge(tiny("qwen_vl"), scoring="literal")
    with steer_generation(judge, *({letter: 30.0} for letter in ("Ċ", "*", "*")), {token: 30.0}, {"<|im_end|>": 30.0}):
        verdicts = judge([JudgeCall(clip, PROMPT) for clip in clips[:2]])
    assert [verdict.yes for verdict in verdicts if isinstance(verdict, Verdict)] == [score, score]
    assert all(isinstance(verdict, Verdict) and verdict.tokens_out == 5 for verdict in verdicts)


@contextmanager
def steer_generation(judge: Judging, *steps: dict[str, float]) -> Iterator[None]:
    """Replace the logits of some tokens at each step of the real `generate`, while the context lasts."""
    words, queue = judge._loaded.tokenizer.get_vocab(), list(steps)

    def hook(module: Any, inputs: Any, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.clone()
        for token, value in queue.pop(0).items():
            logits[..., words[token]] = value
        return logits

    handle = judge._loaded.model.lm_head.register_forward_hook(hook)
    yield
    handle.remove()


def test_variants_are_every_token_that_reads_the_word(tiny: Callable[..., Path]) -> None:
    tokenizer = load(Source(str(tiny("qwen_vl")), dtype="float32")).tokenizer
    tokens = tokenizer.convert_ids_to_tokens(variants(tokenizer, "yes", "tiny").tolist())
    assert sorted(tokens) == sorted(["Yes", "yes", "YES", "ĠYes", "Ġyes", "ĠYES"])
    check_refused(r"no token for 'perhaps'.*scoring=literal", variants, tokenizer, "perhaps", "tiny")


def test_a_model_without_eyes_cannot_judge(tiny: Callable[..., Path]) -> None:
    check_refused("reads no images", load_judge, tiny("llama"))


def test_a_clip_longer_than_the_model_reads_is_an_error_that_says_what_to_do(
    tiny: Callable[..., Path], clips: list[Any]
) -> None:
    judge = load_judge(tiny("perception_lm"))
    judge._loaded.model.config.text_config.max_position_embeddings = 50
    with pytest.raises(UserError, match=r"4 frames of 56 x 56 pixels takes \d+ tokens .* reads 50; shorten the clip"):
        judge([JudgeCall(clips[0], PROMPT)])
