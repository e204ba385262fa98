"""Read back what each tracker stores, by its own means: series -> (step, value) and the settings of each run."""

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple


class TrackedRun(NamedTuple):
    """A run as a tracker stores it."""

    series: dict[str, list[tuple[int, float]]]
    settings: dict[str, object]


def tensorboard(study: Path, stores: Path) -> list[TrackedRun]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = []
    for folder in sorted({path.parent for path in (study / "tensorboard").glob("*/*/*/seed-*/events.*")}):
        board = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
        board.Reload()
        series = {tag: [(event.step, event.value) for event in board.Scalars(tag)] for tag in board.Tags()["scalars"]}
        (text,) = board.Tensors("settings/text_summary")
        runs.append(TrackedRun(series, json.loads(text.tensor_proto.string_val[0].decode())))
    return runs


def mlflow(study: Path, stores: Path) -> list[TrackedRun]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{stores / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(json.loads((study / "study.json").read_text())["study"])
    runs = []
    for run in client.search_runs([experiment.experiment_id]):
        names = run.data.metrics
        series = {name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in names}
        runs.append(TrackedRun({name: sorted(points) for name, points in series.items()}, run.data.params))
    return [tracked for tracked in runs if tracked.settings]  # the run of the report has no settings


def trackio(study: Path, stores: Path) -> list[TrackedRun]:
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    project = f"guidebench-{json.loads((study / 'study.json').read_text())['study']}-runs"
    runs = []
    for run in trackio.Api().runs(project):
        series: dict[str, list[tuple[int, float]]] = {}
        for row in SQLiteStorage.get_logs(project, run.name, run_id=run.id):
            for name, value in row.items():
                if name not in ("step", "timestamp"):
                    series.setdefault(name, []).append((row["step"], value))
        runs.append(TrackedRun(series, run.config or {}))
    return [tracked for tracked in runs if "seed" in tracked.settings]


def wandb(study: Path, stores: Path) -> list[TrackedRun]:
    """Read offline runs: the records of all files of a run, in the order in which `wandb sync` sends them."""
    from wandb.proto import wandb_internal_pb2

    until = time.monotonic() + 30  # W&B's own process writes the end of a run after `finish` has returned
    while time.monotonic() < until and not all(
        _has_ended(path) for path in stores.glob("wandb/offline-run-*/run-*.wandb")
    ):
        time.sleep(0.1)
    files: dict[str, list[Path]] = {}
    for path in sorted(stores.glob("wandb/offline-run-*/run-*.wandb")):
        files.setdefault(path.stem, []).append(path)
    runs = []
    for paths in files.values():
        tracked = TrackedRun({}, {})
        for path in paths:
            for content in _records(path.read_bytes()):
                record = wandb_internal_pb2.Record()
                record.ParseFromString(content)
                if record.HasField("run"):
                    tracked.settings.update(
                        {setting.key: json.loads(setting.value_json) for setting in record.run.config.update}
                    )
                if record.HasField("history"):
                    points = {
                        "/".join(metric.nested_key) or metric.key: json.loads(metric.value_json)
                        for metric in record.history.item
                    }
                    step = record.history.step.num
                    for name, value in points.items():
                        if not name.startswith("_"):
                            tracked.series.setdefault(name, []).append((step, value))
        runs.append(tracked)
    return [tracked for tracked in runs if "seed" in tracked.settings]


def _has_ended(path: Path) -> bool:
    from wandb.proto import wandb_internal_pb2

    return any(wandb_internal_pb2.Record.FromString(record).HasField("exit") for record in _records(path.read_bytes()))


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the records of a W&B file: a header of 7 bytes, then LevelDB's log format (blocks of 32 KiB; checksum,
    length and kind before each piece: whole, first, middle, last)."""
    place, assembled = 7, b""
    while place + 7 <= len(content):
        if 32_768 - place % 32_768 < 7:
            place += 32_768 - place % 32_768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        if place + 7 + length > len(content):  # this record is still being written
            return
        piece = content[place + 7 : place + 7 + length]
        place += 7 + length
        assembled += piece
        if kind in (1, 4):
            yield assembled
            assembled = b""


READERS: dict[str, Callable[[Path, Path], list[TrackedRun]]] = {
    "tensorboard": tensorboard, "mlflow": mlflow, "trackio": trackio, "wandb": wandb,
}  # fmt: skip
"""Tracker -> function (study, directory of local stores) -> its runs."""
