"""Convert a published `torch.save` checkpoint to a file of safetensors, and a GGUF file to a directory of them.

A source is read, and what it becomes is written, in the separate process. Of a checkpoint `weights_only=True` prevents
it from running code, and before any tensor is copied, the declared bytes of all tensors are compared with the file's. A
GGUF file goes through the loader of chats, so the directory holds the numbers, the tokenizer and the chat template with
which the file itself would answer.
"""

from __future__ import annotations

import os
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.models.access import GGUF
from guidebench.harness.models.backends import gguf_files
from guidebench.harness.texts import one_line

WRAPPINGS = ("module.", "model.")
"""Prefixes of all tensor names that DataParallel or a wrapper class adds in training."""
RN50 = "RN50-quickgelu"
"""open_clip's name for the CLIP ResNet-50 that OpenAI published and that LIV fine-tunes."""
S3D = "s3d"
"""Our name for the S3D of videos and texts that was learnt from HowTo100M."""
WORDS = "words"
"""Name of the tensor that holds S3D's word list, uint8: UTF-8, one word a line."""
MOST_WORDS = 10**6
"""Words of a list at most; the published one has 66,249."""
ADVICE, REFERENCE = "In PyTorch 2.6", "Check the documentation of torch.load"
"""Beginnings of what PyTorch says beside the reason for which a checkpoint holds more than tensors."""
BEGINNINGS = ("Weights only load failed. ", "WeightsUnpickler error: ")
"""What PyTorch writes before that reason."""
FILES = (GGUF, ".safetensors", ".pt", ".pth", ".bin")
"""Endings by which a model is taken for a file, so that no directory of one may have them."""
UNPACKED = 12
"""Bytes of memory for each number of a GGUF file, which is float32 twice while it is written (measured: 8)."""
UNPACKING = 600.0
"""Time limit in seconds for unpacking a GGUF file."""
METADATA = "__metadata__"
"""Name that safetensors reserves."""


class Converted(NamedTuple):
    """Summary of what was converted."""

    tensors: int
    parameters: int
    architecture: str
    """open_clip's name of the architecture, `s3d`, or a GGUF file's own name, such as `llama`; "" if unknown, and then
    the file cannot be used as a model."""


def convert(source: Path, target: Path, architecture: str = "", words: Path | None = None) -> Converted:
    """Write the tensors of `source` to `target`, which must not exist: those of a checkpoint to a file, the model in a
    GGUF file to a directory, as float32 with configuration and tokenizer. Raise UserError unless `source` is a
    checkpoint of tensors only, or a GGUF file that can be loaded. `words` is the word list that a checkpoint of S3D
    needs, as `word_list` reads it."""
    is_gguf = source.name.endswith(GGUF)
    if not source.is_file():
        raise UserError(f"{source} is no file; expected a checkpoint as torch.save wrote it, or a GGUF file")
    if target.exists():
        raise UserError(f"{target} exists; name {'a directory' if is_gguf else 'a file'} that does not, or remove it")
    if is_gguf and (architecture or words is not None):
        raise UserError(f"{source} names its architecture and holds its words; leave --architecture and --words out")
    if is_gguf and target.name.endswith(FILES):
        raise UserError(f"{source} becomes a directory, and {target} has the name of a file; leave out its ending")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    files = [source] if words is None else [source, words]
    try:
        if is_gguf:
            converted = _unpacked(source, partial)
        else:
            converted = reader_process.read(
                f"{source}: converting it", files, _convert, source, partial, architecture, words
            )
        os.replace(partial, target)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        partial.unlink(missing_ok=True)
    return converted


def _unpacked(source: Path, target: Path) -> Converted:
    """Write the model in a GGUF file to a directory, in a separate process whose memory fits the numbers of its
    header."""
    header = gguf_files.header(source)
    caller = reader_process.Caller(reader_process.MEMORY + UNPACKED * header.parameters)
    try:
        tensors, parameters = caller(f"{source}: converting it", UNPACKING, _unpack, source, target)
    finally:
        caller.close()
    return Converted(tensors, parameters, header.architecture)


def _unpack(source: Path, target: Path) -> tuple[int, int]:
    """Write the model in a GGUF file to a directory; return its tensors and numbers. Call it in the separate
    process."""
    from guidebench.harness.models.backends.transformers_.loaded_model import Source
    from guidebench.harness.models.backends.transformers_.loading import load

    loaded = load(Source(str(source), dtype="float32"))
    loaded.model.save_pretrained(target)
    loaded.tokenizer.save_pretrained(target)
    counts = [tensor.numel() for tensor in loaded.model.parameters()]
    return len(counts), sum(counts)


def _convert(source: Path, target: Path, architecture: str, words: Path | None) -> Converted:
    """Write the tensors of a checkpoint to a file. Call it in the separate process."""
    import torch
    from safetensors.torch import save_file

    mappings = list(_mappings(_load_checkpoint(source)))
    unique = {id(tensor): tensor for mapping in mappings for tensor in mapping.values()}
    outside.check_plain(source, sum(map(_declared_bytes, unique.values())))
    tensors = _without_prefixes(max(mappings, key=len, default={}))
    if not tensors:
        raise UserError(f"{source} holds no named tensors")
    for name, tensor in tensors.items():
        _check(source, name, tensor)
    outside.check_plain(source, sum(map(_declared_bytes, tensors.values())))  # a tensor may have several names
    architecture = architecture or (RN50 if _is_rn50(tensors) else S3D if _is_s3d(tensors) else "")
    if (architecture == S3D) != (words is not None):
        raise UserError(
            f"{source} is S3D, which needs the list of its words; give the list that is published beside it with "
            f"--words s3d_dict.npy"
            if words is None
            else f"{source} is not S3D, and only S3D has a word list; leave --words out"
        )
    if words is not None:
        listed = "\n".join(word_list(words)).encode("utf-8")
        tensors[WORDS] = torch.frombuffer(bytearray(listed), dtype=torch.uint8)
    # A tensor may be a view of another; safetensors needs separate copies.
    copies = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    kind = "network" if architecture == S3D else "open_clip"
    save_file(copies, target, {"format": "pt"} | ({kind: architecture} if architecture else {}))
    return Converted(len(copies), sum(tensor.numel() for tensor in copies.values()), architecture)


def _load_checkpoint(source: Path) -> Any:
    """Return the objects in a checkpoint; raise UserError if the file is no checkpoint or could run code."""
    import torch

    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                outside.check_plain(source, sum(entry.file_size for entry in archive.infolist()))
        with warnings.catch_warnings(action="ignore"):  # torch's remarks on unusual tensors, which are refused
            return torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{source} holds more than tensors and plain values, and opening that could run code of its author's, so "
            f"it is not opened ({_reason(error)}); ask for a checkpoint of weights alone"
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{source} is no checkpoint that torch.save wrote ({_reason(error)})") from None


def _declared_bytes(tensor: Any) -> int:
    """Return the size in bytes that a tensor would have if each of its numbers were stored."""
    return int(tensor.numel()) * int(tensor.element_size())


def _check(source: Path, name: str, tensor: Any) -> None:
    """Raise UserError for a tensor that safetensors cannot hold."""
    import torch
    from torch.nn import Parameter

    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{source} has a tensor named {one_line(name[:80])}, which is no valid text") from None
    if name == METADATA:
        raise UserError(f"{source} has a tensor named {METADATA}, which safetensors reserves")
    kind = (
        "on no device" if tensor.device.type == "meta"
        else "quantized" if tensor.is_quantized
        else "nested" if tensor.is_nested
        else f"sparse ({tensor.layout})" if tensor.layout != torch.strided
        else type(tensor).__name__ if type(tensor) not in (torch.Tensor, Parameter)
        else str(tensor.dtype) if tensor.dtype not in _dtypes()
        else ""
    )  # fmt: skip
    if kind:
        raise UserError(
            f"{source}: tensor {one_line(name[:80])} is {kind}; only plain tensors of numbers are converted"
        )


def _dtypes() -> Any:
    import torch

    return {
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2,
    }  # fmt: skip


def word_list(file: Path) -> list[str]:
    """Return the words of a NumPy file of texts, which is never unpickled, or of a text file with one word a line;
    raise UserError for any other file."""
    if not file.is_file():
        raise UserError(f"{file} is no file; expected a list of words, as .npy or as text with one word a line")
    try:
        if file.suffix == ".npy":
            listed = outside.npy(file)
            if listed.ndim != 1 or listed.dtype.kind != "U":
                raise ValueError(f"it holds {listed.dtype} {[*listed.shape]}, not a list of texts")
            words = [str(word) for word in listed]
        else:
            words = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (UserError, ValueError, OSError, EOFError) as error:
        raise UserError(f"{file} is no list of words ({_reason(error)}); a pickled list is not opened") from None
    if len(words) > MOST_WORDS or not all(words) or any("\n" in word for word in words):
        raise UserError(f"{file} is no list of words: expected at most {MOST_WORDS:,}, none empty or with a line break")
    return words


def width(file: Path) -> int | None:
    """Return the length of the vectors of the CLIP model or S3D in a safetensors file, read from its header alone; None
    if there is no such file or it holds another model."""
    if not file.is_file():
        return None
    try:
        shapes = reader_process.read(f"{file}: reading its header", [], outside.header, file).shapes
    except (OSError, UserError):
        return None
    match [shapes.get("text_projection"), shapes.get("text_module.fc2.weight")]:
        case [(_, length), _] | [_, (length, _)]:
            return length
    return None


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the named tensors at each level of a checkpoint: `{"liv": {…}}`, `{"state_dict": {…}}`, or the top
    level. A mapping that is reached twice, also from within itself, is visited once."""
    import torch

    waiting, visited = [value], set[int]()
    while waiting:
        mapping = waiting.pop()
        if not isinstance(mapping, Mapping) or id(mapping) in visited:
            continue
        visited.add(id(mapping))
        yield {
            str(name): tensor
            for name, tensor in mapping.items()
            if isinstance(tensor, torch.Tensor) and isinstance(name, str | int)
        }
        waiting += reversed([*mapping.values()])


def _without_prefixes(tensors: dict[str, Any]) -> dict[str, Any]:
    while wrapping := next((w for w in WRAPPINGS if tensors and all(name.startswith(w) for name in tensors)), None):
        tensors = {name.removeprefix(wrapping): tensor for name, tensor in tensors.items()}
    return tensors


def _is_rn50(tensors: Mapping[str, Any]) -> bool:
    """Return whether tensors have CLIP RN50's distinctive shape: stages of 3, 4, 6 and 3 blocks, and 1024 features."""
    blocks = [
        len({name.split(".")[2] for name in tensors if name.startswith(f"visual.layer{at}.")}) for at in range(1, 5)
    ]
    features = tensors.get("visual.attnpool.c_proj.weight")
    return blocks == [3, 4, 6, 3] and features is not None and features.shape[:1] == (1024,)


def _is_s3d(tensors: Mapping[str, Any]) -> bool:
    """Return whether tensors have S3D's names of its first convolution, last block and table of words."""
    return {"conv1.conv1.weight", "mixed_5c.conv_b0.conv1.weight", "text_module.word_embd.weight"} <= set(tensors)


def _reason(error: Exception) -> str:
    """Return what is wrong with a file. PyTorch's errors about objects in a checkpoint end with the reason, after
    advice to load it all the same, which is left out."""
    lines = [line.strip() for line in str(error).partition(REFERENCE)[0].splitlines()]
    lines = [line for line in lines if line and not line.startswith(ADVICE)] or [type(error).__name__]
    reason = lines[-1] if isinstance(error, pickle.UnpicklingError) else lines[0]
    for beginning in BEGINNINGS:
        reason = reason.removeprefix(beginning)
    return one_line(reason.split(". ")[0][:200].rstrip("."))
