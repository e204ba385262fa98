"""Studies that people hand in: one archive each (`pack`), looked at with care before anything of it counts (`add`).

| in the archive | |
| --- | --- |
| manifest.json | who, with what, and size and SHA-256 of every other file |
| study.json, cell.json, run.json | configuration and provenance, as the study has them, without this machine's paths |
| evaluations.parquet, ledger.jsonl | what finished runs measured and what their models took |
| policy.safetensors | their final parameters, which make a submission verifiable |
| frames/…/*.png | samples of what a judge was shown |
| …/seed-0/frames/*.json, *.png | episodes of a run in strips of frames, as `bench eval --frames` draws them |
| models/cassette.sqlite | recorded model calls, on request |
"""

from guidebench.results.submissions.manifest import Manifest
from guidebench.results.submissions.opening import Submission, add, opened, unpacked

__all__ = ["Manifest", "Submission", "add", "opened", "unpacked"]
