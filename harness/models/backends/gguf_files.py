"""Checks of a GGUF file before transformers loads it: its header, the places of its arrays, the size of its network.

A GGUF file holds one model of texts: quantized weights, tokenizer, chat template and configuration. Its header states
counts, lengths and places, which a damaged or hostile file may state wrongly, so it is read in the separate process.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from guidebench.harness import extras, outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.texts import one_line

TEMPLATE = "tokenizer.chat_template"
"""Key of the chat template."""


class GGUFHeader(NamedTuple):
    """What the header of a GGUF file says of its model."""

    architecture: str
    """Name of the architecture, such as `llama`."""
    parameters: int
    """Numbers in all arrays."""
    has_template: bool
    """Whether it has a chat template; a base model has none."""


def header(file: Path) -> GGUFHeader:
    """Return the header of a GGUF file, read in the separate process. Raise UserError, naming the file, if it cannot be
    read, if arrays lie outside the file or share bytes, or if it describes a network of other size than its arrays."""
    if importlib.util.find_spec("gguf") is None:
        raise extras.missing(f"model={file} needs the package gguf", "tiny")
    if not file.is_file():
        raise UserError(f"model={file}: there is no such file; name a GGUF file")
    return reader_process.read(f"{file}: reading its header", file, _header, file)


@contextmanager
def alone(file: Path) -> Iterator[str]:
    """Yield a folder that holds nothing but a link to a file, under its own name, so that transformers reads no
    configuration that happens to lie beside it."""
    with TemporaryDirectory() as folder:
        Path(folder, file.name).symlink_to(file.absolute())
        yield folder


def _header(file: Path) -> GGUFHeader:
    """Return the header of a GGUF file. Call it in the separate process."""
    from gguf import GGUFReader

    try:
        return _parsed(file, GGUFReader(file))
    except UserError:
        raise
    except Exception as error:  # the reader checks little, so damage shows as any error
        raise _damaged(file, f"{type(error).__name__}: {one_line(str(error)[:200])}") from None


def _parsed(file: Path, reader: Any) -> GGUFHeader:
    """Return the header of a GGUF file from its opened reader."""
    if problem := _misplaced(reader, file.stat().st_size):
        raise _damaged(file, problem)
    architecture = one_line(str(_content(reader, "general.architecture", ""))[:80])
    parameters = sum(int(tensor.n_elements) for tensor in reader.tensors)
    numbers = _described(reader, architecture)
    if numbers > max(outside.PLAIN * parameters, outside.FEW):
        raise _damaged(file, f"it describes a network of {numbers:,} numbers, and its arrays hold {parameters:,}")
    return GGUFHeader(architecture, parameters, TEMPLATE in reader.fields)


def _described(reader: Any, architecture: str) -> int:
    """Return about how many numbers a transformer of the file's metadata has: those of its embeddings, and in each
    layer those of attention and of the feed-forward networks of all experts. What is not stated counts as 1."""

    def extent(key: str, default: int = 1) -> int:
        stated = _content(reader, f"{architecture}.{key}", default)
        return max([default, *(int(number) for number in (stated if isinstance(stated, list) else [stated]))])

    width, heads = extent("embedding_length"), extent("attention.head_count")
    tokens = reader.get_field("tokenizer.ggml.tokens")
    words = max(extent("vocab_size"), 1 if tokens is None else len(tokens.data))
    attention = 4 * width * max(width, heads * extent("attention.key_length"))
    forward = 3 * width * extent("feed_forward_length") * extent("expert_count")
    return words * width + extent("block_count") * (attention + forward)


def _content(reader: Any, key: str, default: Any) -> Any:
    field = reader.get_field(key)
    return default if field is None else field.contents()


def _misplaced(reader: Any, file_bytes: int) -> str:
    """Return what is wrong with the places of a file's arrays, or ""."""
    if not reader.tensors:
        return "it holds no weights"
    end, last = int(reader.data_offset), ""
    for tensor in sorted(reader.tensors, key=lambda tensor: int(tensor.data_offset)):
        if int(tensor.data_offset) < end:
            return f"array {one_line(tensor.name[:80])} shares bytes with {last or 'the header'}"
        end, last = int(tensor.data_offset) + int(tensor.n_bytes), one_line(tensor.name[:80])
    return f"its arrays end at byte {end:,}, and the file has {file_bytes:,}" if end > file_bytes else ""


def _damaged(file: Path, problem: str) -> UserError:
    return UserError(f"{file} is no GGUF file that can be read ({problem}); download it again")
