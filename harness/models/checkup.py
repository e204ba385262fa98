"""Check whether a foundation model can be used from this machine: its files or its server, and one small call."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, get_args

from guidebench.harness import outside, registry
from guidebench.harness.errors import UserError
from guidebench.harness.findings import Finding
from guidebench.harness.models import single_calls
from guidebench.harness.models.access import GGUF
from guidebench.harness.models.backends import parameters, recipes
from guidebench.harness.models.backends.openai_.choosing import ChoiceBy
from guidebench.harness.models.calls import Call, ChatCall, Failure
from guidebench.harness.parts import CHOICE, SCHEMA, FilePart
from guidebench.harness.plan import answering

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
WORKING = 1.5
"""Memory of a running model, in multiples of its weights (choice; long clips in large batches take more)."""


def findings(config: Any, kind: str = "judge") -> Iterator[Finding]:
    """Yield the checks of a foundation model as they are made. `config`: built configuration of a judge, chat or
    embedder, which `kind` names."""
    config = config.resolved() if isinstance(config, FilePart) else config
    if (recipe_finding := _recipe(config.model)) is not None:
        yield recipe_finding
    if config.backend == "openai":
        yield from _server(config, kind)
        return
    if config.backend == "transformers":
        has_weights = yield from _weights(config)
        if not has_weights:
            return
    yield _call_finding("call", config, tiny(config, kind))


def _recipe(model: str) -> Finding | None:
    recipe = recipes.recipe(model)
    if recipe is None:
        return None
    text = f"{recipe.title}; {recipe.price_words}; {recipe.licence}. {recipe.note}"
    return Finding("recipe", bool(recipe.calls), text)


def tiny(config: Any, kind: str) -> Call:
    """Return a small call to a model, of the kind that its kind of part (judge, chat, embedder) usually gets, or a
    choice or an object for a chat that answers so. If the recipe of a judge's model does not list judging, return a
    chat or embed call; if a model declares only other kinds of call, return the first of them."""
    answers, recipe = answering.answered(kind, config), recipes.recipe(config.model)
    if config.answer_form == SCHEMA:
        return ChatCall.small_object()
    usual = CHOICE if config.answer_form == CHOICE else answering.USUAL[kind]
    if kind == "judge" and recipe is not None and "judge" not in recipe.calls:
        usual = "chat" if "chat" in recipe.calls else "embed"
    small: Call = registry.get("call", usual if usual in answers else answers[0]).small()
    return small


def _call_finding(name: str, config: Any, call: Call, missing: bool | None = False) -> Finding:
    """Make a call and return a finding named `name` about its outcome. `missing`: the finding's verdict if there is no
    usable answer."""
    started = time.perf_counter()
    try:
        reply = single_calls.ask(config, call)
    except UserError as error:
        return Finding(name, missing, str(error))
    seconds = time.perf_counter() - started
    if isinstance(reply, Failure):
        return Finding(name, missing, f"{reply.kind}: {reply}")
    if fault := call.fault(reply.value):
        return Finding(name, missing, f"malformed: {fault}")
    if fault := call.small_fault(reply.value):
        return Finding(name, missing, fault)
    answer = f"answered {reply.value[:40]!r}" if isinstance(reply.value, str) else call.words(reply.value)[:80]
    if "mass" in reply.detail:
        answer += f" of a mass of {float(reply.detail['mass']):.3f} for yes and no"
    served = f", by {reply.detail['served_by']} as it says" if reply.detail.get("served_by") else ""
    took = f"{reply.usage.seconds:.2f} s" + (f", {seconds:.1f} s with loading" if config.backend != "openai" else "")
    return Finding(name, True, f"{answer}{served}; {took}; {reply.usage.tokens_in} tokens in")


def _weights(config: Any) -> Generator[Finding, None, bool]:
    """Check files and memory of a local model; return whether it can be loaded without a download."""
    from guidebench.harness.models.backends.transformers_.loading import local_path, missing

    try:
        name = recipes.repository(config.model)
        place = local_path(name, config.revision)
    except UserError as error:
        yield Finding("files", False, str(error))
        return False
    if place is None:
        yield Finding("files", None, missing(name))
        return False
    if place.suffix == GGUF:
        return (yield from _gguf(place, config))
    pattern = "*/*.safetensors" if (place / "model_index.json").is_file() else "*.safetensors"
    files = [place] if place.is_file() else sorted(place.glob(pattern))
    try:
        lacking = _lacking(place, files)
        count, size = parameters.of_files(files), sum(file.stat().st_size for file in files)
    except Exception as error:  # a damaged file may raise anything
        lacking = f"{place} is damaged ({type(error).__name__}: {error}); download it again"
    if lacking:
        yield Finding("files", False, lacking)
        return False
    yield Finding("files", True, f"{count / 1e9:.3g} billion parameters, {size / GIB:.2f} GiB safetensors in {place}")
    yield from _size(config, count)
    return True


def _gguf(file: Path, config: Any) -> Generator[Finding, None, bool]:
    """Check a GGUF file and the memory of its model; return whether it can be loaded."""
    from guidebench.harness.models.backends import gguf_files

    try:
        header = gguf_files.header(file)
    except UserError as error:
        yield Finding("files", False, str(error))
        return False
    numbers = f"{header.parameters / 1e9:.3g} billion parameters of {header.architecture or 'an unnamed architecture'}"
    yield Finding("files", True, f"{numbers}, {file.stat().st_size / GIB:.2f} GiB GGUF in {file}")
    if not header.has_template:
        yield Finding("template", None, "no chat template: a base model, which goes on with a text and rarely answers")
    yield from _size(config, header.parameters)
    return True


def _size(config: Any, count: int) -> Iterator[Finding]:
    """Yield the digest of a local model's files, and whether its `count` parameters fit into memory."""
    if isinstance(config, FilePart) and (digest := config.content()) is not None:
        yield Finding("digest", True, digest)
    device = config.device or single_calls.device()
    needed, free = WORKING * count * BYTES.get(config.dtype, 4), _free_memory(device)
    text = f"about {needed / GIB:.2f} GiB at work in {config.dtype} on {device}, {free / GIB:.1f} GiB free"
    yield Finding("memory", needed < free, text + ("" if needed < free else "; choose a smaller model or dtype"))


def _lacking(place: Path, files: list[Path]) -> str:
    """Return a message about the files that a model's path or directory lacks, or ""."""
    if place.is_file():
        return (
            "" if place.suffix == ".safetensors" else f"{place} is no safetensors file; see `bench models convert -h`"
        )
    if not (place / "config.json").is_file() and not (place / "model_index.json").is_file():
        return f"{place} has no config.json; name the directory that a model was saved into"
    index = place / "model.safetensors.index.json"
    listed = set(outside.read_document(index)["weight_map"].values()) if index.is_file() else set()
    if missing := sorted(listed - {file.name for file in files}):
        return f"{place} lacks {', '.join(missing[:3])}, of {len(listed)} files of weights; download it again"
    if not files:
        return f"{place} holds no *.safetensors; no other form of weights is loaded (see `bench models convert`)"
    return ""


def _free_memory(device: str) -> float:
    """Return the free memory of a device in bytes."""
    if device.startswith("cuda"):
        import torch

        return float(torch.cuda.mem_get_info(device)[0])
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _server(config: Any, kind: str) -> Iterator[Finding]:
    """Check whether a server responds and serves the model, and try each way of scoring."""
    from guidebench.harness.models.backends.openai_.server import Server

    async def listed() -> tuple[str, list[str] | Failure | UserError]:
        server = Server(config.base_url, config.key_variable, config.timeout, kind)
        try:
            return server.name, await server.models()
        except (Failure, UserError) as error:
            return server.name, error
        finally:
            await server.close()

    key = bool(os.environ.get(config.key_variable, "").strip())
    yield Finding("key", key or None, f"{config.key_variable} is {'set' if key else 'not set'}")
    try:
        model_name, (address, listed_models) = recipes.server_name(config.model), asyncio.run(listed())
    except UserError as error:
        yield Finding("server", False, str(error))
        return
    if isinstance(listed_models, Exception):
        away = isinstance(listed_models, UserError) or listed_models.kind in ("connection", "timeout")
        yield Finding("server", False if away else None, f"{address} lists no models: {listed_models}")
        if away:
            return
    else:
        others = ", ".join(listed_models[:8]) or "nothing"
        text = f"lists {model_name!r}" if model_name in listed_models else f"does not list {model_name!r}, but {others}"
        yield Finding("server", True if model_name in listed_models else None, f"{address} {text}")
    call = tiny(config, kind)
    setting = {"judge": "scoring", CHOICE: "choice_by"}.get(call.kind)
    if setting is None:
        yield _call_finding("call", config, call)
        return
    for way in get_args(recipes.Scoring if call.kind == "judge" else ChoiceBy):
        choice_by = {"choice_by": config.choice_by or "label"} if setting == "scoring" and way == CHOICE else {}
        tried = dataclasses.replace(config, **{setting: way, **choice_by})
        yield _call_finding(way, tried, call, missing=False if way == getattr(config, setting) else None)
