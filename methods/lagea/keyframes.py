"""Key frames of an episode, chosen from the similarity of its frames to the goal, and weights of its steps around them.

An episode of T steps has T + 1 frames: frame 0 shows the state after the reset, frame t the state after step t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from guidebench.harness.interfaces import Array

FLAT = 1e-8
"""Standard deviation below which a signal counts as constant, so that its z-scores are 0."""


def saliency(similarity: Array, shares: Sequence[float]) -> Array:
    """Return p_t = ω_s·max(0, z(s_t)) + ω_v·z(|v_t|) + ω_a·z(|a_t|) of an episode, [n] (LaGEA, §3.1.2).

    `similarity` s [n]: cosine of each frame and the goal image; v_t = s_t − s_{t−1} and a_t = v_t − v_{t−1}, with
    v_0 = a_0 = 0; z: z-score within the episode; `shares`: ω_s, ω_v, ω_a, which sum to 1.
    """
    velocity = np.diff(similarity, prepend=similarity[:1])
    acceleration = np.diff(velocity, prepend=velocity[:1])
    near, fast, sharp = shares
    p: Array = near * np.maximum(_scores(similarity), 0.0)
    return p + fast * _scores(np.abs(velocity)) + sharp * _scores(np.abs(acceleration))


def salient(similarity: Array, shares: Sequence[float], most: int, spacing: int) -> Array:
    """Return up to `most` key frames K of an episode, increasing int64: the first frame, the last one, and the most
    salient ones that are at least `spacing` steps from every other (LaGEA, §3.1.2).

    Of equally salient frames the earlier one is chosen.
    """
    last = len(similarity) - 1
    order = np.argsort(-saliency(similarity, shares), kind="stable")
    return _spaced([0, last], order, most, spacing)


def turning(similarity: Array, shares: Sequence[float], most: int, spacing: int) -> Array:
    """Return key frames as LaGEA's released code chooses them, increasing int64.

    After the first and the last frame, it takes turning points (frames at which the similarity begins to rise or to
    fall) in order of saliency. Then the most salient frames follow, at least one, up to 70 % of `most`. Up to here all
    keep `spacing`. Finally come frames far from every key frame, weighted by their saliency, up to `most`; these keep
    `spacing` among themselves. All frames of an episode of at most `most` frames are key frames.
    """
    count = len(similarity)
    if count <= most:
        return np.arange(count)
    p = saliency(similarity, shares)
    order = np.argsort(-p, kind="stable")
    velocity = np.diff(similarity, prepend=similarity[:1])
    turns = np.flatnonzero(np.diff(np.sign(velocity)) != 0) + 1
    selection = _spaced([0, count - 1], turns[np.argsort(-p[turns], kind="stable")], most, spacing)
    if len(selection) < most:
        selection = _spaced(selection.tolist(), order, min(most, max(int(0.7 * most), len(selection) + 1)), spacing)
    free = np.ones(count, bool)
    free[selection] = False
    while len(selection) < most and free.any():
        places = np.flatnonzero(free)
        distance = np.abs(places[:, None] - selection).min(1)
        chosen = places[np.argmax(distance * (1.0 + _scores(p[places])))]
        selection = np.sort(np.append(selection, chosen))
        free[max(chosen - spacing + 1, 0) : chosen + spacing] = False
    return selection


def _spaced(begin: Sequence[int], order: Array, most: int, spacing: int) -> Array:
    """Return the frames `begin` and, in the given order, frames at least `spacing` from all chosen ones, up to `most`
    in total, increasing int64."""
    selection = list(dict.fromkeys(begin))
    for frame in order.tolist():
        if len(selection) >= most:
            break
        if min(abs(frame - other) for other in selection) >= spacing:
            selection.append(frame)
    return np.array(sorted(selection), np.int64)


def _scores(values: Array) -> Array:
    """Return the z-scores of values [n]; zeros for constant values."""
    deviation = values.std()
    return np.zeros(len(values)) if deviation < FLAT else (values - values.mean()) / deviation


SELECTORS: Mapping[str, Callable[[Array, Sequence[float], int, int], Array]] = {
    "saliency": salient,
    "turning_points": turning,
}
"""Setting `keyframes` -> how key frames are chosen."""


def weights(keyframes: Array, count: int, window: int, floor: float) -> Array:
    """Return ŵ_t of the frames of an episode, float64 [count], with mean 1 (LaGEA, §3.1.2).

    w̃_t = max over k in K of (1 − |t − k| / (h + 1))_+ and w_t = β + (1 − β)·w̃_t; ŵ is w divided by its mean.
    `window`: h; `floor`: β in (0, 1]. Since w is at least β and at most 1, ŵ is at most 1/β.
    """
    distance = np.abs(np.arange(count)[:, None] - keyframes).min(1)
    w = floor + (1.0 - floor) * np.maximum(1.0 - distance / (window + 1), 0.0)
    return np.asarray(w / w.mean())


def prompt_frames(keyframes: Array, count: int, frames: int) -> Array:
    """Return the frames of an episode that the prompt shows, increasing int64: the key frames, filled up to `frames`
    with evenly spread others (LaGEA, A.7 and §3.1.1, which name the one and the other).

    `count`: frames of the episode; if there are fewer than `frames`, all are shown. If there are more key frames than
    `frames`, they are thinned evenly.
    """
    if count <= frames:
        return np.arange(count)
    if len(keyframes) >= frames:
        return keyframes[_evenly(len(keyframes), frames)]
    others = np.setdiff1d(_evenly(count, frames), keyframes)
    return np.union1d(keyframes, others[_evenly(len(others), frames - len(keyframes))])


def _evenly(count: int, chosen: int) -> Array:
    """Return `chosen` evenly spread indices in [0, count), including the first and the last, int64."""
    return np.linspace(0, count - 1, chosen).round().astype(np.int64)
