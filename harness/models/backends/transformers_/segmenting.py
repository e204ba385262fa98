"""SAM 2: masks of what an image shows at points, and the object at a point followed through a video."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends import outside_files, recipes
from guidebench.harness.models.backends.transformers_.batching import Batcher
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import (
    check,
    device_of,
    local_path,
    needs_extra,
    unloadable,
)
from guidebench.harness.models.calls import Call, Json, Reply, SegmentCall, TrackCall, Usage
from guidebench.harness.models.calls.segment import mask_json
from guidebench.harness.models.calls.track import track_of_masks

Kind = Literal["segment", "track"]
"""The kind of call that a model answers; each kind has its own network, loaded from the same files."""
POINTS_AT_A_TIME = 16
"""Points of an image whose masks are decoded together: at the published size each takes 10 MB (choice)."""


class SegmentingModel:
    """A `Model` that segments images, or that follows objects through videos."""

    def __init__(self, source: Source, kind: Kind, batch_size: int | None = None) -> None:
        """Load the weights, which blocks; raise UserError as `load` does. `batch_size`: images encoded together, as
        `Batcher` reads it."""
        self._name, self._kind = source.model, kind
        self._network, self._processor = load(source, kind)
        self._batcher = Batcher(batch_size, self._network.device)
        self._slowest = 0.0

    async def answer(self, call: Call) -> Reply:
        """Make one attempt, as `Model.answer`; raise UserError for a call of another kind."""
        if call.kind != self._kind:
            raise UserError(f"{self._name} is here to {self._kind}, and answers no call of kind {call.kind!r}")
        if isinstance(call, SegmentCall):
            if not call.points:
                return Reply([], Usage(1, images=1))
            output = await self._batcher.put(("segment", call.image.shape, len(call.points)), self._masks, call)
        else:
            assert isinstance(call, TrackCall), "the kinds are those of these calls"
            output = await self._batcher.put(
                ("track", call.frames.shape),
                self._follow,
                call,
                filled=False,  # one after the other
            )
        self._slowest = max(self._slowest, output.seconds)
        return Reply(output.value, Usage(1, images=len(call.images()), seconds=output.seconds))

    def estimate(self, call: Call) -> Usage:
        """Return the images, and the seconds of the slowest call so far; the cost in USD is 0."""
        return Usage(1, images=len(call.images()), seconds=self._slowest)

    async def close(self) -> None:
        self._batcher.close()

    def _masks(self, calls: Sequence[SegmentCall]) -> list[list[Json]]:
        """Return, for each call, the best of the three masks that SAM 2 proposes for each point, by its own estimate of
        their overlap with the truth. The calls have images of one shape and equally many points."""
        network, prepare = self._network, self._processor
        inputs = prepare(
            images=[call.image for call in calls],
            input_points=[[[list(point)] for point in call.points] for call in calls],
            input_labels=[[[1]] * len(call.points) for call in calls],
            return_tensors="pt",
        )
        encoded = network.get_image_embeddings(inputs["pixel_values"].to(network.device, network.dtype))
        masks_of_calls: list[list[Json]] = [[] for _ in calls]
        for begin in range(0, len(calls[0].points), POINTS_AT_A_TIME):
            chunk = slice(begin, begin + POINTS_AT_A_TIME)
            output = network(
                image_embeddings=encoded,
                input_points=inputs["input_points"][:, chunk].to(network.device, network.dtype),
                input_labels=inputs["input_labels"][:, chunk].to(network.device),
            )
            scores, best = output.iou_scores.float().max(dim=-1)
            index = best[..., None, None, None].expand(*best.shape, 1, *output.pred_masks.shape[-2:])
            chosen = output.pred_masks.float().gather(2, index).cpu()
            decoded = prepare.post_process_masks(chosen, inputs["original_sizes"])
            for masks, of_points, quality in zip(
                masks_of_calls, decoded, scores.clamp(0, 1).cpu().tolist(), strict=True
            ):
                shaped = zip(of_points[:, 0].numpy(), quality, strict=True)
                masks += [mask_json(mask, score) for mask, score in shaped]
        return masks_of_calls

    def _follow(self, calls: Sequence[TrackCall]) -> list[Array]:
        """Return where the object is in each frame, float32 [L, 3] of each call; each video has a session of its
        own."""
        network, prepare = self._network, self._processor
        tracks = []
        for call in calls:
            session = prepare.init_video_session(
                video=np.ascontiguousarray(call.frames), inference_device=network.device, dtype=network.dtype
            )
            prepare.add_inputs_to_inference_session(
                session, frame_idx=0, obj_ids=1, input_points=[[[list(call.point)]]], input_labels=[[[1]]]
            )
            sizes = [list(call.frames.shape[1:3])]
            masks = [
                prepare.post_process_masks([output.pred_masks.float().cpu()], sizes)[0][0, 0].numpy()
                for output in network.propagate_in_video_iterator(session, start_frame_idx=0)
            ]
            tracks.append(track_of_masks(np.stack(masks), call.point))
        return tracks


def load(source: Source, kind: Kind) -> tuple[Any, Any]:
    """Return the network, in evaluation mode on its device, and its input processor. Raise UserError for a missing
    package or device, other weights than safetensors, and a model that is no SAM 2, or, to track, none of videos."""
    check(source.model, source.revision)
    try:
        import transformers
    except ImportError as error:
        raise needs_extra(f"the package transformers is missing ({error})") from None
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    transformers.utils.logging.disable_progress_bar()
    name, device = recipes.repository(source.model), device_of(source.device)
    options = {"revision": source.revision}
    images = kind == "segment"
    architecture = "AutoModelForMaskGeneration" if images else "AutoModel"
    outside_files.check(local_path(name, source.revision), {"": f"transformers.{architecture}"})
    try:
        config = transformers.AutoConfig.from_pretrained(name, **options)
        if config.model_type not in (("sam2", "sam2_video") if images else ("sam2_video",)):
            raise UserError(
                f"model {source.model!r} is of type {config.model_type!r}, which cannot {kind}; choose a SAM 2 "
                f"{'' if images else 'with weights for videos '}such as sam2"
            )
        network = getattr(transformers, architecture).from_pretrained(
            name, config=config, dtype=source.dtype, use_safetensors=True, **options
        )
        processor = transformers.Sam2Processor if images else transformers.Sam2VideoProcessor
        prepare = processor.from_pretrained(name, **options)
    except ImportError as error:
        raise needs_extra(f"model {name!r} needs a package that is missing ({error})") from None
    except (OSError, ValueError, SafetensorError, StrictDataclassError) as error:
        raise unloadable(name, source, error) from None
    return network.eval().requires_grad_(False).to(device), prepare
