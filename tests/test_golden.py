"""Small studies of every family of suites are the same, bit for bit, as when `golden.json` was written.

A difference is a change of what researchers get. Where it is meant, write the file anew and say in the commit what
changed and why:

    GUIDEBENCH_GOLDEN=rewrite python -m pytest -n 0 tests/test_golden.py
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from tests.harness.models.canned import completion, serving
from tests.logs import log_rows

FILE = Path(__file__).with_name("golden.json")
REWRITE = os.environ.get("GUIDEBENCH_GOLDEN") == "rewrite"
NAMED = ("cell", "study")
"""Columns of evaluations that follow from a cell's id, which is compared separately."""
LOGS = ("evaluations", "judgements", "labels", "imagined", "subgoals", "probes")
SHORT = ("training.steps=256", "evaluation.every=128", "evaluation.episodes=1", "learner.learning_starts=64")
STUDIES: Mapping[str, tuple[str, ...]] = {
    "classic, vectors and DQN": ("suite=classic", "task=CartPole-v1", "method=per"),
    "classic, vectors and SAC": ("suite=classic", "task=Pendulum-v1", "method=uer", *SHORT),
    "minigrid, codes and a model that judges frames": (
        "suite=minigrid_doorkey", "method=vlm_rb", *SHORT,
        "judge=openai", "judge.scoring=literal", "judge.delay=32", "drawing.tile_size=4", "replay.clip_length=4",
    ),
    "minigrid, a judge written by hand": ("suite=minigrid_doorkey", "method=vlm_rb", *SHORT),
    "metaworld, hidden goals": ("suite=metaworld_mt10", "method=sac", *SHORT),
    "metaworld, preferences of a chat": ("suite=metaworld_pbrl", "method=rl_sallm_f", "chat=openai"),
    "scene, frames of MuJoCo": (
        "suite=ogbench_scene", "method=vlm_rb", *SHORT,
        "training.demonstrations=1", "judge.delay=32", "drawing.size=32",
    ),
    "housekeep, a record of symbols": ("suite=housekeep", "training.steps=256", "evaluation.every=128"),
    "point maze, preferences of an oracle": ("suite=point_maze", "method=pebble"),
}  # fmt: skip
"""What each study is for -> the command's words."""


def arithmetic() -> str:
    """Return a digest of a small network's update on this machine, which differs where floating-point units round
    differently."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )
    optimiser = torch.optim.Adam(network.parameters())
    for _ in range(5):
        loss = network(torch.randn(32, 3, 8, 8)).exp().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return digest(*(parameter.detach().numpy() for parameter in network.parameters()))


def digest(*contents_: Any) -> str:
    """Return a digest, 16 hex digits, of arrays and of objects that JSON can hold."""
    hasher = hashlib.sha256()
    for part in contents_:
        if isinstance(part, np.ndarray):
            hasher.update(f"{part.dtype} {part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            hasher.update(json.dumps(part, sort_keys=True).encode())
    return hasher.hexdigest()[:16]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve a model that answers every question by a digest of its messages; yield the address."""

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        choice = int(digest(body["messages"])[:8], 16) % 2
        has_image = "image_url" in json.dumps(body["messages"])
        return 200, completion(f"Answer: {('no', 'yes')[choice] if has_image else choice + 1}")

    with serving(answer) as url:
        yield url


def contents(cassettes: Sequence[Path]) -> str:
    """Return the counts of questions, answers and frames in cassettes, and a digest of them."""
    tables: list[set[tuple[Any, ...]]] = [set(), set(), set()]
    queries = ("SELECT key, text FROM requests", "SELECT key, value FROM answers", "SELECT digest FROM images")
    for cassette in cassettes:
        with closing(sqlite3.connect(cassette)) as db:
            for table, query in zip(tables, queries, strict=True):
                table.update(db.execute(query))
    requests, answers, images = (len(table) for table in tables)
    return f"{requests} requests, {answers} answers, {images} images: {digest(*map(sorted, tables))}"


def study_digests(study: Path) -> dict[str, str]:
    """Return the id, and digests of the policy, the logs and the recorded answers, of a study of one run."""
    (run,) = study.glob("*/*/*/seed-*")
    policy = load_file(run / "policy.safetensors")
    digests = {"id": run.parent.name.rpartition("-")[2], "policy": digest(*(policy[name] for name in sorted(policy)))}
    for log in LOGS:
        if rows := log_rows(run, log):
            reproducible = [{name: value for name, value in row.items() if name not in NAMED} for row in rows]
            digests[log] = f"{len(rows)} rows: {digest(reproducible)}"
    if cassettes := sorted((study / "models").glob("*.sqlite")):
        digests["cassette"] = contents(cassettes)
    return digests


@pytest.mark.parametrize("name", STUDIES)
def test_a_small_study_is_what_it_was(name: str, train: Callable[..., Path], server: str, opengl: None) -> None:
    words = STUDIES[name]
    served = [word.split("=")[0] for word in words if word.endswith("=openai")]
    reached = [f"{part}.{setting}" for part in served for setting in ("model=canned-1", f"base_url={server}")]
    digests = study_digests(train(*words, *reached, "seeds=[3]", packs=[(3,)]))
    golden = json.loads(FILE.read_text()) if FILE.exists() else {"arithmetic": arithmetic(), "studies": {}}
    if REWRITE:
        if golden["arithmetic"] != arithmetic():
            golden = {"arithmetic": arithmetic(), "studies": {}}
        golden["studies"][name] = digests
        FILE.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
        return
    expected = golden["studies"][name]
    assert digests["id"] == expected["id"]
    assert digests.keys() == expected.keys()
    if golden["arithmetic"] != arithmetic():
        pytest.skip("golden.json was written on a processor whose floating-point results differ from this one's")
    assert digests == expected
