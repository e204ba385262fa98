"""How a study is carried out: where, on what, in which packing. None of it can change a result or a cell's id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from guidebench.harness.settings import Bounds, Unit


@dataclass(frozen=True)
class Models:
    """How a study asks its models: the settings `models.*`. Hand-written judges and oracles are not concerned."""

    mode: Literal["record", "live", "replay"] = "record"
    """record: what was asked before is answered from the cassette, anything else is asked and recorded; live: all is
    asked and nothing recorded; replay: nothing is asked, and what was never recorded is an error."""
    cassette: str | None = None
    """A study, or a file of `bench models export`, whose recorded answers count beside the study's own."""
    keep_images: bool = True
    """Whether the cassette holds the frames that were asked about, each once; replaying needs none of them."""
    keep_arrays: Literal["always", "finished"] = "always"
    """Whether the cassette keeps answers that are arrays, such as embeddings. always: as any other, so that the study
    can be replayed; finished: until their run has finished and the command ends, after which only what they were is on
    record, and training that run again needs its model."""
    budget_usd: Annotated[float | None, Bounds(0), Unit("USD")] = None
    """Most that all calls of the study may cost, by the prices of the recipes or settings; without it no limit."""
    budget_calls: Annotated[int | None, Bounds(0), Unit("calls")] = None
    """Most calls of the study that are really made, failed attempts included."""
    budget_seconds: Annotated[float | None, Bounds(0), Unit("seconds")] = None
    """Most seconds of models' time, added up over all calls."""

    @property
    def budgeted(self) -> bool:
        return not (self.budget_usd is None and self.budget_calls is None and self.budget_seconds is None)


@dataclass(frozen=True)
class Execution:
    """Settings of the command besides what defines its cells."""

    output: str | None = None
    """Directory of the study; without it runs/NAME, where NAME follows from the cells."""
    launcher: Literal["local"] = "local"
    """What starts the workers."""
    workers: Annotated[int | None, Bounds(1), Unit("processes")] = None
    """Workers at a time; without it one per CPU core, or per GPU slot."""
    pack: Annotated[int | None, Bounds(1), Unit("seeds")] = None
    """Most seeds of a cell in one worker; without it one on a CPU, all on a GPU."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks live; auto takes a GPU if one is free to use."""
    gpus: tuple[int, ...] | None = None
    """GPUs to use, by index; without it those of CUDA_VISIBLE_DEVICES, or all."""
    per_gpu: Annotated[int, Bounds(1), Unit("workers")] = 1
    """Workers that share one GPU."""
    checkpoint_every: Annotated[int, Bounds(1), Unit("environment steps")] = 5_000
    """Steps between checkpoints (at most 5,000 for a run that is longer than its replay); at most this much work is
    repeated after a crash."""
    probes: Annotated[int, Bounds(0), Unit("probes")] = 10
    """How many times over a run what the critic expects along the task's reference episode is written; 0 for never."""
    keep_replay: bool = False
    """Keep the stored transitions of finished runs (they are large) instead of deleting them."""
    tensorboard: bool = False
    """Write TensorBoard files beside each run."""
    mixed_commits: bool = False
    """Let runs stand beside others that were made by other code, and continue those that other code began; without it a
    rerun over changed code is an error that names what has changed."""
    report: bool = True
    """Write the report when the study ends."""
    against: str | None = None
    """Directory of a stored study, or `measured`, to compare with when the study ends (bench compare)."""
    models: Models = field(default_factory=Models)
    """The settings `models.*`."""
