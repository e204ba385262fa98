from __future__ import annotations

import numpy as np
import pytest

from guidebench.reports import statistics


def chances(scores: dict[str, list], reps: int = 50_000) -> dict[str, list[float]]:
    table = statistics.ranks({name: np.array(values, dtype=float) for name, values in scores.items()}, reps)
    assert table["rank"].tolist() == list(range(1, len(scores) + 1)) * len(scores)
    return {name: group["probability"].tolist() for name, group in table.groupby("method", sort=False)}


def test_the_ranks_of_a_worked_example() -> None:
    """A run of a is always above those of c, and above that of b, 2, in one case of two."""
    ranks = chances({"a": [[1], [3]], "b": [[2]], "c": [[0], [0], [0]]})
    assert ranks["a"] == pytest.approx([0.5, 0.5, 0], abs=4 * 0.5 / np.sqrt(50_000))
    assert ranks["b"] == pytest.approx([0.5, 0.5, 0], abs=4 * 0.5 / np.sqrt(50_000)) and ranks["c"] == [0, 0, 1]


def test_those_that_tie_share_their_ranks_and_tasks_count_alike() -> None:
    ranks = chances({"a": [[1.0]], "b": [[2.0]], "c": [[1.0]], "d": [[0.0]]}, reps=10)
    assert ranks == {"a": [0, 0.5, 0.5, 0], "b": [1, 0, 0, 0], "c": [0, 0.5, 0.5, 0], "d": [0, 0, 0, 1]}
    assert chances({"a": [[1.0]], "b": [[1.0]]}, reps=10) == {"a": [0.5, 0.5], "b": [0.5, 0.5]}
    # a is alone in front in half of the draws and shares both ranks in the others: a tie counts for as much as a win
    assert chances({"a": [[1], [3]], "b": [[1]]})["a"] == pytest.approx([0.75, 0.25], abs=4 * 0.25 / np.sqrt(50_000))
    ranks = chances({"a": [[1, 1, 0]], "b": [[0, 0, 1]]}, reps=10)
    assert ranks["a"] == pytest.approx([2 / 3, 1 / 3]) and ranks["b"] == pytest.approx([1 / 3, 2 / 3])


def test_draws_in_chunks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from guidebench.harness.statistics import resampling

    monkeypatch.setattr(resampling, "CHUNK_BYTES", 8 * 4 * 3)  # three draws
    ranks = chances({"a": [[1, 5], [3, 5]], "b": [[2, 4]]}, reps=1_000)
    assert sum(ranks["a"]) == pytest.approx(1) and ranks["a"][0] == pytest.approx(0.75, abs=4 * 0.25 / np.sqrt(1_000))


def test_scores_of_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        statistics.ranks({"a": np.zeros((2, 2)), "b": np.zeros((2, 1))})
    with pytest.raises(ValueError, match="NaN"):
        statistics.ranks({"a": np.full((2, 2), np.nan)})
    with pytest.raises(ValueError, match="expected methods"):
        statistics.ranks({})
