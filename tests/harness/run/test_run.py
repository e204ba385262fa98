"""`bench run` with real processes: it ends in a table and a report, and can be repeated."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import guidebench
from guidebench import harness, results
from guidebench.harness.errors import UserError
from guidebench.harness.records.schema import EVALUATION
from tests.logs import log_rows
from tests.programs import Exit, bench

SMALL = ("learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16")
TINY = ("training.steps=240", "evaluation.every=120", "evaluation.episodes=2", *SMALL, "learner.learning_starts=64")
SHORT = ("training.steps=150", "evaluation.every=50", *SMALL, "learner.learning_starts=64")
SMOKE = ("suite=minigrid_doorkey", "profile=smoke")


def rows(study: Path) -> dict[str, bytes]:
    return {str(path.relative_to(study)): path.read_bytes() for path in study.glob("*/*/*/seed-*/evaluations.parquet")}


COMMAND = ("run", *SMOKE, *SHORT, "method=uer,per,vlm_rb", "drawing.tile_size=8")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Exit]:
    """Run a study of three methods and two seeds; return its directory and the command's output. The working directory
    holds files named like our packages, which no process may import."""
    directory = tmp_path_factory.mktemp("run")
    for name in ("guidebench", "harness", "suites", "methods", "results"):
        (directory / f"{name}.py").write_text("raise SystemExit('imported from the current directory')")
    command = [sys.executable, "-P", "-m", "guidebench", *COMMAND, "seeds=2", "output=study", "pack=2"]
    environment = {name: value for name, value in os.environ.items() if name != "MATPLOTLIBRC"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "study", Exit(done.returncode, done.stdout, done.stderr)


def test_one_command_ends_in_a_table_and_a_report(study) -> None:
    directory, done = study
    assert done.err == "" and done.out.count("seeds 0,1: finished") == 3 and "study: 6 finished" in done.out
    table = done.out.split("study: 6 finished")[1]
    rows = {line.split("  ")[1] for line in table.splitlines() if line.startswith("  ") and line.count("  ") > 3}
    assert {"uer", "per", "vlm_rb · sprite"} <= rows, "row names do not repeat the profile"
    sizes = {path.name: path.stat().st_size for path in (directory / "report").iterdir()}
    assert {"report.html", "table.tex"} <= set(sizes)
    assert {Path(name).suffix for name in sizes} >= {".png", ".pdf"} and all(sizes.values())
    assert all(name in table for name in sizes), "the command names every file it wrote"


def test_every_run_leaves_one_row_per_episode_in_the_columns_of_the_schema(study) -> None:
    directory, _ = study
    files = sorted(directory.glob("*/*/*/seed-*/evaluations.parquet"))
    assert len(files) == 6
    for path in files:
        table = pq.read_table(path)
        assert table.column_names == list(EVALUATION)
        assert [str(kind) for kind in table.schema.types] == [
            {str: "string", int: "int64", float: "double", bool: "bool"}[kind] for kind in EVALUATION.values()
        ]
        evaluations = table.to_pylist()
        assert [(row["step"], row["episode"]) for row in evaluations] == [
            (s, e) for s in (50, 100, 150) for e in (0, 1)
        ]
        assert {row["seed"] for row in evaluations} == {int(path.parent.name.removeprefix("seed-"))}
        assert all(0 < row["length"] <= 250 and row["success"] == (row["return"] > 0) for row in evaluations)
        judged = evaluations[0]["method"] == "vlm_rb"
        assert {(row["backend"], row["model"]) for row in evaluations} == {
            ("scripted", "sprite") if judged else ("", "")
        }


def test_an_oracle_that_errs_is_reported_as_privileged_beside_the_events(tmp_path: Path) -> None:
    oracle = ("method=vlm_rb", "judge=oracle", "judge.false_negative=0.3", "replay.clip_length=4", *SMALL)
    done = bench("run", *SMOKE, *oracle, "seeds=1", "output=s", cwd=tmp_path)
    assert done.code == 0 and done.err == "", done.out + done.err
    assert "vlm_rb (judge.false_negative=0.3, " in done.out and "clip_length=4) · oracle · smoke" in done.out
    assert "Judge oracle: oracle, privileged" in " ".join(done.out.split())
    (run,) = tmp_path.glob("s/*/*/*/seed-0")
    judged = log_rows(run, "judgements")
    eventful = [row["score"] for row in judged if row["events"]]
    assert 0 < sum(eventful) < len(eventful) and not any(row["score"] for row in judged if not row["events"])
    hits, uneventful = f"{sum(eventful) / len(eventful):.3f} of {len(eventful)}", len(judged) - len(eventful)
    page = (tmp_path / "s" / "report" / "report.html").read_text()
    for text in (done.out, page):
        assert "privileged information, for diagnosis only" in text
        assert hits in text and f"0.000 of {uneventful}" in text


def test_a_finished_run_keeps_results_and_logs_and_drops_the_rest(study) -> None:
    directory, _ = study
    for run in directory.glob("*/*/*/seed-*"):
        assert {path.name for path in run.iterdir()} - {".lease", "judgements.parquet"} == {
            "run.json", "evaluations.parquet", "policy.safetensors",
            "metrics.parquet", "timings.parquet", "probes.parquet", "ledger.jsonl",
        }  # fmt: skip
        assert (run / "judgements.parquet").exists() == ("vlm_rb" in str(run)), "a log without rows has no file"
        run_record = json.loads((run / "run.json").read_text())
        assert (run_record["status"], run_record["step"], run_record["error"]) == ("finished", 150, None)
        assert run_record["provenance"]["packages"]["torch"] and run_record["provenance"]["hardware"]["device"] == "cpu"


def test_another_output_directory_changes_no_byte_of_the_rows(study, train) -> None:
    directory, _ = study
    elsewhere = directory.parent / "elsewhere" / "a, b (c)"
    words = (*SHORT, "method=vlm_rb", "drawing.tile_size=8", "seeds=1")
    done = bench("run", *SMOKE, *words, f"output={elsewhere}", "report=false", cwd=directory.parent)
    assert done.code == 0, done.out + done.err
    (relative, row_bytes), *_ = rows(elsewhere).items()
    assert rows(train(*words, packs=[(0,)])) == {relative: row_bytes}
    # With other methods the study has another name; everything else is equal.
    moved_rows, original_rows = (pq.read_table(path / relative).to_pylist() for path in (elsewhere, directory))
    assert [{**row, "study": ""} for row in moved_rows] == [{**row, "study": ""} for row in original_rows]
    assert moved_rows[0]["study"] != original_rows[0]["study"]


@pytest.mark.parametrize("method", ["per", "vlm_rb", "aer", "ero", "relo"])
def test_how_often_a_run_is_saved_and_where_it_broke_changes_no_byte(train, monkeypatch, method: str) -> None:
    """The run outgrows its replay, so that old transitions are overwritten; a resume may start two checkpoints back."""
    from guidebench.harness.loop import build, checkpoints

    monkeypatch.setattr(build, "SPACING", 25)
    home = ("drawing.tile_size=8",) if method == "vlm_rb" else ("suite=classic", "task=CartPole-v1")
    settings = (
        *home, f"method={method}", "seeds=[0]", "training.steps=150", "evaluation.every=30", "evaluation.episodes=1",
        *(SMALL if method == "vlm_rb" else SMALL[2:]), "learner.learning_starts=16", "training.capacity=60",
    )  # fmt: skip

    def policy(study: Path) -> bytes:
        return next(study.glob("*/*/*/seed-0/policy.safetensors")).read_bytes()

    seldom = train(*settings, packs=[(0,)], checkpoint_every=1_000)
    often = train(*settings, packs=[(0,)], checkpoint_every=7)
    assert rows(often) == rows(seldom) and policy(often) == policy(seldom)

    calls = itertools.count(1)

    def vanish() -> bool:
        if next(calls) == 124:
            raise KeyboardInterrupt  # without a checkpoint at this step
        return False

    broken = seldom.with_name("broken")
    with pytest.raises(KeyboardInterrupt) as interruption:  # keeps the broken loop in memory
        train(*settings, packs=[(0,)], checkpoint_every=1_000, directory=broken, stop=vanish)
    (run,) = broken.glob("*/*/*/seed-0")
    assert interruption and log_rows(run, "evaluations")[-1]["step"] == 120, (
        "no row reaches its file after the run goes on"
    )
    older, newest = checkpoints.existing(run)
    assert (older.name, newest.name) == ("checkpoint-0000000075", "checkpoint-0000000100")
    (newest / "state.json").write_bytes(b"{}")
    with pytest.warns(UserWarning, match="checkpoint-0000000100 is damaged"):
        train(*settings, packs=[(0,)], checkpoint_every=1_000, directory=broken)
    assert rows(broken) == rows(seldom) and policy(broken) == policy(seldom)


def test_the_same_command_trains_nothing_and_more_seeds_train_only_the_new_ones(study) -> None:
    directory, _ = study
    before = {path: path.stat().st_mtime_ns for path in directory.glob("*/*/*/seed-*/*")}
    repeated = bench(*COMMAND, "seeds=2", "output=study", "report=false", cwd=directory.parent)
    assert repeated.code == 0 and "started" not in repeated.out and "6 finished" in repeated.out
    assert {path: path.stat().st_mtime_ns for path in directory.glob("*/*/*/seed-*/*")} == before
    extended = bench(*COMMAND, "seeds=3", "output=study", "report=false", cwd=directory.parent)
    assert extended.code == 0 and "9 finished" in extended.out
    started = [line for line in extended.out.splitlines() if line.endswith(": started")]
    assert len(started) == 3 and all("seed 2:" in line for line in started)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_from_python_the_same_study_and_its_rows_as_a_data_frame(tmp_path: Path) -> None:
    settings = dict(text.split("=") for text in TINY[:3])
    done = guidebench.run(
        *TINY[3:],
        suite="minigrid_doorkey",
        profile="smoke",
        method=["uer", "per"],
        seeds=[4, 9],
        output=tmp_path / "a, b (c)",
        pack=2,
        report=False,
        **{key: int(value) for key, value in settings.items()},
    )
    assert done.finished and done.directory == tmp_path / "a, b (c)"
    assert sorted((run.cell.names.method, run.seed) for run in done.runs) == [
        ("per", 4), ("per", 9), ("uer", 4), ("uer", 9),
    ]  # fmt: skip
    episodes = results.load(done.directory)
    assert len(episodes) == 2 * 2 * 4 and set(EVALUATION) <= set(episodes.columns)
    assert set(zip(episodes["method"], episodes["seed"], strict=True)) == {
        (run.cell.names.method, run.seed) for run in done.runs
    }
    # packed, the two seeds of a cell share one worker and one log
    assert len(list((done.directory / "logs").glob("*-4_9.log"))) == 2


def test_a_list_of_words_is_refused_with_the_way_to_give_it() -> None:
    with pytest.raises(UserError, match=r"\(list\); give each word .* guidebench\.run\(\*words\)"):
        guidebench.run(["suite=classic", "method=uer"])  # type: ignore[arg-type]


def test_a_tracker_beside_the_runs_shows_them_and_the_report(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = bench("run", *SMOKE, *TINY, "seeds=1", "trackers=tensorboard", "output=s", cwd=tmp_path)
    assert done.code == 0 and done.err == "", done.out + done.err
    (events,) = tmp_path.glob("s/tensorboard/*/*/*/seed-0/events.*")
    board = EventAccumulator(str(events.parent))
    board.Reload()
    (row,) = tmp_path.glob("s/*/*/*/seed-0/evaluations.parquet")
    episodes = pq.read_table(row).to_pylist()
    for step, event in zip((120, 240), board.Scalars("evaluations/return"), strict=True):
        returns = [episode["return"] for episode in episodes if episode["step"] == step]
        assert event.step == step and event.value == pytest.approx(sum(returns) / len(returns))
    assert board.Scalars("metrics/loss")
    report = EventAccumulator(str(tmp_path / "s/tensorboard/report"))
    report.Reload()
    names = {path.stem for path in (tmp_path / "s/report").glob("*.png")}
    assert set(report.Tags()["images"]) == {f"report/{name}" for name in names} and names
    (table,) = report.Tensors("report/results/text_summary")
    assert "· smoke | success |" in table.tensor_proto.string_val[0].decode()


def test_a_tracker_that_cannot_write_neither_delays_nor_fails_a_run(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "file" / "below"))
    done = bench("run", *SMOKE, *TINY, "seeds=1", "trackers=wandb", "output=s", "report=false", cwd=tmp_path)
    assert done.code == 0 and "1 finished" in done.out
    assert "wandb has not taken everything" in done.err and "bench track s --to wandb sends the rest" in done.err


def test_a_tracker_without_its_package_is_refused_before_anything_starts(tmp_path: Path, monkeypatch) -> None:
    import importlib.util

    from guidebench.harness.commands import cli

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trackio" else find_spec(name))
    with pytest.raises(harness.errors.UserError, match=r"install the extra trackio \(\d+ MB\): "):
        guidebench.run(*SMOKE, trackers=["trackio"], output=tmp_path / "s")
    assert not (tmp_path / "s").exists()
    for words, code in ((["trackers=trackio"], 2), (["trackers=nowhere"], 2), (["trackers=trackio", "--dry-run"], 1)):
        assert cli.main(["run", *SMOKE, *words, f"output={tmp_path / 's'}"]) == code


def test_runs_of_changed_code_are_mixed_only_when_asked(study, capsys: pytest.CaptureFixture[str]) -> None:
    from guidebench.harness.commands import cli

    directory, _ = study
    run = next(iter(sorted(directory.glob("*/*/per-*/seed-0/run.json"))))
    run_record = json.loads(run.read_text())
    provenance = run_record["provenance"]
    recommitted = provenance | {"commit": "0123456789abcdef"}
    edited = provenance | {"sources": provenance["sources"] | {"guidebench.baselines.replay.per": "0" * 12}}
    early = {name: value for name, value in recommitted.items() if name != "sources"}
    command = [*COMMAND, "seeds=2", f"output={directory}", "report=false"]
    try:
        run.write_text(json.dumps(run_record | {"provenance": recommitted}))
        assert cli.main(command) == 0, "the code of its parts is the same"
        for changed, says in (
            (edited, "guidebench.baselines.replay.per changed"),
            (early, "changed since commit 0123456789"),
        ):
            run.write_text(json.dumps(run_record | {"provenance": changed}))
            assert cli.main(command) == 2
            message = capsys.readouterr().err
            assert f"{directory} holds runs (1 finished) that were made by other code than the current one" in message
            assert says in message and "mixed_commits=true" in message and "output=…" in message
            assert cli.main([*command, "mixed_commits=true"]) == 0
    finally:
        run.write_text(json.dumps(run_record))


def test_a_run_that_failed_at_once_begins_anew_by_the_code_that_mends_it(tmp_path: Path) -> None:
    from guidebench.harness.commands import cli
    from guidebench.harness.plan import matrix
    from guidebench.harness.records.study import StudyDirectory

    command = [*SMOKE, "method=uer", *TINY, "seeds=1", f"output={tmp_path / 's'}", "report=false"]
    plan = matrix.plan(command)
    (cell,), study = plan.cells, StudyDirectory(tmp_path / "s")
    study.write(plan.name, [], {cell.id: {"directory": cell.directory, "seeds": [0], "label_variant": ""}})
    run = study.run(cell.directory, 0)
    run.update(status="failed", seed=0, step=0, provenance={"commit": "0", "sources": {"harness.loop": "0" * 12}})
    assert cli.main(["run", *command]) == 0
    assert run.status == "finished" and run.read()["provenance"]["sources"]["harness.loop"] != "0" * 12


def test_a_run_killed_while_it_tidies_up_is_tidied_by_the_next_command_which_names_every_run_as_json(
    study, capsys: pytest.CaptureFixture[str]
) -> None:
    from guidebench.harness.commands import cli

    directory, _ = study
    run = next(iter(sorted(directory.glob("*/*/uer-*/seed-1"))))
    (run / "replay").mkdir()
    (run / "replay" / "observation.bin").write_bytes(b"0")
    (run / "checkpoint-0000000150").mkdir()
    (run / "evaluations.jsonl").write_bytes(b"")
    assert cli.main([*COMMAND, "seeds=2", f"output={directory}", "--json"]) == 0
    assert not any((run / name).exists() for name in ("replay", "checkpoint-0000000150", "evaluations.jsonl"))
    assert (run / "evaluations.parquet").exists()
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["stopped"] is False and len(outcome["runs"]) == 6
    assert all(run["status"] == "finished" and Path(run["directory"], "run.json").exists() for run in outcome["runs"])
