"""A guide whose embedder answers with vectors: some fill a column of the replay late, some its state at once; both
replay."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.loop import checkpoints
from guidebench.harness.models import study_models
from guidebench.harness.plan import matrix
from guidebench.harness.run import study

GLIMPSES = '''
    """The frames of a stretch are embedded and come back late; a text is embedded while training waits."""

    import json
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.experience import Clip
    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.models.calls import EmbedCall
    from guidebench.harness.interfaces import ArraySpec, Question
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register

    FRAMES, NAME = ArraySpec("frames", (16,), "float16"), ArraySpec("name", (16,))


    @register.guide("glimpses")
    @dataclass(frozen=True)
    class Glimpses(AskingPart):
        """Adds what two embeddings say of a state to its reward."""

        width: int = 16
        """Of a vector (choice)."""

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        needs: ClassVar = {"seer": "embedder", "reader": "embedder"}
        consults: ClassVar = ("reader",)
        shows_frames: ClassVar[bool] = True

        def spawn(self, build):
            return Guide(build.rows, self.width)

        def dialogue(self, suite, task, role):
            return Embed()

        def array(self, view, role):
            return (FRAMES if role == "seer" else NAME)._replace(shape=(self.width,))


    class Embed:
        calls = 1

        async def __call__(self, content, frames, ask):
            answer = await ask(EmbedCall((content,) if frames is None else tuple(frames)))
            return None if answer.failure else answer.value


    class Guide(BaseGuide):
        wants_snapshots = True

        def __init__(self, rows, width):
            self.columns = (FRAMES._replace(shape=(width,)).column(),)
            self.open, self.name, self.number = [Clip() for _ in range(rows)], np.zeros((rows, width), np.float32), 0

        def observed(self, slot, transition, store, ctx):
            ended = transition.terminated | transition.truncated
            for row, clip in enumerate(self.open):
                clip.add(self.number, transition.snapshot[row], transition.events[row, :0])
                if len(clip.numbers) == 8 or ended[row]:
                    ctx.ask(clip.close(row)._replace(to="seer"))
            self.number += 1

        def answered(self, answers, store, ctx):
            for question, answer in answers:
                assert answer.value.dtype == np.float16
                store.apply("frames", question.row, question.key, answer.value)

        def before_update(self, store, learner, ctx):
            if ctx.step % 20 == 0:
                nothing = np.zeros((1, 0), bool)
                asks = [Question(row, np.array([row]), None, nothing, json.dumps(f"step {ctx.step}"), "reader")
                        for row in range(len(self.name))]
                for row, value in enumerate(ctx.consult(asks)):
                    self.name[row] += value[0]
            return 0

        def shape(self, batch):
            features = np.nan_to_num(batch.columns["frames"].astype(np.float32))
            return batch._replace(reward=batch.reward + np.einsum("sbd,sd->sb", features, self.name))

        def state(self, row):
            return {"open": self.open[row].state(), "name": self.name[row], "number": self.number}

        def load_state(self, row, state):
            self.open[row].load_state(state["open"])
            self.name[row], self.number = state["name"], int(state["number"])


    register.method("glimpses")(
        Method(summary="embeds", suite="minigrid_doorkey", guide="glimpses", citation="% a test",
               roles={"seer": "transformers", "reader": "transformers"})
    )
'''
SMALL = (
    "suite=minigrid_doorkey", "drawing.tile_size=8", "training.steps=96", "evaluation.every=48",
    "evaluation.episodes=2", "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=32",
)  # fmt: skip
RUN_FILES = ("evaluations.parquet", "policy.safetensors")


@pytest.fixture(scope="module")
def clip(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny CLIP whose vectors have 16 numbers."""
    return Path(shutil.copytree(tiny("clip"), tmp_path_factory.mktemp("models") / "clip"))


@pytest.fixture
def glimpses(plugin: Callable[..., Path], clip: Path) -> tuple[str, ...]:
    """Return the words of a command with the guide and its models."""
    install(plugin)
    return (
        *SMALL, "method=glimpses", f"seer.model={clip}", f"reader.model={clip}", "seer.dtype=float32",
        "reader.dtype=float32", "seer.delay=20", "models=paper", "seeds=[0,1]",
    )  # fmt: skip


@pytest.fixture(scope="module")
def studies() -> dict[str, Path]:
    """Return name -> study, for studies that several tests read."""
    return {}


@pytest.fixture
def recorded_study(studies: dict[str, Path], train_once: Callable[..., Path], glimpses: tuple[str, ...]) -> Path:
    """Return a settled study of the guide; only to be read."""
    if "recorded" not in studies:
        studies["recorded"] = train_once(*glimpses, packs=[(0, 1)])
        study_models.settle(study_models.folder(studies["recorded"]))
    return studies["recorded"]


def install(plugin: Callable[..., Path]) -> None:
    plugin("glimpses", GLIMPSES, {"guide": "glimpses", "method": "glimpses"})


def rows(directory: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.glob(f"*/*/*/seed-*/{name}"))]


def arrays(directory: Path) -> list[tuple[int, int]]:
    """Return (answers on record, arrays on record) of each file."""
    counts = []
    for file in sorted(study_models.folder(directory).glob("*.sqlite")):
        with closing(sqlite3.connect(file)) as db:
            counts.append(
                (
                    *db.execute("SELECT COUNT(*) FROM answers").fetchone(),
                    *db.execute("SELECT COUNT(*) FROM arrays").fetchone(),
                )
            )
    return counts


class Killed(BaseException):
    """Raised in place of the death of the process."""


def kill_at(call: int) -> Callable[[], bool]:
    """Return a `stop` whose call number `call` kills the run."""
    calls = iter(range(10_000))

    def kill() -> bool:
        if next(calls) == call:
            raise Killed
        return False

    return kill


def test_vectors_of_a_real_clip_train_alike_killed_repacked_and_without_the_model(
    train: Callable[..., Path], glimpses: tuple[str, ...], clip: Path, recorded_study: Path, tmp_path: Path
) -> None:
    ((answers, array_count),) = arrays(recorded_study)
    assert answers == array_count >= 2 * 96 / 8, "one call for each stretch and each consultation"
    replay = {"mode": "replay", "cassette": str(recorded_study)}
    directory, hidden_clip = tmp_path / "interrupted", clip.rename(clip.with_name("gone"))
    try:
        with pytest.raises(Killed):
            train(*glimpses, packs=[(0, 1)], directory=directory, stop=kill_at(70), models=replay, checkpoint_every=30)
        (run, _) = sorted(directory.glob("*/*/*/seed-*"))
        assert 0 < checkpoints.step_of(checkpoints.existing(run)[-1]) < 70
        assert (run / "replay" / "frames.bin").stat().st_size % (16 * 2) == 0
        train(*glimpses, packs=[(1,), (0,)], directory=directory, models=replay)
    finally:
        hidden_clip.rename(clip)
    for name in RUN_FILES:
        assert len(rows(recorded_study, name)) == 2 and rows(directory, name) == rows(recorded_study, name), name


def test_arrays_of_a_finished_run_are_dropped_where_that_is_asked_for_and_a_replay_says_so(
    clip: Path, tmp_path: Path
) -> None:
    words = (
        *SMALL, "profile=smoke", "method=vlm_rm", "embedder=transformers", f"embedder.model={clip}",
        "embedder.dtype=float32", "guide.stretch=8", "seeds=1", "report=false",
    )  # fmt: skip
    first = tmp_path / "first"
    done = study.carry_out(matrix.plan([*words, f"output={first}", "models.keep_arrays=finished"]))
    assert done.finished
    ((answers, array_count),) = arrays(first)
    assert answers > 5 and array_count == 0
    words = (*words, f"output={tmp_path / 'again'}", f"models.cassette={first}")
    replay_plan = matrix.plan([*words, "models.mode=replay"])
    with pytest.raises(UserError, match=rf"\({answers} of .*\): models.keep_arrays=finished dropped them") as error:
        study.carry_out(replay_plan)
    assert "models.mode=record" in str(error.value)
    assert not [*(tmp_path / "again").glob("*/*/*/seed-*")], "refused before training"
    assert study.carry_out(matrix.plan(words)).finished
    assert arrays(tmp_path / "again") == [(answers, answers)], "the model computed the dropped arrays again"
    for name in RUN_FILES:
        assert rows(tmp_path / "again", name) == rows(first, name)
