"""Loading the parts of a latent diffusion pipeline, each by its own class, so that no file chooses the code that
runs."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import torch

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import outside_files, recipes
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import device_of, local_path, needs_extra, unloadable

LOADERS = {
    "unet": "diffusers.UNet2DConditionModel", "vae": "diffusers.AutoencoderKL",
    "text_encoder": "transformers.CLIPTextModel",
}  # fmt: skip
"""Folder of a pipeline -> class that loads its network."""


@dataclass(frozen=True)
class Pipeline:
    """A latent diffusion model in evaluation mode on its device."""

    name: str
    network: Any
    """Predicts the noise of a noised latent, given its level and a text's states: UNet2DConditionModel."""
    autoencoder: Any
    """Encodes pixels as latents: AutoencoderKL."""
    text_encoder: Any
    tokenizer: Any
    schedule: torch.Tensor
    """ᾱ, the share of the latent's variance that is left at each noise level, float32 [levels]."""
    device: torch.device

    @property
    def side(self) -> int:
        """Pixels along each edge of the images that the model was trained on."""
        return int(self.network.config.sample_size * 2 ** (len(self.autoencoder.config.block_out_channels) - 1))


def load(source: Source) -> Pipeline:
    """Load a pipeline as diffusers saves it: a directory or repository with the folders unet, vae, text_encoder,
    tokenizer and scheduler. Raise UserError for a missing package or folder, other weights than safetensors, a model
    that predicts anything but noise, or a missing device."""
    check_packages()
    import diffusers
    import transformers
    from safetensors import SafetensorError

    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    name, device = recipes.repository(source.model), device_of(source.device)
    named: dict[str, Any] = {"revision": source.revision}
    weights = {**named, "use_safetensors": True}
    precision = getattr(torch, source.dtype)
    outside_files.check(local_path(name, source.revision), LOADERS)
    try:
        scheduler = diffusers.DDIMScheduler.from_pretrained(name, subfolder="scheduler", **named)
        network = diffusers.UNet2DConditionModel.from_pretrained(
            name, subfolder="unet", torch_dtype=precision, **weights
        )
        autoencoder = diffusers.AutoencoderKL.from_pretrained(name, subfolder="vae", torch_dtype=precision, **weights)
        texts = transformers.CLIPTextModel.from_pretrained(name, subfolder="text_encoder", dtype=precision, **weights)
        tokenizer = transformers.CLIPTokenizer.from_pretrained(name, subfolder="tokenizer", **named)
    except ImportError as error:
        raise needs_extra(f"model {name!r} needs a package that is missing ({error})") from None
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise unloadable(name, source, error) from None
    if scheduler.config.prediction_type != "epsilon":
        raise UserError(
            f"model {name!r} predicts {scheduler.config.prediction_type!r}; expected one that predicts the noise "
            f"(epsilon), such as sd-2.1-base"
        )
    network, autoencoder, texts = (
        part.eval().requires_grad_(False).to(device) for part in (network, autoencoder, texts)
    )
    return Pipeline(source.model, network, autoencoder, texts, tokenizer, scheduler.alphas_cumprod.float(), device)


def check_packages() -> None:
    """Raise UserError if diffusers or transformers is not installed."""
    for package in ("diffusers", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise needs_extra(f"the package {package} is missing")
