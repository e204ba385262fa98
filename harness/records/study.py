"""The directories of a study and its runs: status files, and the list of cells."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.records import attempts, leases
from guidebench.harness.records.files import drop_unfinished, nothing, read_json, read_regular, refresh, write_json
from guidebench.harness.records.leases import Fenced, Lease
from guidebench.harness.records.schema import SCHEMA_VERSION, folder_of

FRAMES = "frames"
"""Directory of sample frames, in a study, and of an episode's frames, in a run."""
LOGGED = "logged"
"""Directory of a run's frames that are drawn from snapshots in its logs."""
ACTED = "acted"
"""Directory of a run's frames of evaluation episodes whose actions its logs tell."""
QUESTIONS = "questions"
"""Directory of a run's questions to models, with the images that these saw, drawn from its logs."""
GALLERY = "gallery"
"""Directory of a run's animated episodes of the final policy."""
VIDEOS = "videos"
"""Directory of a run's videos."""
EVALUATIONS = "evaluations.parquet"
"""File of a finished run's evaluation episodes."""
POLICY = "policy.safetensors"
"""File of a finished run's parameters. The run's status has its SHA-256 as `POLICY_DIGEST`."""
POLICY_DIGEST = "policy_digest"
LOST = f"its {EVALUATIONS} was deleted: restore it, or type the same bench run, which trains the run anew"
"""Error of a finished run whose evaluation episodes were deleted."""
LIVE = ".live.json"
"""Current progress of a run; the file exists only while a worker trains the run."""


def frames_file(suite: str, task: str, name: str) -> Path:
    """Return the file of a task's sample frames in a perturbation matrix, relative to the study; `name` is the
    perturbation's."""
    return Path(FRAMES) / suite / folder_of(task) / f"{name}.png"


def lost_rows(home: Path, path: Path) -> str:
    """Return `LOST` if the file of evaluation episodes of a finished run is missing, else "". `home`: directory of the
    run; `path`: directory of its run.json, from which files may be moving to `home`."""
    files = (EVALUATIONS, "evaluations.jsonl")
    return "" if any((place / name).exists() for place in (path, home) for name in files) else LOST


class RunDirectory:
    """The directory of one run: a cell and a seed."""

    def __init__(self, home: Path, lease: Lease | None = None) -> None:
        """`lease`: the lease of the run, if this process holds it; `update` writes nothing once it is lost."""
        self._lease = lease
        self.home = home
        """Its directory, which holds its lease and, once it is finished, all of its files."""
        self._attempt = attempts.newest(home)
        self.path = attempts.path_of(home, self._attempt)
        """Where its files are being written: `home`, or its newest attempt directory."""

    def begin(self, lease: Lease) -> None:
        """Make the directory in which the holder of the run's lease may write the present one."""
        self._attempt, self._lease = lease.attempt, lease
        self.path = attempts.begin(self.home, lease.attempt)
        refresh(self.path)

    def publish(self, lease: Lease) -> None:
        """Move the files of a finished run, whose lease is held, into `home`. Raise Fenced, and move nothing, if
        another process took the run over or began to write it elsewhere."""
        lease.fence()
        if not attempts.publish(self.home, self._attempt, lease.fence):
            raise Fenced(f"the run {self.home} goes on elsewhere than in {self.path}, or that is not finished")
        self._attempt, self.path = 0, self.home

    @property
    def status(self) -> str:
        return str(self.read().get("status", "waiting"))

    def read(self) -> dict[str, Any]:
        """Return the content of run.json, or {} if the run has not begun. A finished run whose evaluations are not
        there any more counts as failed, so that the same command trains it again."""
        file = self.path / "run.json"
        content = read_json(file) if file.exists() else {}
        if content.get("status") == "finished" and lost_rows(self.home, self.path):
            refresh(self.path)  # on a disk that others write, this machine may remember that the file was not there
            refresh(self.home)
            if lost := lost_rows(self.home, self.path):
                return content | {"status": "failed", "error": lost}
        return content

    def update(self, **values: Any) -> None:
        """Change some entries of run.json. Raise Fenced if the lease that this was given is lost."""
        fence = self._lease.fence if self._lease else nothing
        write_json(self.path / "run.json", {"schema": SCHEMA_VERSION, **self.read(), **values}, fence)

    def show(self, **values: Any) -> None:
        """Write the run's current progress for other processes, without flushing to disk and ignoring write errors."""
        temporary = self.path / f"{LIVE}.new"
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps({"time": time.time(), **values}), encoding="utf-8")
            os.replace(temporary, self.path / LIVE)

    def hide(self) -> None:
        """Delete the files that `show` wrote."""
        for name in (LIVE, f"{LIVE}.new"):
            (self.path / name).unlink(missing_ok=True)

    def live(self) -> dict[str, Any]:
        """Return the progress that `show` wrote last if a worker holds the run, else {}."""
        if not self.held():
            return {}
        try:
            content = json.loads(read_regular(self.path / LIVE))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def held(self) -> bool:
        """Return whether a process, on any machine that shares this disk, is writing the run."""
        return leases.holder(self.home) is not None


class StudyDirectory:
    """The directory of a study: study.json and the directories of its cells."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """Return the content of study.json. Raise UserError if the directory is no study."""
        file = self.path / "study.json"
        if not file.exists():
            fault = "does not exist" if not self.path.exists() else "is not a study (it has no study.json)"
            raise UserError(f"{self.path} {fault}; give the directory that `bench run` printed")
        content = read_json(file)
        if not isinstance(content, dict) or not isinstance(content.get("cells"), dict):
            raise UserError(f"{file} is not what `bench run` wrote; restore it or delete {self.path}")
        if content.get("schema") != SCHEMA_VERSION:
            raise UserError(f"{file} has schema {content.get('schema')!r}, this version reads {SCHEMA_VERSION}")
        return dict(content)

    def write(
        self, name: str, command: list[str], cells: Mapping[str, Mapping[str, Any]],
        fence: Callable[[], None] = nothing, claims: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Add cells to study.json; cells of earlier commands are kept, and seeds of the same cell are merged. `fence`
        raises an error if the study's lease is lost.

        An entry has `directory`, `seeds`, `label_variant` and, for a cell of a matrix, its place as `matrix`. `claims`:
        digest of the study's claims, and the cells of each of their rows; an earlier entry stays if it is None.
        """
        drop_unfinished(self.path, "study.json")  # whoever lost the study may wake up before its rename
        listed: dict[str, Any] = {}
        if (self.path / "study.json").exists():
            earlier = self.read()
            listed, claims = earlier["cells"], claims or earlier.get("claims")
        for cell, addition in cells.items():
            before = listed.get(cell, {})
            basis = (
                before if "matrix" in before and "matrix" not in addition else addition
            )  # bench run keeps an earlier matrix
            listed[cell] = {**basis, "seeds": sorted({*before.get("seeds", []), *addition["seeds"]})}
        content = {"schema": SCHEMA_VERSION, "study": name, "command": command, "cells": listed}
        write_json(self.path / "study.json", {**content, **({"claims": dict(claims)} if claims else {})}, fence)

    def run(self, cell_directory: str, seed: int) -> RunDirectory:
        return RunDirectory(self.path / cell_directory / f"seed-{seed}")

    def runs(self) -> Iterator[tuple[dict[str, Any], RunDirectory]]:
        """Yield every run in study.json with the entry of its cell."""
        for cell in self.read()["cells"].values():
            for seed in cell["seeds"]:
                yield cell, self.run(cell["directory"], seed)


def dumps(value: Any) -> str:
    """Return compact JSON for one line of a worker's output."""
    return json.dumps(value, separators=(",", ":"))
