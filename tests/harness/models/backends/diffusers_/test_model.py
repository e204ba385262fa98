"""A tiny Stable Diffusion pipeline, saved and loaded: its errors equal those computed with diffusers' own scheduler,
and what cannot be loaded is refused."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models import checkup
from guidebench.harness.models.calls import DenoiseCall, EmbedCall
from guidebench.harness.models.embedders.diffusers_ import Diffusers
from tests.cell_views import cell_view
from tests.conftest import require
from tests.harness.models.test_convert import WritesOnLoad
from tests.refusals import check_refused

require("diffusers")

FRAMES = tuple(np.random.default_rng(0).integers(0, 256, (3, 48, 48, 3), np.uint8))


def answer_of(directory: Path, call: Any, **settings: Any) -> Array:
    async def ask() -> Any:
        model = Diffusers(model=str(directory), **settings).spawn_model("cpu")
        try:
            return await model.answer(call)
        finally:
            await model.close()

    reply = asyncio.run(ask())
    assert call.fault(reply.value) == "" and reply.usage.images == len(call.frames)
    return np.asarray(reply.value)


@torch.inference_mode()
def by_pipeline(directory: Path, frame: Array, text: str, level: int, seed: int) -> list[float]:
    """Return the three errors of one frame, computed with the parts of the pipeline as diffusers loads it."""
    from diffusers import StableDiffusionPipeline

    pipe = StableDiffusionPipeline.from_pretrained(directory)
    image = torch.from_numpy(frame).permute(2, 0, 1)[None].double() / 255
    image = torch.nn.functional.interpolate(image, (32, 32), mode="bilinear", align_corners=False)
    of_vae = pipe.vae.encode((image * 2 - 1).float()).latent_dist
    sampled, noise = torch.randn((2, 1, 4, 16, 16), generator=torch.Generator().manual_seed(seed))
    latent = (of_vae.mean + torch.exp(0.5 * of_vae.logvar) * sampled) * 0.18215
    noised = pipe.scheduler.add_noise(latent, noise, torch.tensor([level]))
    states = []
    for prompt in ("", text):
        words = pipe.tokenizer(prompt, padding="max_length", max_length=12, truncation=True, return_tensors="pt")
        states.append(pipe.text_encoder(words.input_ids).last_hidden_state)
    empty, conditioned = (pipe.unet(noised, level, encoder_hidden_states=state).sample for state in states)
    pairs = ((conditioned, empty), (empty, noise), (conditioned, noise))
    return [float(((first - second) ** 2).mean()) for first, second in pairs]


def test_its_errors_are_those_of_the_pipeline_frame_by_frame(tiny: Callable[..., Path]) -> None:
    text = "a robot opens the door"
    errors = answer_of(tiny("diffusion"), DenoiseCall(FRAMES, text, 512, (5, 6, 7)))
    expected = [by_pipeline(tiny("diffusion"), f, text, 512, s) for f, s in zip(FRAMES, (5, 6, 7), strict=True)]
    assert errors == pytest.approx(np.array(expected), rel=1e-3) and (errors > 0).all()
    assert len(np.unique(errors[:, 1])) == 3


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("unet/config.json", {"cross_attention_dim": 2**24}, "describes a network of [0-9,]+ bytes"),
        ("vae/config.json", {"block_out_channels": [2**16, 2**16]}, "describes a network of [0-9,]+ bytes"),
        ("vae/config.json", {"_class_name": "UNet2DModel", "latent_channels": 2**24}, "describes a network of "),
        ("text_encoder/config.json", {"model_type": "gpt2", "vocab_size": 2**28}, "describes a network of [0-9,]+ byt"),
        ("text_encoder/config.json", {"hidden_size": "wide"}, r"that its library cannot build \(\w+: "),
        ("scheduler/scheduler_config.json", {"num_train_timesteps": 2**31}, "at most 100,000 levels of noise"),
    ],
)
def test_a_part_that_is_much_larger_than_its_weights_is_refused_whatever_it_is_called(
    tiny: Callable[..., Path], tmp_path: Path, file: str, change: dict[str, object], says: str
) -> None:
    directory = Path(shutil.copytree(tiny("diffusion"), tmp_path / "vast"))
    (directory / file).write_text(json.dumps(json.loads((directory / file).read_text()) | change))
    with pytest.raises(UserError, match=says) as refused:
        Diffusers(model=str(directory)).spawn_model("cpu")
    assert str(directory / file) in str(refused.value)


def test_a_frames_noise_follows_from_its_seed_alone(tiny: Callable[..., Path]) -> None:
    def errors(*seeds: int, level: int = 512) -> Array:
        return answer_of(tiny("diffusion"), DenoiseCall(FRAMES[: len(seeds)], "a door", level, seeds), batch_size=1)

    torch.manual_seed(1)
    first = errors(5, 6)
    torch.manual_seed(2)
    assert errors(5, 6).tobytes() == first.tobytes(), "independent of the process's own generator"
    assert errors(5).tobytes() == first[:1].tobytes()
    assert (errors(6, 6)[0] != first[0]).all() and (errors(6, 6)[1] == first[1]).all()
    assert (errors(5, level=513) != first[0]).all()


def test_the_empty_text_makes_no_difference(tiny: Callable[..., Path]) -> None:
    errors = answer_of(tiny("diffusion"), DenoiseCall(FRAMES[:1], "", 500, (0,)))
    assert errors[0, 0] < 1e-9 and errors[0, 1] == pytest.approx(errors[0, 2], rel=1e-5)


def test_a_level_that_the_model_lacks_and_other_calls_are_refused(tiny: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"levels 0 to 999, and 1000 is asked for; .*guide\.least_noise"):
        answer_of(tiny("diffusion"), DenoiseCall(FRAMES[:1], "a", 1000, (0,)))
    check_refused("answers no call of kind 'embed'", answer_of, tiny("diffusion"), EmbedCall(("a",)))


def test_a_model_that_predicts_no_noise_is_refused(tiny: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="predicts 'v_prediction'; expected one that predicts the noise"):
        Diffusers(model=str(tiny("diffusion", prediction="v_prediction"))).spawn_model("cpu")


def test_pickled_weights_and_missing_parts_are_refused(tiny: Callable[..., Path], tmp_path: Path) -> None:
    shutil.copytree(tiny("diffusion"), tmp_path / "pickled")
    (tmp_path / "pickled/unet/diffusion_pytorch_model.safetensors").unlink()
    torch.save({"weights": WritesOnLoad(tmp_path / "ran")}, tmp_path / "pickled/unet/diffusion_pytorch_model.bin")
    shutil.copytree(tiny("diffusion"), tmp_path / "partial")
    shutil.rmtree(tmp_path / "partial/vae")
    for name in ("pickled", "partial"):
        check_refused(
            f"the model in .*{name} cannot be loaded", Diffusers(model=str(tmp_path / name)).spawn_model, "cpu"
        )
    assert not (tmp_path / "ran").exists()


def test_what_is_not_here_is_said_before_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_refused(r"Stable Diffusion 2.1 base .* is not on this machine; get it with `hf download", Diffusers().ready)
    check_refused("there is nothing at this path", Diffusers(model=str(tmp_path / "none")).ready)
    import importlib.util

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "diffusers" else find_spec(name))
    check_refused(r"diffusers is missing; install the extra vlm", Diffusers().ready)


def test_it_is_registered_and_refuses_a_model_that_denoises_nothing() -> None:
    assert registry.get("embedder", "diffusers") is Diffusers and Diffusers.answers == ("denoise",)
    assert Diffusers().fits(cell_view()) == "" == Diffusers(model="an/unknown-one").fits(cell_view())
    assert "is no diffusion model; choose sd-2.1-base" in Diffusers(model="clip").fits(cell_view())


def test_a_checkup_loads_it_and_makes_a_small_call(tiny: Callable[..., Path]) -> None:
    findings = {
        finding.name: finding for finding in checkup.findings(Diffusers(model=str(tiny("diffusion"))), "embedder")
    }
    assert all(finding.ok for finding in findings.values()), findings
    assert "errors of 1 frame;" in findings["call"].text and "safetensors in" in findings["files"].text
