"""Runs of PEBBLE by command: stopped and continued they write the same bytes, packing included."""

from pathlib import Path

from tests.refusals import check_refused

SMALL = (
    "suite=classic", "task=Pendulum-v1", "method=pebble", "training.steps=230", "evaluation.every=115",
    "evaluation.episodes=1", "learner.learning_starts=64", "learner.batch_size=32", "learner.hidden=[16,16]",
    "guide.pretraining=120", "guide.every=50", "guide.queries=4", "guide.budget=10", "guide.hidden=[16,16]",
    "guide.updates_after_reset=10", "guide.sampling=disagreement", "guide.intrinsic=distance", "teacher.mistake=0.2",
    "seeds=[0,1]",
)  # fmt: skip


def rows(study: Path) -> dict[str, bytes]:
    """Return the files that runs wrote without times: relative path -> bytes."""
    names = ("evaluations.parquet", "labels.parquet", "metrics.parquet", "probes.parquet")
    paths = (path for name in names for path in study.glob(f"*/*/*/seed-*/{name}"))
    return {str(path.relative_to(study)): path.read_bytes() for path in paths}


def test_what_cannot_work_is_said_before_anything_is_trained(train) -> None:
    check_refused(
        r"guide\.segment=201 transitions are longer than an episode of 200",
        train,
        *SMALL,
        "guide.segment=201",
        packs=[(0,)],
    )
