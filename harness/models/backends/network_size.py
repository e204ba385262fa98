"""Bounds the network that a config.json describes by the weights beside it.

A library allocates what the configuration describes before it finds that the weights are smaller. So the network is
first built without memory, on torch's meta device, and its bytes are compared with those of the weights. Call `check`
in the separate process, since it lets the library read the configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.outside import DOCUMENT, FEW, ITEM_BITS, PLAIN, Header, document

MANY = 2_000
"""Arrays that any network may have beyond `PLAIN` times those of its weights: one of more is not built to its end."""
PACKED_BITS = 4
"""Bits of a number of a network whose configuration says that its weights are quantized."""
DIFFUSERS = ("UNet2DConditionModel", "AutoencoderKL")
"""Classes of the library diffusers that this program loads."""


def check(folder: Path, headers: Sequence[Header], weight_bytes: int) -> None:
    """Raise UserError if the config.json of a folder describes a network that is more than `PLAIN` times as large as
    the weights of the folder. `weight_bytes`: the bytes of the files with these headers. Networks up to `FEW` bytes are
    always allowed. A configuration of which the library builds no network is left to the loader, which says so."""
    file = folder / "config.json"
    content = document(file, DOCUMENT)
    if not isinstance(content, dict):
        return
    arrays = sum(len(header.shapes) for header in headers)
    bits = PACKED_BITS if "quantization_config" in content else _usual_bits(headers)
    most = max(PLAIN * weight_bytes, FEW)
    try:
        with _at_most(PLAIN * arrays + MANY, file, arrays):
            network = _built(folder, content)
    except (UserError, MemoryError):
        raise
    except Exception:  # a library may raise anything, and the loader meets the same error or can do what meta cannot
        return
    if network is None:
        return
    numbers = sum(tensor.numel() for tensor in chain(network.parameters(), network.buffers()))
    if numbers * bits // 8 > most:
        raise UserError(
            f"{file} describes a network of {numbers * bits // 8:,} bytes ({numbers:,} numbers of {bits} bits), and "
            f"the weights beside it have {weight_bytes:,}; at most {PLAIN} times the weights are loaded: restore the "
            f"configuration that belongs to them"
        )


def _usual_bits(headers: Sequence[Header]) -> int:
    """Return the bits of a number of the dtype in which most bytes of the weights are."""
    bits_of = Counter[str]()
    for header in headers:
        for name, shape in header.shapes.items():
            bits_of[header.dtypes[name]] += prod(shape) * ITEM_BITS[header.dtypes[name]]
    return ITEM_BITS[bits_of.most_common(1)[0][0]] if bits_of else 32


def _built(folder: Path, content: dict[str, Any]) -> Any:
    """Return the network of a configuration on the meta device; None for one of an unknown kind."""
    import torch

    if (name := content.get("_class_name")) in DIFFUSERS:
        import diffusers

        with torch.device("meta"):
            return getattr(diffusers, name).from_config(content)
    if "model_type" not in content:
        return None
    import transformers

    from guidebench.harness.models.backends.transformers_.loading import architecture_of

    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):
        return architecture_of(transformers, config)[1].from_config(config, trust_remote_code=False)


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
