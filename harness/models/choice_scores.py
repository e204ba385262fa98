"""Scores of candidates from the recorded log-probabilities of a `ChoiceCall`, and the candidate that they choose.

One recording serves all settings: nothing here asks a model. An answer is float32 [candidates, 3]: log p of the
candidate's tokens, log p of the end of the turn after it, and the number of its tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Literal

import numpy as np

from guidebench.harness.types import Array

Scoring = Literal["sum", "per_token", "per_byte"]
"""How a candidate is scored: log p of its tokens and of the end of the turn after it; or log p of its tokens divided by
their number, or by the number of its bytes in UTF-8."""
Acting = Literal["argmax", "sample"]
"""Which candidate is chosen: that of the highest score, or one drawn with the probabilities of the scores."""


def scored(
    answer: Array, candidates: Sequence[str], scoring: Scoring = "sum", content_free: Array | None = None
) -> Array:
    """Return the score of each candidate, in nats, float64 [candidates].

    `content_free`: answer to the same candidates under a prompt whose state says nothing; its scores are subtracted,
    so that a candidate that the model says anyway is not preferred (Zhao et al. 2021, "Calibrate before use"). Raise
    ValueError for answers to another number of candidates.
    """
    for numbers in (answer, content_free):
        if numbers is not None and np.shape(numbers) != (len(candidates), 3):
            shape = [*np.shape(numbers)]
            raise ValueError(f"{len(candidates)} candidates have an answer [{len(candidates)}, 3], and this is {shape}")
    scores = _scores(answer, candidates, scoring)
    return scores if content_free is None else scores - _scores(content_free, candidates, scoring)


def shares(scores: Array) -> Array:
    """Return the probability of each candidate in proportion to exp(score), float64 [candidates] of sum 1.

    >>> shares(np.log([0.1, 0.3])).round(6).tolist()
    [0.25, 0.75]
    """
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def turns(answer: Array) -> Array:
    """Return log p of each candidate's whole turn, float64 [candidates]."""
    return np.asarray(answer[:, 0].astype(np.float64) + answer[:, 1])


def mass(answer: Array) -> float:
    """Return the probability that the model answers with one of the candidates and nothing else: Σ exp of log p of
    tokens and end of turn. A small one says that the model would have answered otherwise."""
    return float(np.exp(turns(answer)).sum())


def entropy(probabilities: Array) -> float:
    """Return the entropy in nats of probabilities [candidates].

    >>> round(entropy(np.array([0.5, 0.5, 0])), 4)
    0.6931
    """
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def chosen(scores: Array, acts: Acting, question: str, seed: str) -> int:
    """Return the number of the chosen candidate. Ties are broken evenly and draws are made by a hash of the question
    and the run's seed, so that a repetition of the run chooses alike.

    `question`: the digest of the question or call; `seed`: the run's seed.
    """
    number = _uniform(question, seed)
    if acts == "sample":
        reached = np.cumsum(shares(scores))
        return int(np.searchsorted(reached, number * reached[-1], side="right"))
    best = np.flatnonzero(scores == scores.max())
    return int(best[int(number * len(best))])


def _uniform(question: str, seed: str) -> float:
    """Return a number in [0, 1) from SHA-256 of seed and question, a multiple of 2^-53."""
    hashed = hashlib.sha256(json.dumps([seed, question]).encode()).digest()
    return (int.from_bytes(hashed[:8], "big") >> 11) / 2**53


def _scores(answer: Array, candidates: Sequence[str], scoring: Scoring) -> Array:
    """Return the scores of an answer, float64 [candidates]."""
    if scoring == "sum":
        return turns(answer)
    if scoring == "per_token":
        lengths = answer[:, 2].astype(np.float64)
    else:
        lengths = np.array([len(candidate.encode()) for candidate in candidates], np.float64)
    return np.asarray(answer[:, 0].astype(np.float64) / lengths)
