"""RoboCLIP's requests to an embedder (a text and a video), and the reward computed from the two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.baselines.frame_vectors import cropped
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import AskModel, EmbedCall, VideoCall


class VideoText:
    """A dialogue that turns an episode's frames into its reward. The text is requested with every question; equal calls
    are answered once."""

    calls = 2

    def __init__(self, text: str, crop: float, similarity: str) -> None:
        """`crop`: the share of a frame that is cut off at each edge, below .5; `similarity`: `dot` or `cosine`."""
        self._text, self._crop, self._similarity = text, crop, similarity

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | None:
        """Return the reward of a video uint8 [n, height, width, 3], float64 [1]; None if the model returned no
        vectors. With cosine, a zero vector makes the reward not finite."""
        assert frames is not None, "an episode has frames"
        text, video = await ask(EmbedCall((self._text,))), await ask(VideoCall(cropped(frames, self._crop)))
        if text.failure or video.failure:
            return None
        return np.array([reward(video.value, text.value[0], self._similarity)])


def reward(video: Array, text: Array, similarity: str) -> float:
    """Return ⟨z_v, z_l⟩ of the vectors of video and text, [d] each (RoboCLIP), or their cosine.

    UserError if the vectors have different lengths.
    """
    if video.shape != text.shape:
        raise UserError(
            f"the embedder turns a text into {len(text)} numbers and a video into {len(video)}, which cannot be "
            f"compared; choose an embedder.model that has videos and texts in one space, such as xclip"
        )
    z_v, z_l = np.asarray(video, np.float64), np.asarray(text, np.float64)
    product = float(z_v @ z_l)
    if similarity == "dot":
        return product
    lengths = float(np.linalg.norm(z_v) * np.linalg.norm(z_l))
    return product / lengths if lengths else float("nan")
