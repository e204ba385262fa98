"""Final evaluations against their replay, and against new layouts: pure functions of counts and rows."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from guidebench.harness.interfaces import Score
from guidebench.harness.loop.evaluation import Result
from guidebench.results.verification.record import Check, Tally

RENEWAL = "new layouts"
"""What the check of success on new layouts is called."""
LEVEL = 0.01
"""A cell is disputed where its success on new layouts differs with p below it, after Holm over all cells."""
NOTICEABLE = 0.4
"""Difference of success that new layouts must be able to show. The smallest ranked row, 30 episodes beside the 96 new
ones of a plain `bench verify`, shows it in a study of up to a hundred cells (.3 only of up to two); a smoke run, or one
of a thousand cells, does not."""
DRIFTING = 0.25
"""Share of a run's episodes whose return or length alone may come out otherwise elsewhere. Parameters disturbed in
their last bit change a tenth at most, on CartPole and OGBench's scene; made-up returns change all."""
FLIPPING = 0.1
"""Share of a run's episodes whose success may come out otherwise elsewhere without it being disputed. Nor is it
verified then, unless the verifier tolerates so many."""
CLOSE = 1e-4
"""Difference of returns, relative to the larger or to 1, up to which they count as the same."""


class RecordedEpisode(NamedTuple):
    """An episode of a final evaluation as it is on record."""

    ret: float
    success: bool
    length: int
    score: float


class Replay(NamedTuple):
    """How a replay compares with the record."""

    successes: tuple[int, ...]
    """Episodes whose success came out otherwise."""
    others: tuple[int, ...]
    """Episodes of the same success whose return or length came out otherwise."""
    absent: tuple[int, ...]
    """Episodes that the configuration asks for and the record lacks."""
    surplus: tuple[int, ...]
    """Episodes on record that the configuration does not ask for."""
    episodes: int
    first: str
    """The first difference in words, "" where there is none."""


def compare(recorded: Mapping[int, RecordedEpisode], again: Sequence[Result]) -> Replay:
    """The recorded final evaluation of a run, by episode, beside all of its episodes played again."""
    successes, others, first = [], [], ""
    played = {
        result.episode: RecordedEpisode(result.ret, result.success, result.length, result.score) for result in again
    }
    for number in sorted(played.keys() & recorded.keys()):
        here, there = recorded[number], played[number]
        if here.success != there.success:
            successes.append(number)
        elif here.length != there.length or not (_close(here.ret, there.ret) and _close(here.score, there.score)):
            others.append(number)
        else:
            continue
        first = first or f"episode {number} is recorded as {_words(here)}, and is {_words(there)}"
    absent, surplus = sorted(played.keys() - recorded.keys()), sorted(recorded.keys() - played.keys())
    return Replay(tuple(successes), tuple(others), tuple(absent), tuple(surplus), len(played), first)


def replay_of(seed: int) -> str:
    """What the check of a run's replay is called."""
    return f"seed {seed}: final evaluation"


def judged(seed: int, replay: Replay, elsewhere: str, tolerance: float) -> Check:
    """The check of one run's replay. `elsewhere`: the two machines, where it ran on another processor, on a GPU or with
    other packages than here, so that rounding may change an episode; "" where each must come out the same."""
    what = replay_of(seed)
    if replay.absent or replay.surplus:
        missing = f"episodes {_listed(replay.absent)} are missing" if replay.absent else ""
        more = f"episodes {_listed(replay.surplus)} are there, which its configuration does not ask for"
        return Check(what, False, missing or more)
    count = replay.episodes
    if not replay.first:
        return Check(what, True, f"{count} of {count} episodes come out as recorded")
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
    return Check(what, passed, f"{words}: {replay.first}")


def p_value(reported: Tally, renewed: Tally) -> float:
    """Two-sided p of Fisher's exact test that both have the same chance of success; 1 where a side has no episode.

    Pooling runs is on the safe side: each has a chance of its own on both sides, which varies less than one of all.
    """
    from scipy import stats

    if not reported.episodes or not renewed.episodes:
        return 1.0
    table = [[each.successes, each.episodes - each.successes] for each in (reported, renewed)]
    return float(stats.fisher_exact(table).pvalue)


def outcomes(
    score: Score, recorded: Sequence[RecordedEpisode], renewed: Sequence[Result]
) -> tuple[list[bool], list[bool]]:
    """What is counted of a run's episodes, on record and on new layouts: success or, under another score, whether an
    episode is better than the median of all of them (Mood's median test)."""
    if score.name == "success":
        return [each.success for each in recorded], [each.success for each in renewed]
    here, there = ([score.sign * each.score for each in own] for own in (recorded, renewed))
    middle = statistics.median([*here, *there])
    return [value > middle for value in here], [value > middle for value in there]


def counted(score: Score) -> str:
    """What `outcomes` counts, in words."""
    return "success" if score.name == "success" else f"{score.name} better than the median episode's"


def holm(p_values: Mapping[str, float], cells: int) -> dict[str, float]:
    """P values adjusted for the number of `cells` that have something to play (Holm 1979); those not there yet count as
    1, so that no later one takes back what is disputed now."""
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, (cells - rank) * p_values[name])
        adjusted[name] = min(1.0, largest)
    return adjusted


def noticeable(reported: Tally, episodes: int, level: float) -> float | None:
    """The smallest difference of success from what is reported at which so many new episodes give p < `level`; None
    where none does."""
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
    """The check of what is counted of one cell on new layouts; one that could not have shown a difference of NOTICEABLE
    or less counts for nothing unless it fails."""
    words = [
        f"{each.successes / each.episodes:.3f} ({each.successes} of {each.episodes} episodes)"
        for each in (renewed, reported)
    ]
    least = noticeable(reported, renewed.episodes, LEVEL / cells)
    power = "no difference could have been noticed" if least is None else f"noticed from a difference of {least:.3f} on"
    text = f"{counts} {words[0]}, reported {words[1]}; p = {p_value(reported, renewed):.3g}, {adjusted:.3g} after Holm "
    passed: bool | None = adjusted >= LEVEL
    if passed and (least is None or least > NOTICEABLE):
        passed, power = None, f"{power}, and {NOTICEABLE:g} must be: there are too few episodes (--episodes plays more)"
    return Check(RENEWAL, passed, f"{text}over {cells} cells; {power}")


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(1.0, abs(one), abs(other))


def _words(episode: RecordedEpisode) -> str:
    return f"{'a success' if episode.success else 'a failure'} of {episode.length} steps, return {episode.ret:.6g}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
