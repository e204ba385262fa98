"""A tiny SAM 2, saved and loaded: its masks and tracks equal those of transformers' own classes, in batches too, and
what cannot work is refused."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models import checkup
from guidebench.harness.models.backends.transformers_.segmenting import POINTS_AT_A_TIME
from guidebench.harness.models.calls import Call, EmbedCall, SegmentCall, TrackCall
from guidebench.harness.models.calls.segment import mask_of, overlap
from guidebench.harness.models.calls.track import track_of_masks
from guidebench.harness.models.embedders.transformers_segmenter import Segmenter, Tracker
from tests.cell_views import cell_view
from tests.conftest import require
from tests.harness.models.test_convert import WritesOnLoad
from tests.refusals import check_refused

require("transformers")

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 48, 40, 3), np.uint8)
POINTS = ((10.0, 12.5), (30.0, 31.0))


def answers_of(config: Segmenter, *calls: Call) -> list[Any]:
    async def ask() -> Sequence[Any]:
        model = config.spawn_model("cpu")
        try:
            return await asyncio.gather(*(model.answer(call) for call in calls))
        finally:
            await model.close()

    replies = asyncio.run(ask())
    for call, reply in zip(calls, replies, strict=True):
        assert call.fault(reply.value) == "" and reply.usage.images == len(call.images())
    return [reply.value for reply in replies]


@torch.inference_mode()
def by_transformers(directory: Path, image: Array, point: tuple[float, float]) -> tuple[Array, float]:
    """Return the best of the three masks of one point and its score, from a plain forward pass of the model."""
    from transformers import Sam2Model, Sam2Processor

    model, prepare = Sam2Model.from_pretrained(directory).eval(), Sam2Processor.from_pretrained(directory)
    inputs = prepare(images=image, input_points=[[[list(point)]]], input_labels=[[[1]]], return_tensors="pt")
    sizes = inputs.pop("original_sizes")
    output = model(**inputs)
    best = int(output.iou_scores[0, 0].argmax())
    return prepare.post_process_masks(output.pred_masks, sizes)[0][0, best].numpy(), float(
        output.iou_scores[0, 0, best]
    )


def test_its_masks_are_those_of_the_model_image_by_image(tiny: Callable[..., Path]) -> None:
    calls = [SegmentCall(image, POINTS, "not read") for image in IMAGES]
    answers = answers_of(Segmenter(model=str(tiny("sam2"))), *calls)
    for image, masks in zip(IMAGES, answers, strict=True):
        assert len(masks) == len(POINTS) and all(mask["means"] == "" for mask in masks)
        for point, mask in zip(POINTS, masks, strict=True):
            expected, score = by_transformers(tiny("sam2"), image, point)
            shape = mask_of(mask["runs"], image.shape[:2])
            assert overlap(shape, expected) > 0.99 and mask["score"] == pytest.approx(score, abs=1e-4)
            assert 0.01 < shape.mean() < 0.99, "a mask with an edge"


def test_points_beyond_one_pass_have_the_masks_of_each_alone(tiny: Callable[..., Path]) -> None:
    points = tuple((2.0 * at, 45.0 - 2 * at) for at in range(POINTS_AT_A_TIME + 3))
    segmenter = Segmenter(model=str(tiny("sam2")), batch_size=1)
    (together,) = answers_of(segmenter, SegmentCall(IMAGES[0], points))
    alone = answers_of(segmenter, *(SegmentCall(IMAGES[0], (point,)) for point in points[::6]))
    assert len(together) == len(points)
    assert SegmentCall(IMAGES[0], points[::6]).distance([masks[0] for masks in alone], together[::6]) < 0.01
    assert len({tuple(mask["runs"]) for mask in together}) > 5
    assert answers_of(segmenter, SegmentCall(IMAGES[0], points)) == [together], "the same masks again, pixel by pixel"
    assert answers_of(segmenter, SegmentCall(IMAGES[0], ())) == [[]]


@torch.inference_mode()
def test_its_tracks_are_those_of_the_video_model(tiny: Callable[..., Path]) -> None:
    from transformers import Sam2VideoModel, Sam2VideoProcessor

    calls = [TrackCall(IMAGES, POINTS[0]), TrackCall(IMAGES[::-1], POINTS[1])]
    tracker = Tracker(model=str(tiny("sam2")))
    tracks = answers_of(tracker, *calls)
    model = Sam2VideoModel.from_pretrained(tiny("sam2")).eval()
    prepare = Sam2VideoProcessor.from_pretrained(tiny("sam2"))
    for call, track in zip(calls, tracks, strict=True):
        session = prepare.init_video_session(video=call.frames.copy())
        prepare.add_inputs_to_inference_session(
            session, frame_idx=0, obj_ids=7, input_points=[[[list(call.point)]]], input_labels=[[[1]]]
        )
        outputs = [model(session, frame_idx=at).pred_masks for at in range(len(call.frames))]
        masks = [prepare.post_process_masks([output], [[48, 40]])[0][0, 0].numpy() for output in outputs]
        assert track == pytest.approx(track_of_masks(np.stack(masks), call.point), abs=0.05)
        assert (track[:, 2] == 1).any() and len(np.unique(track[:, 0])) > 1
    assert [track.tobytes() for track in answers_of(tracker, *calls)] == [track.tobytes() for track in tracks]


def test_other_calls_and_other_models_are_refused(tiny: Callable[..., Path], tmp_path: Path) -> None:
    from transformers import Sam2Model, Sam2Processor

    with pytest.raises(UserError, match="is here to segment, and answers no call of kind 'embed'"):
        answers_of(Segmenter(model=str(tiny("sam2"))), EmbedCall(("a",)))
    with pytest.raises(UserError, match="is here to track, and answers no call of kind 'segment'"):
        answers_of(Tracker(model=str(tiny("sam2"))), SegmentCall(IMAGES[0], POINTS))
    with pytest.raises(UserError, match="is of type 'clip', which cannot segment; choose a SAM 2 such as sam2"):
        Segmenter(model=str(tiny("clip"))).spawn_model("cpu")
    Sam2Model.from_pretrained(tiny("sam2")).save_pretrained(tmp_path / "images")
    Sam2Processor.from_pretrained(tiny("sam2")).save_pretrained(tmp_path / "images")
    (tmp_path / "images/config.json").write_text(
        (tmp_path / "images/config.json").read_text().replace('"model_type": "sam2_video"', '"model_type": "sam2"')
    )
    with pytest.raises(UserError, match="is of type 'sam2', which cannot track; choose a SAM 2 with weights for video"):
        Tracker(model=str(tmp_path / "images")).spawn_model("cpu")


def test_pickled_weights_are_refused_and_not_run(tiny: Callable[..., Path], tmp_path: Path) -> None:
    shutil.copytree(tiny("sam2"), tmp_path / "pickled")
    (tmp_path / "pickled/model.safetensors").unlink()
    torch.save({"weights": WritesOnLoad(tmp_path / "ran")}, tmp_path / "pickled/pytorch_model.bin")
    check_refused(
        r"the model in .*pickled cannot be loaded", Segmenter(model=str(tmp_path / "pickled")).spawn_model, "cpu"
    )
    check_refused(
        r"is no safetensors file; `bench models convert", Segmenter(model="sam2.1_hiera_tiny.pt").spawn_model, "cpu"
    )
    assert not (tmp_path / "ran").exists()


def test_what_is_not_here_is_said_before_a_run(tmp_path: Path) -> None:
    for config in (Segmenter(), Tracker()):
        check_refused(r"SAM 2.1 Hiera L .* is not on this machine; get it with `hf download", config.ready)
        check_refused("is not on this machine", config.spawn_model, "cpu")
    check_refused("there is nothing at this path", Segmenter(model=str(tmp_path / "none")).ready)


def test_the_roles_mean_them_and_other_models_do_not_fit() -> None:
    assert registry.meant("embedder", "transformers", "segmenter") == "transformers_segmenter"
    assert registry.meant("embedder", "transformers", "tracker") == "transformers_tracker"
    assert Segmenter().fits(cell_view()) == "" == Tracker(model="an/unknown-one").fits(cell_view())
    assert "answers no call of kind 'track'; choose sam2" in Tracker(model="clip").fits(cell_view())


def test_a_checkup_loads_them_and_makes_a_small_call(tiny: Callable[..., Path]) -> None:
    for config, summary in ((Segmenter, "1 mask"), (Tracker, "the point in 3 frames; it is seen in")):
        findings = {finding.name: finding for finding in checkup.findings(config(model=str(tiny("sam2"))), "embedder")}
        assert all(finding.ok for finding in findings.values()), findings
        assert summary in findings["call"].text
