"""Shared by tests of launchers with a scheduler: commands as processes, the state of a study's jobs as its files show
it, and a study with a served judge that survives the loss of its command and of its nodes."""

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guidebench.harness.models import budget, exchange
from guidebench.harness.records import leases
from tests.harness.models.canned import completion, serving
from tests.programs import bench

LIMIT = 2_000
"""Budget of calls of the study with a served judge; it needs fewer."""
STUDY = (
    "suite=minigrid_doorkey", "method=uer,vlm_rb", "judge=openai", "judge.model=canned", "judge.scoring=literal",
    "judge.delay=64", "replay.clip_length=4", "drawing.tile_size=8", "profile=smoke", "training.steps=600",
    "evaluation.every=300", "evaluation.episodes=1", "checkpoint_every=100", "learner.channels=4",
    "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16", "seeds=2", "pack=2", "report=false",
)  # fmt: skip
"""Four runs in two jobs; those of vlm_rb ask a judge behind a server."""
RUNS = 4


STILL, MOST = 60.0, 600.0
"""Seconds after which a wait fails if nothing changes, and in any case."""


def wait_until(
    is_done: Callable[[], object],
    every: float = 0.2,
    moves: Callable[[], object] = lambda: None,
    describe: Callable[[], str] = lambda: "",
    still: float = STILL,
) -> None:
    """Wait until `is_done()` is true, checking every `every` seconds. Fail once the value of `moves()` has not changed
    for `still` seconds; the text of `describe()` is then part of the error."""
    last, since, began = moves(), time.monotonic(), time.monotonic()
    while not is_done():
        now = time.monotonic()
        if now - since > 1.0 and (present := moves()) != last:
            last, since = present, now
        assert now - since < still and now - began < MOST, f"nothing moves, or it took too long\n{describe()}"
        time.sleep(every)


def progress(place: Path) -> list[tuple[str, int, int]]:
    """Return (path, bytes, mtime in ns) of every file below `place`, except leases: it changes while a study makes
    progress."""
    states = []
    for folder, _, names in os.walk(place):
        for path in (Path(folder, name) for name in names if not folder.endswith(leases.FOLDER)):
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                status = path.stat()
                states.append((str(path), status.st_size, status.st_mtime_ns))
    return states


def statuses(study: Path) -> list[str]:
    return [json.loads(path.read_text())["status"] for path in sorted(study.glob("*/*/*/seed-*/run.json"))]


def events(study: Path) -> list[list[str]]:
    """Return the kinds of events of each job, in order, without `progress`."""
    job_events = []
    for path in sorted((study / "jobs").glob("*.events.jsonl")):
        kinds = [json.loads(line)["event"] for line in path.read_text().splitlines()]
        job_events.append([kind for kind in kinds if kind != "progress"])
    return job_events


@contextmanager
def judging() -> Iterator[tuple[str, list[str]]]:
    """Run a server whose judgement is a function of the request; yield its address and the requests it received."""
    requests: list[str] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        requests.append(json.dumps(body.get("messages"), sort_keys=True))
        return 200, completion("Yes" if zlib.crc32(requests[-1].encode()) % 3 == 0 else "No")

    with serving(answer) as url:
        yield url, requests


def rows(study: Path) -> dict[str, bytes]:
    """Return the bytes of each run's evaluations, by relative path."""
    return {str(path.relative_to(study)): path.read_bytes() for path in study.glob("*/*/*/seed-*/evaluations.parquet")}


def check_finished_study(study: Path, calls: int) -> None:
    """Check a finished study of `STUDY` whose command was typed twice: its rows equal those of a local study that
    replays its recorded answers, and its budget counts the calls that the server received."""
    local = study.parent / "local"
    done = bench("run", *STUDY, f"models.cassette={study}", "models.mode=replay", f"output={local}")
    assert done.code == 0, done.out + done.err
    assert rows(study) == rows(local) and len(rows(study)) == RUNS
    models = study / "models"
    assert [path.name for path in models.glob("*.sqlite")] == ["cassette.sqlite"] and not (models / "grants").exists()
    recorded = sum(model.spent.calls for model in exchange.stats(study).models)
    spent = budget.spent(models / "budget.json")[0]["calls"]
    assert max(recorded, calls) <= spent <= LIMIT, (recorded, calls, spent)
