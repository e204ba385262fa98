"""MLflow: an experiment per study. Without MLFLOW_TRACKING_URI, the SQLite database mlflow.db of the working directory
(MLflow has given up its store of files)."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from guidebench.harness.errors import UserError
from guidebench.harness.registry import register
from guidebench.harness.trackers.base import ENDED, START, Offset, Report, Tracker
from guidebench.harness.trackers.points import FollowedRun, Point

STORE = "sqlite:///mlflow.db"
METRICS, PARAMETERS = 1_000, 100
"""Most metrics and parameters in one request (MLflow, `log_batch`)."""
LONGEST = 500
"""Most characters of a parameter's value, which every store takes (MLflow, limits of older stores)."""
RUN = "guidebench.run"
"""Tag of a run that holds its key in the study."""
STATUS = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}
T = TypeVar("T")


@register.tracker("mlflow")
class MLflow(Tracker):
    """An MLflow server or database, by MLFLOW_TRACKING_URI; else sqlite:///mlflow.db."""

    name = "mlflow"
    modules = ("mlflow", "sqlalchemy", "alembic")

    def __init__(self, study: str, directory: Path, token: str) -> None:
        super().__init__(study, directory, token)
        self._steps: dict[str, dict[str, set[int]]] = {}
        """Run -> series -> steps that were there when this process first looked."""

    @cached_property
    def _client(self) -> Any:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or STORE
        path = Path(uri.removeprefix("sqlite:///"))
        if uri.startswith("sqlite:///") and not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UserError(f"MLflow's database {uri} cannot be written; set MLFLOW_TRACKING_URI=sqlite:///FILE")
        return MlflowClient(tracking_uri=uri)

    @cached_property
    def _experiment(self) -> str:
        """The id of the study's experiment, made or restored if needed."""
        experiment = self._client.get_experiment_by_name(self.study)
        if experiment is None:
            return str(self._client.create_experiment(self.study))
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        return str(experiment.experiment_id)

    def held(self, run: FollowedRun, offset: Offset) -> Offset:
        """Return the offset if the run exists; `put` skips the points that an interrupted process sent after it."""
        return offset if self._exists(offset.id) else START

    def begin(self, run: FollowedRun) -> Offset:
        return Offset(id=self._made(run.key, run.name, run.settings, dict(run.cell)))

    def put(self, run: FollowedRun, offset: Offset, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        if offset.status in ENDED:
            self._client.update_run(offset.id, status="RUNNING")
        steps_by_series = self._steps.setdefault(offset.id, {})
        for series in {series for point in points for series in point.values} - steps_by_series.keys():
            steps_by_series[series] = {metric.step for metric in self._client.get_metric_history(offset.id, series)}
        now = int(time.time() * 1_000)
        new = (
            Metric(series, value, now, point.step)
            for point in points for series, value in point.values.items() if point.step not in steps_by_series[series]
        )  # fmt: skip
        for some in _batches(new, METRICS):
            self._client.log_batch(offset.id, metrics=some)

    def end(self, run: FollowedRun, offset: Offset, status: str) -> None:
        self._client.set_terminated(offset.id, STATUS[status])

    def publish(self, report: Report) -> None:
        id_ = self._made("report", f"report of {self.study}", {}, None)
        for path in report.files:
            self._client.log_artifact(id_, str(path), "report")
        for name, (columns, rows) in report.tables.items():
            content = {"columns": list(columns), "data": [list(row) for row in rows]}
            self._client.log_dict(id_, content, f"{name}.json")  # the form in which MLflow keeps its own tables
        self._client.set_terminated(id_, "FINISHED")

    def forget(self) -> None:
        super().forget()
        self._steps.clear()
        self.__dict__.pop("_client", None)
        self.__dict__.pop("_experiment", None)

    def _exists(self, id_: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            return bool(self._client.get_run(id_).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _made(self, key: str, name: str, settings: dict[str, Any], record: dict[str, Any] | None) -> str:
        """Return the id of the run with this key at the server. It is created unless an interrupted process has done
        so."""
        from mlflow.entities import Param

        tag = f"{self.token}/{key}"
        existing = self._client.search_runs([self._experiment], f"tags.`{RUN}` = '{tag}'", max_results=1)
        run = existing[0] if existing else self._client.create_run(self._experiment, tags={RUN: tag}, run_name=name)
        id_ = str(run.info.run_id)
        for some in _batches((Param(name, str(value)[:LONGEST]) for name, value in settings.items()), PARAMETERS):
            self._client.log_batch(id_, params=some)
        if record is not None:
            self._client.log_dict(id_, record, "cell.json")
        return id_


def _batches(elements: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(elements)
    while some := list(itertools.islice(iterator, size)):
        yield some
