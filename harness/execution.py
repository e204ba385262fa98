"""Settings of how a study is executed: output, hardware, packing. None of them changes a result or a cell id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from guidebench.harness.heartbeats import SILENT_AFTER
from guidebench.harness.settings import Bounds, Unit


@dataclass(frozen=True)
class Models:
    """The settings `models.*`: how a study calls foundation models. Scripted judges and oracles ignore them."""

    mode: Literal["record", "live", "replay"] = "record"
    """record: answer calls from the cassette where it holds them, and make and record all others; live: make every call
    and record none; replay: make no call, and raise an error for a call that is not in the cassette."""
    cassette: str | None = None
    """A study, or a file of `bench models export`, whose recorded answers are used in addition to the study's own;
    several are separated by commas, and of equal calls the first one's answer counts."""
    keep_images: bool = True
    """Whether the cassette stores the frames of the questions, each frame once. Replaying does not need them."""
    keep_arrays: Literal["always", "finished"] = "always"
    """How long the cassette keeps answers that are arrays, such as embeddings. always: permanently, so that the study
    can be replayed; finished: until their run has finished and the command ends. After that only their shape and dtype
    remain, and training that run again needs its model."""
    share: bool = True
    """Whether the workers of one machine (launcher=local) share the weights of models that run on it. If false, each
    worker loads its own: for a model of a package that cannot compute after its process has forked."""
    budget_usd: Annotated[float | None, Bounds(0), Unit("USD")] = None
    """Maximum cost of all calls of the study, by the prices of the model recipes or settings; null for no limit."""
    budget_calls: Annotated[int | None, Bounds(0), Unit("calls")] = None
    """Maximum number of calls of the study, failed attempts included and recorded answers not; null for no limit."""
    budget_seconds: Annotated[float | None, Bounds(0), Unit("seconds")] = None
    """Maximum model time, summed over all calls of the study; null for no limit."""

    @property
    def cassettes(self) -> tuple[Path, ...]:
        """Return the studies and files that `cassette` names. A text with commas is one path if there is such a one."""
        if self.cassette is None:
            return ()
        path = Path(self.cassette)
        if path.exists() or "," not in self.cassette:
            return (path,)
        return tuple(
            dict.fromkeys(Path(text.strip()).expanduser() for text in self.cassette.split(",") if text.strip())
        )

    @property
    def budgeted(self) -> bool:
        return not (self.budget_usd is None and self.budget_calls is None and self.budget_seconds is None)


@dataclass(frozen=True)
class Execution:
    """Settings of a command that do not define its cells."""

    output: str | None = None
    """Directory of the study; null for runs/NAME, where NAME is derived from the cells."""
    launcher: str = "local"
    """Launcher that starts the workers (`bench list launchers`)."""
    workers: Annotated[int | None, Bounds(1), Unit("processes")] = None
    """Number of concurrent workers; null for one per CPU core, or one per GPU slot."""
    pack: Annotated[int | None, Bounds(1), Unit("seeds")] = None
    """Maximum seeds of a cell that one worker trains at the same time; null for one on a CPU, and on a GPU for as many
    as fit into its memory, which is measured."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the networks; auto uses a GPU if one is available."""
    gpus: tuple[int, ...] | None = None
    """Indices of the GPUs to use; null for those of CUDA_VISIBLE_DEVICES, or all."""
    per_gpu: Annotated[int | None, Bounds(1), Unit("workers")] = None
    """Number of workers that share one GPU and its memory; null for one, or, where CUDA MPS runs, for one for every two
    CPU cores, at most four."""
    env_workers: Annotated[int | None, Bounds(0), Unit("processes")] = None
    """Processes beside each worker that step its tasks, so that those of several seeds and episodes step at the same
    time; null for as many as idle cores make worthwhile, which is none on a CPU whose cores all have workers."""
    silent_after: Annotated[float, Bounds(1), Unit("seconds")] = SILENT_AFTER
    """Seconds without a sign of life after which a process of the command counts as hung (a worker, `env_workers`, a
    model's process): it is killed, and started again or failed as after a crash. Long calls are no silence, unless they
    hold the Python interpreter."""
    checkpoint_every: Annotated[int, Bounds(1), Unit("environment steps")] = 5_000
    """Steps between checkpoints (at most 5,000 for a run that is longer than its replay); a crash repeats at most this
    many steps."""
    probes: Annotated[int, Bounds(0), Unit("probes")] = 10
    """Number of times per run that the critic's values along the task's reference episode are logged; 0 disables it."""
    keep_replay: bool = False
    """Keep the stored transitions of finished runs (they are large) instead of deleting them."""
    answers: bool = False
    """Write answers.parquet into each run's directory: in each role of a model, the answers to the first 2,000 distinct
    questions of a kind. A placebo gives them to other questions."""
    trackers: tuple[str, ...] = ()
    """Trackers that follow the runs from a process beside them, such as wandb,mlflow (`bench track`)."""
    mixed_commits: bool = False
    """Allow a study to mix runs of different code versions and to continue runs that other code began. If false,
    rerunning a study after code changes is an error that names the changes."""
    yes: bool = False
    """Begin a long study without asking. If false, `bench run` asks on a terminal before it begins a study of more than
    12 core-hours."""
    report: bool = True
    """Write the report when the study ends."""
    against: str | None = None
    """Directory of a stored study to compare with when the study ends, or `measured` (bench compare)."""
    models: Models = field(default_factory=Models)
    """The settings `models.*`."""
    launching: Mapping[str, Any] = field(default_factory=dict)
    """The settings `launcher.*` that the command gives."""
