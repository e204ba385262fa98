"""Small real submissions, and ways to tamper with them for a better rank."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.harness.commands import cli
from guidebench.harness.identity import cells
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run.worker import work
from guidebench.results.submissions import packing
from guidebench.results.submissions.manifest import MANIFEST, Packed, read
from guidebench.results.submissions.opening import add
from guidebench.results.verification import record, verifying
from guidebench.results.verification.playing import Played, Player, RunEvaluations
from guidebench.results.verification.record import CellVerdict, Verification

SEED = 7
"""Seed of the choice of runs to play and of their new layouts."""
FRESH = ("",)
"""Words of `verify` for layouts that the command draws itself."""


@dataclass
class BoardSubmission:
    """An unpacked submission, alone on a leaderboard."""

    directory: Path
    leaderboard: Path

    def cell(self, task: str = "CartPole-v1") -> Path:
        return next(self.directory.glob(f"*/{task}/*/cell.json")).parent

    @property
    def id(self) -> str:
        """Return the id of the CartPole cell."""
        return self.cell().name.rpartition("-")[2]

    def seal(self) -> None:
        """Recompute the checksums and the name that follows from them, as somebody would who tampers."""
        manifest = read((self.directory / MANIFEST).read_bytes())
        paths = [path for path in self.directory.rglob("*") if path.is_file() and path.name != MANIFEST]
        files = {
            path.relative_to(self.directory).as_posix(): Packed(
                path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
            )
            for path in sorted(paths)
        }
        sealed = replace(manifest, files=files)
        (self.directory / MANIFEST).write_bytes(sealed.encoded)
        self.directory = self.directory.rename(self.directory.with_name(sealed.directory))

    def edit_rows(self, seed: int, edit: Callable[[list[dict[str, Any]]], None]) -> None:
        """Change the evaluation rows of a run."""
        path = self.cell() / f"seed-{seed}" / "evaluations.parquet"
        table = pq.read_table(path)
        rows = table.to_pylist()
        edit(rows)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)

    def edit_settings(self, consistently: bool = True, **settings: Any) -> None:
        """Change settings (`learner_lr` is learner.lr) of the CartPole cell; if `consistently`, with the overrides and
        every id that follow from them, else only in cell.json."""
        old = self.cell()
        cell_record = json.loads((old / "cell.json").read_text())
        for name, value in settings.items():
            cell_record["settings"][name.replace("_", ".", 1)]["value"] = value
        before = cell_record["cell"]
        if consistently:
            cell_record["overrides"] |= {name.replace("_", ".", 1): value for name, value in settings.items()}
            cell_record["variant"] = Cell(cells.names_of(cell_record), {}, cell_record["overrides"]).variant
            cell_record["cell"] = cells.rehashed(cell_record)
        (old / "cell.json").write_text(json.dumps(cell_record))
        if not consistently:
            return
        new = old.rename(old.with_name(old.name.replace(before, cell_record["cell"])))
        listing = (self.directory / "study.json").read_text()
        (self.directory / "study.json").write_text(listing.replace(before, cell_record["cell"]))
        for path in new.glob("seed-*/evaluations.parquet"):
            rows = pq.read_table(path).to_pylist()
            schema = pq.read_schema(path)
            pq.write_table(
                pa.Table.from_pylist([{**row, "cell": cell_record["cell"]} for row in rows], schema=schema), path
            )

    def verify(self, *words: object) -> tuple[int, Verification]:
        """Run `bench verify` with few episodes, on the same new layouts each time; return its exit code and record."""
        plain = ["verify", str(self.directory), "--leaderboard", str(self.leaderboard), "--episodes", "16"]
        plain += ["--seed", str(SEED)] if words != FRESH else []
        code = cli.main([*plain, *(map(str, words) if words != FRESH else [])])
        verification = record.read(self.leaderboard, read((self.directory / MANIFEST).read_bytes()).digest)
        assert verification is not None
        return code, verification

    def verdict(self, *words: object, task: str = "CartPole-v1") -> CellVerdict:
        """Return the verdict on the cell of a task; `words` as in `verify`."""
        _, verification = self.verify(*words)
        return verification.cells[self.cell(task).name.rpartition("-")[2]]


def trained(directory: Path, *overrides: str, seeds: int = 1) -> Path:
    """Train `seeds` seeds in this process, each alone; return the study's directory."""
    plan = matrix.plan([*overrides, "profile=smoke", f"seeds={seeds}", f"output={directory}"])
    study = StudyDirectory(directory)
    listed = {c.id: {"directory": c.directory, "seeds": list(plan.seeds), "label_variant": ""} for c in plan.cells}
    study.write("handed in", [], listed)
    for cell in plan.cells:
        cells.write_cell(study, cell)
        for seed in plan.seeds:
            job = Job(study="handed in", directory=str(directory), cell=cells.record(cell), seeds=(seed,))
            work(job, lambda event: None, lambda: False)
    return directory


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack a study of DQN on CartPole, two seeds, and of VLM-RB with its scripted judge on a grid, one seed; it has as
    many episodes as new layouts need for a verdict."""
    root = tmp_path_factory.mktemp("handed-in")
    trained(root / "study", "suite=classic", "task=CartPole-v1", "evaluation.episodes=16", seeds=2)
    trained(root / "study", "suite=minigrid_doorkey", "method=vlm_rb", "evaluation.episodes=32")
    return packing.pack(root / "study", root / "study.zip").file


class SharedPlayer:
    """A player process that several tests share, with its outcomes: the same policy is played once."""

    def __init__(self, player: Player, played: dict[object, Played | Exception]) -> None:
        self.player, self.played = player, played

    def __call__(self, question: RunEvaluations) -> Played:
        files = (question.cell / "cell.json", question.cell / f"seed-{question.seed}" / "policy.safetensors")
        key = (*question[1:7], str(question[7:]), *(path.read_bytes() if path.is_file() else b"" for path in files))
        if key not in self.played:
            try:
                self.played[key] = self.player(question)
            except Exception as error:
                self.played[key] = error
        outcome = self.played[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """Keep the process for other tests."""


@pytest.fixture(scope="session")
def player() -> Iterator[Player]:
    process = Player(600.0)
    yield process
    process.close()


@pytest.fixture(scope="session")
def played() -> dict[object, Played | Exception]:
    """Return the outcomes of all policies played in this session, by question and files."""
    return {}


@pytest.fixture
def shared_player(player: Player, played: dict[object, Played | Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `bench verify` play in the shared process, unless the test sets a time limit below a second."""
    monkeypatch.setattr(
        verifying, "Player", lambda limit: SharedPlayer(player, played) if limit >= 1 else Player(limit)
    )


@pytest.fixture
def submission(archive: Path, tmp_path: Path, shared_player: None) -> Iterator[BoardSubmission]:
    leaderboard = tmp_path / "leaderboard"
    yield BoardSubmission(add(archive, leaderboard), leaderboard)
    shutil.rmtree(leaderboard)
