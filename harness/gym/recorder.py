"""Records runs of an external training script, which logs its evaluation episodes and then appears in reports.

with guidebench.Recorder("runs/mine", suite="minigrid_doorkey", task="8x8", method="my_dqn", seed=0, steps=100_000) as
    log: …
    log.episode(step=10_000, ret=0.9, success=True, length=37)

For a task that is not scored by success, pass `score=Score("return")`, unless its suite is installed and declares it.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.identity.provenance import provenance
from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.plan import config
from guidebench.harness.plan.config import SCHEMA
from guidebench.harness.records import leases
from guidebench.harness.records.compact import to_parquet
from guidebench.harness.records.files import Rows, read_json, write_json
from guidebench.harness.records.leases import Fenced, Lease
from guidebench.harness.records.schema import SCHEMA_VERSION, SCORE, Identity, evaluation, limits, score_of, within
from guidebench.harness.records.study import StudyDirectory

BACKEND = "external"


class Recorder:
    """Records one run of an external method. Leaving the `with` block finishes it; an exception marks it failed."""

    def __init__(
        self,
        output: str | Path,
        *,
        suite: str,
        task: str,
        method: str,
        seed: int,
        steps: int,
        learner: str = "",
        model: str = "",
        profile: str = "paper",
        settings: Mapping[str, Any] | None = None,
        score: Score | None = None,
    ) -> None:
        """`settings` are the method's hyperparameters; runs that differ only in the seed belong to one cell. `score`
        is the score of its episodes; None uses the suite's declaration if it is installed, else success.

        Raises UserError for an invalid name or number, or if another process writes this run.
        """
        names = {"suite": suite, "task": task, "method": method, "profile": profile}
        for name, value in {**names, "learner": learner, "model": model}.items():
            empty = name in names and not value
            if empty or "/" in value or value.startswith(".") or not value.isprintable():
                raise UserError(f"{name}={value!r}: expected a plain name, without / and not beginning with a dot")
        seed, steps = _integer("seed", seed, 0), _integer("steps", steps, 1)
        try:
            json.dumps(settings, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(f"settings={settings!r}: {error}; give numbers, strings, lists and null") from None
        content: dict[str, Any] = {
            "suite": suite, "task": task, "method": method, "learner": learner, "model": model,
            "profile": profile, "steps": steps, "settings": dict(settings or {}),
        }  # fmt: skip
        self.score = _named(suite, task) if score is None else score
        cell = identity(content)
        directory = f"{suite}/{task}/{method}-{cell}"
        study = StudyDirectory(Path(output))
        self._steps, self._last = steps, (0, -1)
        self._run = study.run(directory, seed)
        self._lock = Lease(self._run.home, "run")
        self._lock.acquire(tell=leases.warn)
        self._run = study.run(directory, seed)  # as the holder before left it
        if self._run.status == "finished":
            self._lock.release()
            raise UserError(f"{self._run.home} is finished; delete it to record it anew")
        joining = Lease(study.path, "study")
        try:
            joining.acquire(patience=30.0, tell=leases.warn)
        except UserError:
            self._lock.release()
            raise
        try:
            self._run.begin(self._lock)
            file = study.path / directory / "cell.json"
            if file.exists() and (other := score_of(read_json(file))) != self.score:
                raise UserError(f"score {self.score} is not that of the cell's other runs, {other}; name the same one")
            present = study.read() if (study.path / "study.json").exists() else {}
            name, command = present.get("study", study.path.resolve().name), present.get("command", ["recorder"])
            study.write(
                name, command, {cell: {"directory": directory, "seeds": [seed], "label_variant": ""}}, joining.fence
            )
            entries = {
                key: {"value": value, "layer": BACKEND, "source": ""} for key, value in content["settings"].items()
            }
            content |= {"schema": SCHEMA, "cell": cell, "backend": BACKEND, "variant": "", "versions": {}}
            write_json(file, {**content, SCORE: asdict(self.score), "settings": entries})
        except (UserError, Fenced) as error:
            self._lock.release()
            raise UserError(str(error)) from None
        finally:
            joining.release()
        self._identity = Identity(name, cell, suite, task, method, learner, BACKEND, model, profile, seed)
        self._rows = Rows(self._run.path / "evaluations.jsonl", 0)
        self._run.update(status="running", seed=seed, step=0, steps=steps, error=None, provenance=provenance("unknown"))

    def episode(
        self, *, step: int, ret: float, success: bool | None = None, length: int = 0, score: float | None = None
    ) -> None:
        """Log one evaluation episode of `length` steps (0 if unknown) after `step` environment steps of training, which
        must not decrease. `success` is required only if the score is success, `score` only if the score is neither
        success nor return. Raises UserError if another process took the run over while this one slept."""
        if self._lock.lost or not self._lock.held():
            raise self._lost()
        step, length = _integer("step", step, self._last[0], self._steps), _integer("length", length, 0)
        if not math.isfinite(ret):
            raise UserError(f"ret={ret}: expected a finite return")
        if success is None and self.score.name == "success":
            raise UserError("success=… is missing; the score of this run is success")
        worth = {"success": float(success or False), "return": float(ret)}.get(self.score.name, score)
        if worth is None or (score is not None and score != worth):
            raise UserError(f"score={score!r}: expected the episode's {self.score.name!r} score")
        if not within(self.score, worth):
            raise UserError(f"{self.score.name} {worth}: expected a number in {limits(self.score)}")
        number = self._last[1] + 1 if step == self._last[0] else 0
        self._last = (step, number)
        row = self._identity.row(step=step, episode=number, success=bool(success), length=length)
        row |= {"return": float(ret), SCORE: float(worth)}
        self._rows.append({name: row[name] for name in evaluation(self.score)})

    def finish(self) -> None:
        """Convert the episode records to Parquet and mark the run finished; no effect on a run that has ended."""
        if self._run.status != "running":
            return
        self._rows.flush()
        self._rows.close()
        file, fence = self._run.path / "evaluations.parquet", self._lock.fence
        try:
            to_parquet(self._rows.path, file, evaluation(self.score), fence)
            self._run.update(status="finished", step=self._steps, schema=SCHEMA_VERSION)
            self._rows.path.unlink()
            self._run.publish(self._lock)
        except Fenced as lost:
            raise self._lost() from lost
        self._lock.release()

    def fail(self, reason: str) -> None:
        """Mark the run failed, so that it can be recorded again; no effect on a run that has ended."""
        if self._run.status != "running":
            return
        self._rows.close()
        with suppress(Fenced):
            self._run.update(status="failed", step=self._last[0], error=reason)
        self._lock.release()

    def _lost(self) -> UserError:
        return UserError(
            f"{self._run.home} has ended, or another process records it by now; nothing more is recorded here"
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.fail(f"{kind.__name__}: {error}")


def identity(content: Mapping[str, Any]) -> str:
    """Return the cell id of an external method: a hash of its names, steps and settings."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def _named(suite: str, task: str) -> Score:
    """Return the score that a suite declares for a task, or success if the suite is not installed."""
    return config.score_of(suite, task) if suite in registry.names("suite") else SUCCESS


def _integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int in [low, high]; NumPy integers are accepted. Raise UserError for any other value."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if number < low or (high is not None and number > high):
        limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise UserError(f"{name}={value!r}: expected a whole number {limits}")
    return number
