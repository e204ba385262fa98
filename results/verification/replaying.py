"""Compare final evaluations with their replay and with new layouts: pure functions of counts and episodes."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from guidebench.harness.interfaces import Score
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.statistics.samples import fisher_p
from guidebench.results.verification.record import Check, Tally

RENEWAL = "new layouts"
"""Name of the check of success on new layouts."""
LEVEL = 0.01
"""Significance level: a cell is disputed if its success on new layouts differs with a smaller p, after Holm's
correction over all cells."""
NOTICEABLE = 0.4
"""Difference in success that the test on new layouts must be able to detect. The smallest ranked row, with 30 episodes
against the 96 new ones of a plain `bench verify`, detects it in studies of up to a hundred cells (.3 only of up to
two); a smoke run or a study of a thousand cells does not."""
DRIFTING = 0.25
"""Share of a run's episodes whose return or length alone may differ on another machine. Flipping the last bit of
parameters changes at most a tenth, on CartPole and OGBench's scene; invented returns change all."""
FLIPPING = 0.1
"""Share of a run's episodes whose success may differ on another machine before the cell is disputed. Such a cell is not
verified either, unless the verifier's tolerance allows the share."""
CLOSE = 1e-4
"""Largest difference between returns that count as equal, relative to the larger return or 1."""


class RecordedEpisode(NamedTuple):
    """A recorded episode of a final evaluation."""

    ret: float
    success: bool
    length: int
    score: float


class Replay(NamedTuple):
    """Comparison of a replay with the record."""

    successes: tuple[int, ...]
    """Episodes that differ in success"""
    others: tuple[int, ...]
    """Episodes that agree in success but differ in return or length"""
    absent: tuple[int, ...]
    """Episodes that the configuration requires and the record lacks"""
    surplus: tuple[int, ...]
    """Recorded episodes that the configuration does not require"""
    episodes: int
    first: str
    """Description of the first difference, or ""."""


def compare(recorded: Mapping[int, RecordedEpisode], again: Sequence[Result]) -> Replay:
    """Compare a run's recorded final evaluation, by episode number, with the repeated evaluation."""
    successes, others, first = [], [], ""
    played = {
        result.episode: RecordedEpisode(result.ret, result.success, result.length, result.score) for result in again
    }
    for number in sorted(played.keys() & recorded.keys()):
        recorded_episode, played_episode = recorded[number], played[number]
        if recorded_episode.success != played_episode.success:
            successes.append(number)
        elif recorded_episode.length != played_episode.length or not (
            _close(recorded_episode.ret, played_episode.ret) and _close(recorded_episode.score, played_episode.score)
        ):
            others.append(number)
        else:
            continue
        first = first or f"episode {number} is recorded as {_words(recorded_episode)}, and is {_words(played_episode)}"
    absent, surplus = sorted(played.keys() - recorded.keys()), sorted(recorded.keys() - played.keys())
    return Replay(tuple(successes), tuple(others), tuple(absent), tuple(surplus), len(played), first)


def replay_of(seed: int) -> str:
    """Return the name of the check of a run's replay."""
    return f"seed {seed}: final evaluation"


def judged(seed: int, replay: Replay, elsewhere: str, tolerance: float) -> Check:
    """Return the check of one run's replay. `elsewhere`: description of both machines if the run used another
    processor, a GPU or other packages, so that rounding may change episodes; "" if every episode must be reproduced."""
    name = replay_of(seed)
    if replay.absent or replay.surplus:
        missing = f"episodes {_listed(replay.absent)} are missing" if replay.absent else ""
        more = f"episodes {_listed(replay.surplus)} are there, which its configuration does not ask for"
        return Check(name, False, missing or more)
    count = replay.episodes
    if not replay.first:
        return Check(name, True, f"{count} of {count} episodes come out as recorded")
    parts = [f"{len(replay.successes)} of {count} episodes differ in success"]
    if replay.others:
        parts.append(f"{len(replay.others)} in return or length alone")
    words = ", ".join(parts) + (f"; {tolerance:.0%} may" if tolerance else "")
    passed: bool | None = len(replay.successes) + len(replay.others) <= tolerance * count
    if elsewhere:
        words += f"; {elsewhere}"
        passed = len(replay.successes) <= tolerance * count
        if len(replay.others) > max(1, DRIFTING * count, tolerance * count):
            passed, words = False, f"{words}, where at most {DRIFTING:.0%} may differ in return or length alone"
        elif not passed and len(replay.successes) <= max(1, FLIPPING * count):
            passed, words = None, f"{words}, which may be why; --tolerance says which share of the episodes may differ"
    return Check(name, passed, f"{words}: {replay.first}")


def p_value(reported: Tally, renewed: Tally) -> float:
    """Return the two-sided p of Fisher's exact test for equal success probability; 1 if a side has no episodes.

    Pooling runs is conservative: each run has its own success probability on both sides, so the pooled counts vary less
    than under a single probability.
    """
    if not reported.episodes or not renewed.episodes:
        return 1.0
    return fisher_p((reported.successes, reported.episodes), (renewed.successes, renewed.episodes))


def outcomes(
    score: Score, recorded: Sequence[RecordedEpisode], renewed: Sequence[Result]
) -> tuple[list[bool], list[bool]]:
    """Return the outcomes counted for recorded and new episodes: success or, for another score, whether the episode is
    better than the median of all (Mood's median test)."""
    if score.name == "success":
        return [episode.success for episode in recorded], [episode.success for episode in renewed]
    recorded_scores, renewed_scores = (
        [score.sign * episode.score for episode in episodes] for episodes in (recorded, renewed)
    )
    middle = statistics.median([*recorded_scores, *renewed_scores])
    return [value > middle for value in recorded_scores], [value > middle for value in renewed_scores]


def counted(score: Score) -> str:
    """Return a description of the outcomes that `outcomes` counts for this score."""
    return "success" if score.name == "success" else f"{score.name} better than the median episode's"


def holm(p_values: Mapping[str, float], cells: int) -> dict[str, float]:
    """Return p values adjusted by Holm (1979) for `cells` playable cells; missing ones count as 1, so that later
    results never revoke a dispute."""
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, (cells - rank) * p_values[name])
        adjusted[name] = min(1.0, largest)
    return adjusted


def noticeable(reported: Tally, episodes: int, level: float) -> float | None:
    """Return the smallest difference from the reported success rate at which `episodes` new episodes give p < `level`;
    None if there is none."""
    if not episodes:
        return None
    nearest = round(episodes * reported.successes / reported.episodes)
    gaps = []
    for away in (-1, 1):
        counts = range(nearest, -1 if away < 0 else episodes + 1, away)
        first = bisect.bisect(counts, -level, key=lambda count: -p_value(reported, Tally(count, episodes)))
        gaps += [abs(count / episodes - reported.successes / reported.episodes) for count in counts[first : first + 1]]
    return min(gaps, default=None)


def renewal(reported: Tally, renewed: Tally, adjusted: float, cells: int, counts: str = "success") -> Check:
    """Return the check of a cell's outcomes on new layouts. A passed check is inconclusive if it could not have
    detected a difference of NOTICEABLE."""
    words = [
        f"{tally.successes / tally.episodes:.3f} ({tally.successes} of {tally.episodes} episodes)"
        for tally in (renewed, reported)
    ]
    least = noticeable(reported, renewed.episodes, LEVEL / cells)
    power = "no difference could have been noticed" if least is None else f"noticed from a difference of {least:.3f} on"
    text = f"{counts} {words[0]}, reported {words[1]}; p = {p_value(reported, renewed):.3g}, {adjusted:.3g} after Holm "
    passed: bool | None = adjusted >= LEVEL
    if passed and (least is None or least > NOTICEABLE):
        passed, power = None, f"{power}, and {NOTICEABLE:g} must be: there are too few episodes (--episodes plays more)"
    return Check(RENEWAL, passed, f"{text}over {cells} cells; {power}")


def _close(first: float, second: float) -> bool:
    return abs(first - second) <= CLOSE * max(1.0, abs(first), abs(second))


def _words(episode: RecordedEpisode) -> str:
    return f"{'a success' if episode.success else 'a failure'} of {episode.length} steps, return {episode.ret:.6g}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
