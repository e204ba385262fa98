"""Bounds the network that a config.json describes by the weights beside it.

A library allocates what the configuration describes before it finds that the weights are smaller. So the network is
first built without memory, on torch's meta device, and its bytes are compared with those of the weights. It is built by
the class and in the contexts by which the loader builds it, so that one which cannot be built here cannot be loaded,
and is refused. Call `check` in the separate process, since it lets the library read the configuration.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.identity.digests import CODE
from guidebench.harness.outside import DOCUMENT, FEW, ITEM_BITS, PLAIN, Header, document
from guidebench.harness.texts import one_line

MANY = 2_000
"""Arrays that any network may have beyond `PLAIN` times those of its weights: one of more is not built to its end."""
PACKED_BITS = 4
"""Bits of a number of a network whose configuration says that its weights are quantized."""
LOADED_BITS = 16
"""Fewest bits of a number of any other network, whatever its weights have: no loader makes fewer."""
AUTO = ""
"""Loader of a transformers model whose class follows from its configuration (`loading.architecture_of`)."""


def check(folder: Path, loader: str, headers: Sequence[Header], weight_bytes: int) -> None:
    """Raise UserError if the config.json of a folder describes a network that is more than `PLAIN` times as large as
    the weights of the folder, or one that its library cannot build. `loader`: class that will load the folder, such as
    `transformers.CLIPTextModel`, or `AUTO`; `weight_bytes`: the bytes of the files with these headers. Networks up to
    `FEW` bytes are always allowed. What the loader refuses before it builds anything is left to it: a package that is
    missing, code of a model's own without consent, a type of model that its class does not load."""
    file = folder / "config.json"
    content = document(file, DOCUMENT)
    if not isinstance(content, dict):
        raise UserError(f"{file} is no JSON object; restore it")
    arrays = sum(len(header.shapes) for header in headers)
    most = max(PLAIN * weight_bytes, FEW)
    try:
        bits = PACKED_BITS if _is_quantized(content) else max(LOADED_BITS, _usual_bits(headers))
        with _at_most(PLAIN * arrays + MANY, file, arrays):
            network = _built(folder, loader)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # a library may raise anything
        if isinstance(error, ImportError) or CODE in content:  # or the loader asks for consent
            return
        raise UserError(
            f"{file} describes a network that its library cannot build ({type(error).__name__}: "
            f"{one_line(str(error)[:200])}); restore the configuration that belongs to the weights"
        ) from None
    if network is None:
        return
    numbers = sum(tensor.numel() for tensor in chain(network.parameters(), network.buffers()))
    if numbers * bits // 8 > most:
        raise UserError(
            f"{file} describes a network of {numbers * bits // 8:,} bytes ({numbers:,} numbers of {bits} bits), and "
            f"the weights beside it have {weight_bytes:,}; at most {PLAIN} times the weights are loaded: restore the "
            f"configuration that belongs to them"
        )


def _is_quantized(configuration: Mapping[str, Any]) -> bool:
    """Return whether a configuration says that weights are quantized, by a method that the library knows: it loads the
    network of another one as if it were not quantized."""
    quantization = configuration.get("quantization_config")
    if not quantization:
        return False
    from transformers.quantizers.auto import AutoHfQuantizer

    return bool(AutoHfQuantizer.supports_quant_method(quantization))


def _usual_bits(headers: Sequence[Header]) -> int:
    """Return the bits of a number of the dtype in which most bytes of the weights are."""
    bits_of = Counter[str]()
    for header in headers:
        for name, shape in header.shapes.items():
            bits_of[header.dtypes[name]] += prod(shape) * ITEM_BITS[header.dtypes[name]]
    return ITEM_BITS[bits_of.most_common(1)[0][0]] if bits_of else 32


def _built(folder: Path, loader: str) -> Any:
    """Return the network of a folder's configuration on the meta device, as its loader begins to build it; None if the
    loader builds no networks of its type."""
    import torch

    package, _, name = loader.partition(".")
    if package == "diffusers":
        part_class = getattr(importlib.import_module(package), name)
        with torch.device("meta"):
            return part_class.from_config(part_class.load_config(folder))
    import transformers
    from transformers import initialization

    from guidebench.harness.models.backends.transformers_.loading import architecture_of

    network_class: Any = getattr(transformers, name) if name else None
    if config_class := getattr(network_class, "config_class", None):  # whatever the type that config.json names
        config, build = config_class.from_pretrained(folder), network_class._from_config
    else:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        auto_class = network_class or architecture_of(transformers, config)[1]
        if type(config) not in auto_class._model_mapping:
            return None
        build = functools.partial(auto_class.from_config, trust_remote_code=False)
    with torch.device("meta"), initialization.meta_device_safe_creation_ops():
        return build(config, dtype=torch.float32)


@contextmanager
def _at_most(count: int, file: Path, arrays: int) -> Iterator[None]:
    """Raise UserError as soon as more than `count` parameters are made. `arrays`: the number in the weights."""
    from torch.nn.modules import module

    made = 0

    def note(owner: Any, name: str, parameter: Any) -> None:
        nonlocal made
        made += 1
        if made > count:
            raise UserError(
                f"{file} describes a network of more than {count:,} arrays, and the weights beside it have {arrays:,}; "
                f"restore the configuration that belongs to them"
            )

    hook = module.register_module_parameter_registration_hook(note)
    try:
        yield
    finally:
        hook.remove()
