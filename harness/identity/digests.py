"""Digests of files that parts read: the weights, configuration and tokenizer of a model, or a dataset.

The digest of several files is the SHA-256 of one line for each of them, in the order of their names: the SHA-256 of its
content, two spaces, its name relative to their folder, and a newline, as `sha256sum` prints them. Of a model's
configuration, keys are left out that say where and by which version it was saved (`SAVED_BY`). Where a configuration
names Python code as the model's own (`CODE`), the Python files beside it count, since they run as part of the model.

The SHA-256 of each file is remembered in the user's cache by device, inode, size, and the times of its last change of
content and of status in nanoseconds, so that only new and changed files are read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError, size
from guidebench.harness.records.files import write_bytes

WEIGHTS = ("model", "diffusion_pytorch_model", "adapter_model")
"""Names of weights, before `.safetensors` or, if they are split, `.safetensors.index.json`."""
CONFIGURATIONS = ("config.json", "generation_config.json", "scheduler_config.json")
"""Files that hold keys of `SAVED_BY`."""
SAVED_BY = frozenset(("_name_or_path", "transformers_version", "_diffusers_version"))
"""Keys of a configuration, at any depth, that do not change what is loaded."""
OTHERS = (
    "adapter_config.json", "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
    "tokenizer.*", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "*vocab*", "*.model",
    "*.spm", "*.tiktoken", "*.tokenizer", "merges.txt", "bpe.codes", "dict.txt", "byte_maps.json", "emoji.json",
    "tekken.json", "chat_template.json", "chat_template.jinja", "additional_chat_templates/*.jinja", "modules.json",
    "sentence_bert_config.json",
)  # fmt: skip
"""Patterns of the names of further files that a model's loader reads: of adapters, processors, tokenizers,
vocabularies, chat templates, and of the pooling of sentence-transformers."""
NAMES_CODE = ("config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json",
              "video_preprocessor_config.json")  # fmt: skip
"""Configurations of models, tokenizers and processors that may name code."""
CODE = "auto_map"
"""Key of such a configuration whose value names classes of Python files."""
PIPELINE = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
"""Folders of a diffusion pipeline that its loader reads."""
SINGLE = "model.safetensors"
"""Name under which a model that is one file is hashed, whatever the file is called."""
MOST_FILES = 20_000
"""Maximum number of files that are remembered; beyond it, those that were read first are dropped."""
FRESH = 2.0
"""Seconds after its last change in which a file is not remembered: it may change again within the resolution of its
times, which is at most two seconds (FAT)."""
LARGE = 2**30
"""Bytes to be read from which progress is printed."""
PAUSE = 10.0
"""Seconds between two lines of progress."""
FORMAT = 1
BLOCK = 2**22


class NamedFile(NamedTuple):
    """A file and its name in a digest."""

    name: str
    path: Path
    configuration: bool = False
    """Whether keys of `SAVED_BY` are left out of its content."""


def of_model(place: Path) -> str | None:
    """Return the digest of the model in a directory or a single file; None if its weights are missing or incomplete.
    Links are followed. Prints progress if much has to be read. Raise UserError for a file that cannot be read."""
    with _readable(place):
        files = model_files(place)
    return None if files is None else of_files(files, str(place))


def of_files(files: Iterable[NamedFile], title: str) -> str:
    """Return the digest of files. Prints progress, under `title`, if much has to be read. Raise UserError for a file
    that cannot be read."""
    with _readable(title):
        return digest({file.name: sha for file, sha in memory(cache()).of([*files], title)})


@contextlib.contextmanager
def _readable(title: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename or title} cannot be read ({error.strerror or error}), so nothing tells which model or "
            f"dataset it is; change its permissions, or restore it"
        ) from None


def digest(named: Mapping[str, str]) -> str:
    """Return the digest of files, given by name and SHA-256."""
    lines = (f"{sha}  {name}\n" for name, sha in sorted(named.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def model_files(place: Path) -> list[NamedFile] | None:
    """Return the files that decide what a loaded model answers; None if weights are missing. `place`: a directory, or a
    file of weights."""
    if place.is_file():
        return [NamedFile(SINGLE, place)]
    if not (place / "config.json").is_file() and (place / "model_index.json").is_file():
        folders = [_of_folder(place / name, f"{name}/") for name in PIPELINE]
        weights = [_weights(place / name, f"{name}/") for name in ("unet", "vae", "text_encoder")]
    else:
        folders, weights = [_of_folder(place), [*_pooling(place)], [*_adapted(place)]], [_weights(place)]
    if not all(weights):
        return None
    files = [file for part in (*folders, *(part for part in weights if part)) for file in part]
    return files if all(file.path.is_file() for file in files) else None


def _weights(folder: Path, prefix: str = "") -> list[NamedFile]:
    """Return the files of a folder's weights. For each name of `WEIGHTS` this is one file, or an index and the files
    that the index lists, which may be missing."""
    files = []
    for name in WEIGHTS:
        weights, index = f"{name}.safetensors", f"{name}.safetensors.index.json"
        if (folder / weights).is_file():
            files.append(NamedFile(f"{prefix}{weights}", folder / weights))
        elif (folder / index).is_file():
            parts = sorted({index, *_listed(folder / index)})
            files += [NamedFile(f"{prefix}{part}", folder / part) for part in parts]
    return files


def _listed(index: Path) -> Iterator[str]:
    """Yield the names of the files in an index of weights."""
    content = _parsed(index)
    listed = content.get("weight_map") if isinstance(content, dict) else None
    yield from (str(name) for name in (listed.values() if isinstance(listed, dict) else ()))


def _of_folder(folder: Path, prefix: str = "") -> list[NamedFile]:
    """Return the files of a folder, other than weights, that a loader reads: configurations, tokenizers and code."""
    if not folder.is_dir():
        return []
    paths = [*folder.iterdir(), *folder.glob("additional_chat_templates/*")]
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    patterns = (*OTHERS, "*.py") if any(_names_code(folder / name) for name in NAMES_CODE) else OTHERS
    return [
        NamedFile(f"{prefix}{name}", path, name in CONFIGURATIONS)
        for name, path in sorted(named.items())
        if path.is_file() and (name in CONFIGURATIONS or any(fnmatchcase(name, pattern) for pattern in patterns))
    ]


def _names_code(configuration: Path) -> bool:
    """Return whether a configuration, which may be missing, names code as the model's own."""
    content = _parsed(configuration)
    return isinstance(content, dict) and bool(content.get(CODE))


def _pooling(place: Path) -> Iterator[NamedFile]:
    """Yield the configurations of the modules that sentence-transformers' `modules.json` names."""
    with contextlib.suppress(OSError):
        content = _parsed(place / "modules.json")
        folders = [module.get("path") for module in content if isinstance(module, dict)] if content else []
        for folder in sorted({folder for folder in folders if isinstance(folder, str) and folder}):
            name = f"{folder}/config.json"
            if (place / name).is_file():
                yield NamedFile(name, place / name, True)


def _adapted(place: Path) -> Iterator[NamedFile]:
    """Yield the files of the model that an adapter changes, if its configuration names a directory here."""
    with contextlib.suppress(OSError):
        content = _parsed(place / "adapter_config.json")
        named = content.get("base_model_name_or_path") if isinstance(content, dict) else None
        if isinstance(named, str) and named and Path(named).is_dir() and not Path(named).samefile(place):
            yield from _of_folder(Path(named), "base/")
            yield from _weights(Path(named), "base/")


def _parsed(file: Path) -> Any:
    """Return the value of a JSON file, parsed in the separate process; None if it is missing or cannot be parsed."""
    if not file.is_file():
        return None
    try:
        return outside.read_document(file)
    except UserError:
        return None


def _bare(value: Any) -> Any:
    """Return a JSON value without the keys of `SAVED_BY`."""
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items() if key not in SAVED_BY}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def sha256(file: NamedFile, read: Callable[[int], None] = lambda count: None) -> str:
    """Return the SHA-256 of a file's content; for a configuration, that of its JSON text with sorted keys and without
    `SAVED_BY`. `read` is called with the number of bytes read since its last call."""
    if file.configuration and (
        bare_digest := reader_process.read(f"{file.path}: reading it", file.path, _of_configuration, file.path)
    ):
        return bare_digest
    hashed = hashlib.sha256()
    with file.path.open("rb", buffering=0) as stream:
        while block := stream.read(BLOCK):
            hashed.update(block)
            read(len(block))
    return hashed.hexdigest()


def _of_configuration(file: Path) -> str | None:
    """Return the SHA-256 of a configuration file as `sha256` defines it, or None if the file is no JSON object. Call it
    in the separate process."""
    try:
        content = outside.document(file)
        if not isinstance(content, dict):
            return None
        return hashlib.sha256(json.dumps(_bare(content), sort_keys=True).encode()).hexdigest()
    except (UserError, RecursionError):
        return None


class Memory:
    """Remembers the SHA-256 of files, keyed by their `stat`, in a JSON file of the user's cache."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._digests = self._load()

    def of(self, files: list[NamedFile], title: str) -> Iterator[tuple[NamedFile, str]]:
        """Yield each file with its SHA-256; only files that are new or have changed are read."""
        unknown = [file for file in files if _state(file) not in self._digests]
        if unknown:
            self._digests |= self._load()  # what other processes have read meanwhile
            unknown = [file for file in unknown if _state(file) not in self._digests]
        progress = _Progress(title, sum(file.path.stat().st_size for file in unknown))
        digests, lasting = {}, {}
        for file in files:
            state = _state(file)
            digests[file] = self._digests.get(state) or sha256(file, progress.read)
            if file in unknown and state == _state(file) and time.time() - _changed(file) > FRESH:
                lasting[state] = digests[file]
        if lasting:
            self._save(lasting)
        yield from digests.items()

    def _load(self) -> dict[str, str]:
        try:
            content = json.loads(self._file.read_bytes())
            if content["format"] != FORMAT:
                return {}
            return {str(state): str(sha) for state, sha in content["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _save(self, lasting: Mapping[str, str]) -> None:
        merged = {**self._load(), **lasting}
        for state in [*merged][: max(0, len(merged) - MOST_FILES)]:
            del merged[state]
        self._digests |= lasting
        with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
            write_bytes(self._file, json.dumps({"format": FORMAT, "files": merged}).encode())


def _state(file: NamedFile) -> str:
    """Return a text that identifies a file's content without reading it (from `stat`), and how the file is hashed."""
    status = file.path.stat()
    numbers = (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        int(file.configuration),
    )
    return ":".join(map(str, numbers))


def _changed(file: NamedFile) -> float:
    """Return the time of a file's last change, of content or status, in seconds."""
    status = file.path.stat()
    return max(status.st_mtime, status.st_ctime)


class _Progress:
    """Prints progress while many bytes are read."""

    def __init__(self, title: str, total: int) -> None:
        self._total, self._read, self._last = total, 0, time.monotonic()
        if total >= LARGE:
            print(f"bench: reading {size(total)} of {title} to identify it; this is done once", file=sys.stderr)

    def read(self, count: int) -> None:
        self._read += count
        if self._total >= LARGE and time.monotonic() - self._last >= PAUSE:
            self._last = time.monotonic()
            print(f"bench: {size(self._read)} of {size(self._total)} read", file=sys.stderr, flush=True)


def cache() -> Path:
    """Return the file of the user's cache that holds remembered digests."""
    home = Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench")
    return home / "digests.json"


@functools.lru_cache(maxsize=8)
def memory(file: Path) -> Memory:
    """Return the `Memory` stored in `file`; calls for the same file return the same object."""
    return Memory(file)
