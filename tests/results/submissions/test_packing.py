"""A study as one archive: what is in it, what is not, and that it is the same each time."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest

import guidebench
from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.identity import cells
from guidebench.harness.models import exchange
from guidebench.harness.plan import matrix
from guidebench.results import submissions
from guidebench.results.submissions import private
from guidebench.results.submissions.packing import pack
from tests.harness.models.test_exchange import record
from tests.reports.conftest import edit
from tests.results.submissions.conftest import SEEDS, contents_of


def test_an_archive_holds_configuration_provenance_evaluations_cost_and_parameters_and_nothing_else(
    archive: Path, trained: Path, cell: str, tmp_path: Path
) -> None:
    files = ("evaluations.parquet", "ledger.jsonl", "policy.safetensors", "run.json")
    runs = [f"{cell}/seed-{seed}/{name}" for seed in SEEDS for name in files]
    with zipfile.ZipFile(archive) as opened:
        assert opened.namelist() == ["manifest.json", *sorted([f"{cell}/cell.json", *runs, "study.json"])]
        assert opened.testzip() is None
    shutil.unpack_archive(archive, tmp_path / "by-hand")
    assert results.load(tmp_path / "by-hand").equals(results.load(trained))
    assert json.loads((tmp_path / "by-hand" / "manifest.json").read_text())["by"] == "A. Reader"


def test_an_archive_does_not_tell_where_it_was_made(study: Path, cell: str, tmp_path: Path) -> None:
    home = str(Path.home())
    path = study / "study.json"
    command = [
        "bench", "run", f"output={home}/my runs/x", "--output", "/srv/groups/b/y", "judge.base_url=http://10.1.2.3/v1",
        "note=see,https://me:pw@inner.example/x", "PATH=/usr/bin:/srv/bin",
    ]  # fmt: skip
    edit(path, command=[*command, "models.cassette='/data/c d'", "replay.alpha=0.5,0.7"])
    trace = (
        f'Traceback (most recent call last):\n  File "{home}/code/x.py", line 3\n'
        f"OSError: no such file: '{home}/x' at http://user:pw@inner.example:8000/v1"
    )
    edit(study / cell / "seed-1" / "run.json", status="failed", error=trace)
    packed = pack(study, tmp_path / "a.zip")
    contents = contents_of(packed.file)
    for secret in (home, "my runs", "/srv", "10.1.2.3", "/data", "c d", "inner.example", "pw", str(tmp_path)):
        assert not any(secret.encode() in content for content in contents.values()), secret
    assert json.loads(contents["study.json"])["command"] == [
        "bench",
        "run",
        "output=…",
        "--output",
        "…",
        "judge.base_url=…",
        "note=see,…",
        "PATH=…",
        "models.cassette=…",
        "replay.alpha=0.5,0.7",
    ]
    assert json.loads(contents[f"{cell}/seed-1/run.json"])["error"] == "OSError: no such file: '…/x' at …"
    assert any("hidden" in remark and "errors, the command" in remark for remark in packed.remarks)


def test_a_path_that_is_part_of_the_configuration_is_told(trained: Path, cell: str) -> None:
    cell_record = json.loads((trained / cell / "cell.json").read_text())
    cell_record["settings"]["judge.model"] = {"value": "/srv/me/weights", "layer": "command line", "source": ""}
    cell_record["settings"]["judge.base_url"] = {"value": "http://10.1.2.3/v1", "layer": "command line", "source": ""}
    settings = {
        "judge.prompt": "Is the door open?\nSee /srv/me/notes.txt, 1/2 or yes/no.",
        "suite.files": ["a", "~/weights"],
        "teacher.model": "https://me@inner.example/model",
        "chat.model": "org/name",
    }
    cell_record["settings"] |= {name: {"value": value, "layer": "", "source": ""} for name, value in settings.items()}
    assert dict(private.places_in(private.without_servers(cell_record))) == {
        "judge.model": "/srv/me/weights",
        "judge.prompt": "/srv/me/notes.txt",
        "suite.files": "~/weights",
        "teacher.model": "https://me@inner.example/model",
    }
    assert private.without_servers(cell_record)["settings"]["judge.base_url"]["value"] is None


def test_the_place_of_a_model_with_a_digest_is_replaced_by_its_name_and_the_id_stays(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    words = ["suite=minigrid_doorkey", "method=vlm_rb", "judge=transformers", f"judge.model={tmp_path}"]
    (planned,) = matrix.plan([*words, "task=5x5"]).cells
    cell_record = cells.record(planned)
    named = cell_record["parts"]["judge"]["model"]
    submitted = json.loads(json.dumps(private.without_servers(cell_record)))
    assert named.startswith("local-") and str(tmp_path) not in json.dumps(submitted)
    assert submitted["settings"]["judge.model"]["value"] == submitted["overrides"]["judge.model"] == named
    again = cells.recorded(submitted)
    assert cells.rehashed(submitted) == again.id == planned.id and cells.record(again)["parts"] == cell_record["parts"]


def test_runs_that_are_not_finished_are_named_and_come_without_rows(study: Path, cell: str, tmp_path: Path) -> None:
    edit(study / cell / "seed-1" / "run.json", status="running", step=5, note="of another program")
    packed = pack(study, tmp_path / "a.zip")
    assert any(f"left out: the rows of {cell}/seed-1, which is running at step 5" in note for note in packed.remarks)
    with submissions.unpacked(packed.file) as submission:
        assert [run.status for run in submission.study.runs] == ["finished", "running"]
        assert set(results.load(submission.study)["seed"]) == {0}


def test_a_study_with_nothing_finished_is_refused_and_nothing_is_written(
    study: Path, cell: str, tmp_path: Path
) -> None:
    for seed in SEEDS:
        edit(study / cell / f"seed-{seed}" / "run.json", status="stopped")
    before = set(tmp_path.iterdir())
    with pytest.raises(UserError, match="none of 2 runs is finished, so there is nothing to hand in"):
        pack(study, tmp_path / "a.zip")
    assert set(tmp_path.iterdir()) == before


def test_the_same_study_gives_the_same_bytes_and_without_checkpoints_fewer_and_is_not_verifiable(
    study: Path, trained: Path, cell: str, tmp_path: Path
) -> None:
    for path in study.rglob("*"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o700)
    first, second = pack(trained, tmp_path / "a.zip"), pack(study, tmp_path / "b.zip")
    assert first.file.read_bytes() == second.file.read_bytes(), "wherever and whenever"
    assert pack(study, tmp_path / "c.zip", by="somebody").manifest.digest != first.manifest.digest
    light = pack(study, tmp_path / "d.zip", checkpoints=False)
    assert second.manifest.verifiable and not light.manifest.verifiable and light.bytes < second.bytes
    assert any("can never be verified" in remark for remark in light.remarks)
    (study / cell / "seed-1" / "policy.safetensors").unlink()
    partly = pack(study, tmp_path / "c.zip")
    assert not partly.manifest.verifiable
    assert any("1 of 2 finished runs have no policy" in note for note in partly.remarks)


def test_runs_made_elsewhere_are_taken_and_never_verifiable(tmp_path: Path) -> None:
    names = {"suite": "classic", "task": "CartPole-v1", "method": "theirs", "settings": {"lr": 0.1, "net": [64, 64]}}
    for seed in SEEDS:
        with guidebench.Recorder(tmp_path / "theirs", **names, seed=seed, steps=100) as log:
            for step in (50, 100):
                log.episode(step=step, ret=1.0, success=True)
    packed = pack(tmp_path / "theirs", tmp_path / "a.zip")
    assert not packed.manifest.verifiable and any("made elsewhere" in remark for remark in packed.remarks)
    with submissions.unpacked(packed.file) as submission:
        assert len(results.load(submission.study)) == 4


def test_frames_and_on_request_the_cassette_come_along(study: Path, cell: str, tmp_path: Path) -> None:
    (entry,) = json.loads((study / "study.json").read_text())["cells"].items()
    entry[1]["matrix"] = {"kind": "perturbation", "name": "standard", "reference": entry[0]}
    edit(study / "study.json", cells=dict([entry]))
    frame = study / "frames" / "classic" / "CartPole-v1" / "standard.png"
    frame.parent.mkdir(parents=True)
    imageio.imwrite(frame, np.zeros((8, 8, 3), np.uint8))
    (frame.parent / "other.png").write_bytes(b"nobody asked for this")
    record(study).close()
    plain, complete = pack(study, tmp_path / "a.zip"), pack(study, tmp_path / "b.zip", cassette=True)
    assert set(complete.manifest.files) - set(plain.manifest.files) == {"models/cassette.sqlite"}
    assert "frames/classic/CartPole-v1/standard.png" in plain.manifest.files and len(plain.manifest.files) == 11
    assert complete.file.read_bytes() == pack(study, tmp_path / "c.zip", cassette=True).file.read_bytes()
    with submissions.unpacked(complete.file) as submission:
        assert exchange.stats(submission.directory).models[0].answers.calls == 4
        assert len(results.pictures(submission.study)) == 1
    with pytest.raises(UserError, match="holds no recorded calls"):
        shutil.rmtree(study / "models")
        pack(study, tmp_path / "d.zip", cassette=True)
    assert not (tmp_path / "d.zip").exists()


def test_an_older_archive_is_replaced_and_any_other_file_is_not(study: Path, cell: str, tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    first = pack(study, file).manifest.digest
    (study / cell / "seed-1" / "policy.safetensors").unlink()
    assert pack(study, file).manifest.digest != first
    (tmp_path / "thesis.zip").write_bytes(b"three years of work")
    with pytest.raises(UserError, match="is there already and is no submission"):
        pack(study, tmp_path / "thesis.zip")
    with pytest.raises(UserError, match="name a file in a directory that exists"):
        pack(study, tmp_path / "nowhere" / "a.zip")
    assert (tmp_path / "thesis.zip").read_bytes() == b"three years of work"


def test_a_study_that_would_be_refused_is_not_packed(study: Path, cell: str, tmp_path: Path) -> None:
    file = study / cell / "seed-0" / "policy.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(
        UserError, match=r"study cannot be handed in: .*seed-0/policy.safetensors is no safetensors file"
    ):
        pack(study, tmp_path / "a.zip")
    names = {"suite": "classic", "task": "<b>", "method": "theirs"}
    with guidebench.Recorder(tmp_path / "odd", **names, seed=0, steps=10) as log:
        log.episode(step=10, ret=1.0, success=True)
    with pytest.raises(UserError, match=r"classic/<b>.* cannot be handed in: names of suites, tasks and methods"):
        pack(tmp_path / "odd", tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_a_study_with_stages_can_be_handed_in(tmp_path: Path) -> None:
    tiny = ("training.steps=300", "evaluation.every=100", "evaluation.episodes=2", "seeds=2", "report=false")
    words = ("suite=classic", "task=CartPole-v1", "profile=smoke", "method=uer", "pretraining=per", *tiny)
    process = guidebench.run(*words, output=str(tmp_path / "study"))
    assert process.finished
    packed = pack(process.directory, tmp_path / "a.zip")
    with submissions.unpacked(packed.file) as opened:
        cells = {cell.method: cell for cell in opened.study.cells}
    assert cells.keys() == {"per", "uer"} and cells["uer"].before == cells["per"].total == 600
