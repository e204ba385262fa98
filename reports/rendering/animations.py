"""Texts on animated episodes for pages: how they were chosen, and how they ended."""

from __future__ import annotations

from guidebench.harness.errors import count
from guidebench.harness.records.clips import Clip, Gallery


def chosen(gallery: Gallery, number: int) -> str:
    """Return a sentence on how the drawn episodes of a gallery were chosen among those of the final policy; `number`:
    how many are drawn."""
    task_id = f"{gallery.suite}/{gallery.task}"
    if gallery.from_run:
        of = f"the last evaluation of the run with seed {gallery.seed} on {task_id}, at step {gallery.step:,}"
    else:
        of = f"an evaluation of the final policy on new layouts of {task_id}, seed {gallery.seed}"
    several = gallery.played > 1
    if gallery.measure == "success":
        among = f"{gallery.successes:,} of its {count(gallery.played, 'episode')} succeeded"
        order = "Failures come first, and a success is the last if there was any"
    else:
        among = f"it has {count(gallery.played, 'episode')}"
        order = f"Those with the worst {gallery.measure} come first, and the best is the last"
    rate = "; so what is shown here is no rate" if several else ""
    return f"{number} of {count(gallery.played, 'episode')} of {of}: {among}. {order}{rate}."


def outcome(gallery: Gallery, episode: Clip) -> str:
    """Return how an episode ended: success or failure, or the score if the suite measures another."""
    if gallery.measure == "success":
        return "Success" if episode.success else "Failure"
    return f"{gallery.measure.capitalize()} {episode.score:,.4g}"
