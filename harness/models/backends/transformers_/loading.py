"""Loading a model and its processor by name or local path: only safetensors, and no repository code without consent."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from pathlib import Path
from typing import Any

from guidebench.harness import extras
from guidebench.harness.errors import UserError, full, too_large
from guidebench.harness.models.access import GGUF
from guidebench.harness.models.backends import gguf_files, outside_files, packages, recipes
from guidebench.harness.models.backends.transformers_ import templates
from guidebench.harness.models.backends.transformers_.loaded_model import Kind, LoadedModel, Source

PICKLED = (".pt", ".pth", ".bin")
"""Name endings of checkpoints that torch.save wrote; opening one could run code."""

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,94}(/[A-Za-z0-9][\w.-]{0,94})?")
"""Names of repositories, apart from rarer ones."""


def load(source: Source) -> LoadedModel:
    """Load a model; raise UserError for a missing package, unknown model, other weights than safetensors, or missing
    device."""
    name = packages.located(recipes.repository(source.model))
    if name.endswith(PICKLED):
        raise UserError(f"model {_pickled(name)}")
    device = device_of(source.device)
    if name.endswith(".safetensors"):
        return LoadedModel(source.model, "embedding", _single_file(name, source.dtype, device), None)
    if name.endswith(GGUF):
        return _gguf(source, Path(name), device)
    transformers = _transformers()
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    options = {"revision": source.revision, "trust_remote_code": source.trust_remote_code}
    outside_files.check(local_path(name, source.revision))
    try:
        config = transformers.AutoConfig.from_pretrained(name, **options)
        kind, architecture = architecture_of(transformers, config)
        model = architecture.from_pretrained(name, config=config, dtype=source.dtype, use_safetensors=True, **options)
        processor = _processor(transformers, name, kind, options)
    except ImportError as error:
        raise needs_extra(f"model {name!r} needs a package that is missing ({error})") from None
    except (OSError, ValueError, SafetensorError, StrictDataclassError) as error:
        raise unloadable(name, source, error) from None
    return _loaded(source, kind, model, processor, device)


def _loaded(source: Source, kind: Kind, model: Any, processor: Any, device: Any) -> LoadedModel:
    """Return a model on its device, without gradients and with a token to pad with."""
    tokenizer = getattr(processor, "tokenizer", processor)
    if getattr(tokenizer, "pad_token", "") is None:
        tokenizer.pad_token = tokenizer.eos_token  # GPT-2 has none; padded positions are masked
    loaded = LoadedModel(source.model, kind, model.eval().requires_grad_(False).to(device), processor)
    if kind != "embedding" and isinstance(template := templates.template_of(loaded), str):
        templates.check(source.model, template, tokenizer.special_tokens_map)
    return loaded


def _gguf(source: Source, file: Path, device: Any) -> LoadedModel:
    """Return the model of texts in a GGUF file, its weights in full precision (`source.dtype`)."""
    gguf_files.header(file)
    transformers = _transformers()
    with gguf_files.alone(file) as folder:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file.name, padding_side="left")
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, gguf_file=file.name, dtype=source.dtype,
                quantization_config=transformers.GgufConfig(dequantize=True),
            )  # fmt: skip
        except Exception as error:  # it parses the file's metadata, and damage there may show as any error
            raise unloadable(str(file), source, error) from None
    return _loaded(source, "text", model, tokenizer, device)


def _single_file(file: str, dtype: str, device: Any) -> Any:
    """Return the embedding model in a file of `bench models convert`; raise UserError for any other file."""
    from guidebench.harness.models.backends.transformers_ import open_clip_, s3d
    from guidebench.harness.models.backends.transformers_.single_files import read

    network = read(file).network
    if network not in ("", "s3d"):
        raise UserError(f"{file} holds a network {network!r}, which is not known here; update guidebench")
    return (s3d.S3DEmbedding if network else open_clip_.OpenClipEmbedding)(file, dtype, device)


def check(model: str, revision: str | None = None) -> None:
    """Raise UserError if `transformers` is not installed, a local path does not exist, or a repository's files are not
    on this machine; download nothing."""
    if importlib.util.find_spec("transformers") is None:
        raise needs_extra("the package transformers is missing")
    name = recipes.repository(model)
    if packages.is_package(name):
        packages.place(name)
    if name.startswith(("/", ".")) and not Path(name).exists():
        raise UserError(f"model={model}: there is nothing at this path; name a model's directory")
    if name.endswith(PICKLED):
        raise UserError(f"model={model}: {_pickled(name)}")
    if local_path(name, revision) is None:
        raise UserError(f"model={model}: {missing(name, revision)}")


def missing(name: str, revision: str | None = None) -> str:
    """Return that a model's files are not on this machine, and how to get them."""
    if packages.is_package(name):
        return packages.missing(name)
    if name.endswith(".safetensors"):
        return f"there is no file {name}; `bench models convert` makes one of a checkpoint that torch.save wrote"
    at = f" --revision {shlex.quote(revision)}" if revision else ""
    recipe = recipes.recipe(name)
    if recipe is None or not recipe.file:
        return f"{absent(name)}; get it with `hf download {shlex.quote(name)}{at}`"
    target = f"{recipe.name}.safetensors"
    return (
        f"{absent(name)}, and it is published as a file of torch.save; get that with `hf download {name} {recipe.file}"
        f"{at} --local-dir .`, make safetensors of it with `bench models convert {recipe.file} {target}`, and name "
        f"{target} as the model"
    )


def _pickled(name: str) -> str:
    """Return the message that a checkpoint of torch.save is never opened in a run, with the command that converts
    it."""
    made = shlex.join(["bench", "models", "convert", name, f"{Path(name).stem}.safetensors"])
    return f"{name} is no safetensors file; `{made}` makes one of it"


def absent(name: str) -> str:
    """Return the message that a repository is not on this machine, with size and licence if a recipe states them."""
    recipe = recipes.recipe(name)
    if recipe is None:
        return f"{name} is not on this machine"
    size = f"about {recipe.parameters * 2:.1f} GB, " if recipe.parameters else ""
    return f"{recipe.title} ({name}, {size}licence: {recipe.licence}) is not on this machine"


def local_path(name: str, revision: str | None) -> Path | None:
    """Return the path of a model's files: local, in an installed package, or in the download cache; None if they are
    nowhere here."""
    if packages.is_package(name):
        return packages.place(name)
    if Path(name).exists():
        return Path(name)
    try:
        from huggingface_hub import constants

        if (
            REPOSITORY.fullmatch(name)
            and not Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}").exists()
        ):
            return None  # before the import of what looks into the cache, which takes longer than planning a cell
        from huggingface_hub import try_to_load_from_cache

        # A pipeline of several models has an index in place of a configuration.
        config_file = next(
            (
                file
                for config in ("config.json", "model_index.json")
                if isinstance(file := try_to_load_from_cache(name, config, revision=revision), str)
            ),
            None,
        )
    except ImportError:
        raise needs_extra("the package transformers is missing") from None
    except ValueError:
        raise UserError(f"{name!r} is neither a directory here nor the name of a repository") from None
    return None if config_file is None else Path(config_file).parent


def _transformers() -> Any:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers share the cores
    try:
        import transformers
    except ImportError as error:
        raise needs_extra(f"the package transformers is missing ({error})") from None
    transformers.utils.logging.disable_progress_bar()
    return transformers


def needs_extra(problem: str) -> UserError:
    """Return the error that a package of the extra `vlm` is missing; `problem`: the sentence about it."""
    return extras.missing(problem, "vlm")


def architecture_of(transformers: Any, config: Any) -> tuple[Kind, Any]:
    """Return what a model of this configuration is used for, and the class that loads it."""
    named = (config.architectures or [""])[0]
    if type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return "vision", transformers.AutoModelForImageTextToText
    if named.endswith(("ForCausalLM", "LMHeadModel")):
        return "text", transformers.AutoModelForCausalLM
    return "embedding", transformers.AutoModel


def _processor(transformers: Any, name: str, kind: Kind, named: dict[str, Any]) -> Any:
    """Return a model's processor, which contains the tokenizer; for a text-only model, return the tokenizer itself."""
    if kind == "text":
        return transformers.AutoTokenizer.from_pretrained(name, padding_side="left", **named)
    processor = transformers.AutoProcessor.from_pretrained(name, **named)
    if kind == "vision":
        processor.tokenizer.padding_side = "left"
    return processor


def device_of(name: str) -> Any:
    """Return the torch device of a name; raise UserError if it cannot be used."""
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        if full(error):
            raise
        raise UserError(
            f"device {name!r} cannot be used ({str(error).splitlines()[0]}); expected cpu, or cuda on a machine with a "
            f"GPU, or cuda:1 for its second"
        ) from None
    return device


def unloadable(name: str, source: Source, error: Exception) -> UserError:
    """Return the error that a model's files could not be loaded, which says what to do."""
    return too_large(source.model, error) or UserError(_unloadable(name, source, error))


def _unloadable(name: str, source: Source, error: Exception) -> str:
    revision = f" at revision {source.revision!r}" if source.revision else ""
    message = " ".join(str(error).split())[:300]
    recipe = recipes.recipe(source.model)
    note = f". Of {recipe.title}: {recipe.note}" if recipe is not None else ""
    if "trust_remote_code" in str(error):
        return (
            f"model {name!r} brings code of its own, which is not run unasked; read it, and if you trust it set "
            f"trust_remote_code=true"
        )
    if Path(name).exists():
        return f"the model in {name} cannot be loaded: {message}"
    return (
        f"model {name!r}{revision} cannot be loaded: there is neither such a directory nor, within reach, such a "
        f"repository with safetensors weights; check the name, log in if it is gated (`hf auth login`), or name a "
        f"local path ({message}){note}"
    )
