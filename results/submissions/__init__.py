"""Submissions: a study packed into one archive (`pack`), and untrusted archives checked before use (`add`).

| in the archive | |
| --- | --- |
| manifest.json | submitter, program version, and size and SHA-256 of every other file |
| study.json, cell.json, run.json | configuration and provenance, without paths of the submitter's machine |
| evaluations.parquet, ledger.jsonl | evaluations and model usage of finished runs |
| policy.safetensors | final parameters of finished runs, which make a submission verifiable |
| frames/…/*.png | sample frames for a judge |
| …/seed-0/frames/*.json, *.png | episodes of a run as strips of frames, from `bench eval --frames` |
| …/seed-0/gallery/gallery.json, *.webp | up to three animated episodes of a cell, from `bench eval --gallery` |
| models/cassette.sqlite | recorded model calls, on request |
"""

from guidebench.results.submissions.manifest import Manifest
from guidebench.results.submissions.opening import Submission, add, opened, unpacked

__all__ = ["Manifest", "Submission", "add", "opened", "unpacked"]
