"""The command line: what it prints for people and for programs, and how it reports a user's mistake."""

import json
import re
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.commands import cli, run_
from guidebench.harness.identity.cells import write_cell
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import following, journal, pace, study

SMOKE = ("suite=minigrid_doorkey", "profile=smoke")

TABLE_3 = {
    "learner.lr": 4e-5,
    "learner.batch_size": 128,
    "learner.discount": 0.95,
    "learner.target_every": 1_000,
    "learner.target_rate": 1.0,
    "learner.learning_starts": 500,
    "learner.train_every": 4,
    "learner.max_grad_norm": 1.0,
    "learner.epsilon_start": 1.0,
    "learner.epsilon_end": 0.05,
    "learner.exploration_share": 0.5,
    "learner.double": True,
    "replay.threshold": 0.5,
    "replay.clip_length": 32,
    "replay.lambda_max": 0.5,
}
"""VLM-RB, table 3: the DQN column and the rows of VLM-RB, by the settings that hold them."""
TABLE_3_PER = {"replay.alpha": 0.7, "replay.beta": 1.0, "replay.importance_weights": True}


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Return a function: `bench("list", "--json")` runs in this process and returns (exit code, stdout, stderr)."""
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main(words)
        except SystemExit as exit:  # argparse
            code = exit.code
        return (code, *capsys.readouterr())

    return run


def one_screen(code: int, out: str, err: str) -> str:
    """Return the text of a refused command, after checking that it is one short message on standard error."""
    assert code == 2 and out == ""
    assert err.startswith("bench: ") and "Traceback" not in err
    assert len(err) < 1_000 and err.count("\n") <= 5, err
    return err.removeprefix("bench: ")


def test_every_registered_name_stands_in_the_list_as_a_json_string(bench) -> None:
    code, out, _ = bench("list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert listed == {kind: registry.names(kind) for kind in (*registry.KINDS, "tracker", "model_set")}
    assert {"mlflow", "wandb"} < {*listed["tracker"]} and {"oracle", "paper", "scripted"} <= {*listed["model_set"]}


def test_one_kind_can_be_listed_in_the_singular_or_plural(bench) -> None:
    assert json.loads(bench("list", "judges", "--json")[1]) == {"judge": registry.names("judge")}
    assert "sprite" in bench("list", "judge")[1]
    assert "trackers (trackers=NAME)\n  mlflow" in bench("list", "trackers")[1]
    assert "did you mean 'judge'" in one_screen(*bench("list", "juge"))


def test_help_names_every_command_and_shows_examples(bench) -> None:
    commands = [line.split()[0] for line in bench("--help")[1].splitlines() if re.match(r" {4}[a-z]", line)]
    documented = ("cite", "compare", "export", "import")
    others = ("dataset", "label", "leaderboard", "profile", "report", "submit", "verify", "watch")
    assert set(commands) == {*cli.COMMANDS, *documented, *others}
    for command in documented:
        assert f"\n  bench {command} " in bench(command, "--help")[1]
    assert "bench leaderboard --add" in bench("submit", "--help")[1]


def settings(bench, *overrides: str) -> dict[str, dict[str, Any]]:
    code, out, _ = bench("show", "--json", *overrides)
    assert code == 0
    cells = json.loads(out)
    assert len({json.dumps(cell["settings"]) for cell in cells}) == 1
    return cells[0]["settings"]


@pytest.mark.parametrize("overrides", [("suite=minigrid_doorkey", "method=vlm_rb"), ("method=vlm_rb",)])
def test_show_lets_one_check_table_3_with_the_source_of_each_value(bench, overrides: tuple[str, ...]) -> None:
    resolved = settings(bench, *overrides)
    for key, value in TABLE_3.items():
        assert resolved[key]["value"] == value, key
        assert type(resolved[key]["value"]) is type(value), key
        assert resolved[key]["source"].startswith("VLM-RB, table 3"), key
    # 500k steps, as a share of the run
    assert resolved["replay.schedule_share"]["value"] * resolved["training.steps"]["value"] == 500_000
    assert "table 3: 500k steps" in resolved["replay.schedule_share"]["source"]
    per = settings(bench, *overrides[:-1], "method=per")
    for key, value in TABLE_3_PER.items():
        assert per[key]["value"] == value and "table" in per[key]["source"] and "3" in per[key]["source"], key


def test_the_paper_is_judged_by_its_model_and_what_is_missing_of_it_is_said_first(bench, tmp_path, monkeypatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    command = ("suite=minigrid_doorkey", "task=8x8", "method=vlm_rb", "profile=paper", "seeds=1")
    get = "get it with `hf download facebook/Perception-LM-1B`"
    code, out, _ = bench("run", *command, "--dry-run")
    assert code == 1 and "vlm_rb · perception_lm_1b · paper" in out
    assert "missing: judge=transformers judge.model=perception_lm_1b: Perception-LM 1B" in out and get in out
    code, out, _ = bench("run", *command, "--dry-run", "--json")
    assert code == 1 and get in json.loads(out)["missing"][0]
    code, _, error = bench("run", *command, "output=study")
    assert code == 2 and get in error and "bench doctor judge=transformers" in error
    assert not list(tmp_path.rglob("run.json"))
    code, out, _ = bench("run", *command, "models.mode=replay", "--dry-run")
    assert code == 1 and "holds no recorded calls" in out and get not in out, "replay needs answers and no weights"
    assert bench("run", *command[:3], "profile=quick", "--dry-run")[0] == 0


def test_show_lists_the_ablations_that_a_method_declares(bench) -> None:
    declared = registry.get("method", "vlm_rb").ablations
    code, out, _ = bench("show", *SMOKE, "method=vlm_rb")
    assert code == 0 and f"ablations, run by bench ablate: {', '.join(declared)}" in out
    (cell,) = json.loads(bench("show", *SMOKE, "method=vlm_rb", "--json")[1])
    assert cell["ablations"] == declared
    assert "ablations" not in bench("show", *SMOKE, "method=uer")[1]


def test_a_dry_run_of_a_matrix_names_each_cell_s_role(bench, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("ablate", "--only", "td_boost", *SMOKE, "--dry-run", "method=vlm_rb")
    code, out, _ = bench(*command, "--json")
    full, boosted = json.loads(out)["cells"]
    assert code == 0 and list(tmp_path.iterdir()) == []
    assert full["matrix"] == {"kind": "ablation", "name": "full: td_boost=false", "reference": full["cell"]}
    assert boosted["matrix"] == {"kind": "ablation", "name": "td_boost=true", "reference": full["cell"]}
    assert boosted["row"] == "vlm_rb (td_boost=true) · sprite · smoke" and boosted["row"] in bench(*command)[1]


def test_a_scripted_judge_is_called_an_instrument_before_anything_runs(bench) -> None:
    command = ("perturb", *SMOKE, "method=vlm_rb", "--dry-run")
    assert bench(*command)[1].startswith("Judge sprite: hand-written for this task: ")
    assert len(json.loads(bench(*command, "--json")[1])["cells"]) == 3


def test_show_prints_a_long_text_in_full_below_the_table(bench, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Is [bold]it[/bold] seen?\n  Look again.\n")
    words = (*SMOKE, "method=vlm_rb", "judge=transformers")
    out = bench("show", *words, f"judge.prompt=file:{file}")[1]
    assert re.search(r"^judge\.prompt +below +command line", out, re.MULTILINE)
    assert out.rstrip().endswith("judge.prompt:\n    Is [bold]it[/bold] seen?\n      Look again.")
    row = next(line for line in bench("show", *words)[1].splitlines() if line.startswith("judge.prompt "))
    assert "suite minigrid_doorkey" in row and "VLM-RB, app. C" in row


def test_show_tells_which_layer_set_a_value(bench) -> None:
    resolved = settings(bench, *SMOKE, "method=vlm_rb", "replay.clip_length=8")
    assert (resolved["replay.clip_length"]["value"], resolved["replay.clip_length"]["layer"]) == (8, "command line")
    assert (resolved["learner.batch_size"]["value"], resolved["learner.batch_size"]["layer"]) == (32, "profile smoke")
    assert resolved["judge.delay"]["unit"] == "environment steps"


def test_a_dry_run_prints_cells_seeds_steps_and_hours_and_writes_nothing(bench, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = (*SMOKE, "method=uer,per", "seeds=[3,5]", "training.steps=900")
    code, out, _ = bench("run", *command, "--dry-run")
    assert code == 0 and list(tmp_path.iterdir()) == []
    plan = matrix.plan(command)
    for cell in plan.cells:
        line = next(line for line in out.splitlines() if line.startswith(cell.id))
        assert line.split()[1:4] == ["minigrid_doorkey/5x5", "900", "2"]
        assert f"{cell.names.method} (training.steps=900) · smoke" in line
    assert "2 cells × 2 seeds (3,5)" in out
    assert re.search(r"about \d+ (seconds|minutes) on this machine with \d+ worker", out)


def test_a_dry_run_as_json_says_the_same(bench, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = (*SMOKE, "method=uer,vlm_rb", "replay.lambda_max=0.25,1", "seeds=3", "workers=2", "device=cpu")
    code, out, _ = bench("run", *command, "--dry-run", "--json")
    assert code == 0 and list(tmp_path.iterdir()) == []
    dry_run, plan = json.loads(out), matrix.plan(command)
    assert dry_run["study"] == plan.name and dry_run["workers"] == 2
    assert [row["cell"] for row in dry_run["cells"]] == [cell.id for cell in plan.cells]
    assert [row["row"] for row in dry_run["cells"]] == [
        "uer · smoke",
        "vlm_rb (replay.lambda_max=0.25) · sprite · smoke",
        "vlm_rb (replay.lambda_max=1.0) · sprite · smoke",
    ]
    assert all(row["seeds"] == [0, 1, 2] and row["steps"] == 600 for row in dry_run["cells"])
    # two workers share the hours of all runs
    assert dry_run["hours"] == pytest.approx(sum(row["hours"] for row in dry_run["cells"]) / 2, abs=1e-3)


def test_a_matrix_of_a_thousand_cells_is_planned_without_importing_torch() -> None:
    program = (
        "import sys; from guidebench.harness.commands import cli\n"
        "code = cli.main(sys.argv[1:])\n"
        "print(code, sorted({'torch', 'gymnasium', 'minigrid', 'pandas'} & set(sys.modules)))"
    )
    sweep = ("learner.target_every=range(1,101)", "training.steps=range(600,610)")
    command = [sys.executable, "-c", program, "run", *SMOKE, *sweep, "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[-1] == "0 []"
    cells = [line.split()[0] for line in lines if re.match(r"[0-9a-f]{10} ", line)]
    assert len(cells) == len(set(cells)) == 1_000


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("run", "method=uer"), "no suite named; add suite=…"),
        (("run", "suite=classic", "method=vlm_rb", "judge=sprite"), "judge 'sprite' does not fit suite 'classic'"),
        (
            ("run", "suite=classic", "method=vlm_rb"),
            "for which models=paper has no part on suite 'classic'",
        ),
        (("run", *SMOKE, "seeds=2", "seeds=3"), "seeds= is given twice"),
        (("run", *SMOKE, "learner.lr=[1"), r"'learner.lr=\[1' cannot be read"),
        (("run", *SMOKE, "device=gpu"), "device=gpu: expected one of 'auto', 'cpu', 'cuda'"),
        (("show", "method=vlmrb"), "did you mean 'vlm_rb'"),
        (("ablate", *SMOKE), "method 'uer' declares no ablations .those that do: .*vlm_rb"),
        (
            ("ablate", *SMOKE, "method=vlm_rb", "--only", "lamda_max"),
            "did you mean 'lambda_max'.*known: alpha, clip",
        ),
        (("perturb", *SMOKE, "method=per"), r"no chosen method has a judge \(per\)"),
        (("perturb", *SMOKE, "method=vlm_rb", "--only", "blur"), "unknown perturbation .*known: sprite_swap, texture"),
        (("status", "nowhere"), "nowhere does not exist; give the directory"),
        (("status", "."), "is not a study"),
        (("report", "nowhere"), "no study at nowhere"),
        (("eval", "nowhere"), "nowhere does not exist; give a directory such as"),
        (("verify", "nowhere.zip"), "nowhere.zip does not exist; give an archive of `bench submit`"),
        (("compare", "mesured"), "no study at mesured: the directory does not exist; did you mean 'measured'"),
        (("run",), "`bench run --help` explains what it takes"),
        (("run", *SMOKE, "--dryrun"), "unknown option '--dryrun'; did you mean '--dry-run'"),
        (("run", *SMOKE, "--dry_run"), "unknown option '--dry_run'; did you mean '--dry-run'"),
        (("run", "--suite", "classic"), "settings are no options; write suite=classic instead of --suite"),
        (("run", *SMOKE, "--seeds=3"), "write seeds=3 instead of --seeds"),
        (("show", *SMOKE, "--learner.lr", "1"), "write learner.lr=1 instead of --learner.lr"),
        (("run", *SMOKE, "--method", "--json"), "write method=… instead of --method"),
        (("status", "--jsn", "x"), "unknown option '--jsn'; did you mean '--json'"),
        (("models", "export", "--jsn"), "unknown option '--jsn'"),
        (("lst",), "unknown command 'lst'; did you mean 'list'"),
        (("train", *SMOKE), "'train' is no command here; it is bench run"),
        (("methods",), "'methods' is no command; bench list methods lists them"),
        (("method=uer", "seeds=3"), "'method=uer' is no command; write bench run method=uer seeds=3"),
        (("ru", "n", *SMOKE), "'ru' is no command; write bench run suite="),
        (("nope",), "unknown command 'nope' .known: ablate, .*`bench help` says what each does"),
        (("run", *SMOKE, "--seed", "3"), "unknown setting 'seed'; write seeds=3 for 3 seeds"),
        (("new", "replays", "mine"), "unknown argument of bench new: 'replays'; did you mean 'replay'"),
        (("list", "methds"), "unknown kind 'methds'; did you mean 'method'"),
        (("new", "replay", "My-Replay"), "'My-Replay' is not a name for a replay"),
        (("new", "replay", "uer"), "there is a method and a replay 'uer' already"),
        (("new", "suite", "classic"), "there is a suite 'classic' already"),
    ],
)
def test_a_mistake_is_one_short_message_and_exit_code_2(
    bench, tmp_path, monkeypatch, command: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(says, one_screen(*bench(*command)))
    assert list(tmp_path.iterdir()) == []


def test_status_tells_how_far_each_run_is(bench, tmp_path: Path) -> None:
    plan = matrix.plan([*SMOKE, "method=per", "replay.alpha=0.5", "seeds=4"])
    cell = plan.cells[0]
    directory = StudyDirectory(tmp_path)
    directory.write(
        "mine", [], {cell.id: {"directory": cell.directory, "seeds": [*plan.seeds], "label_variant": "a=1"}}
    )
    write_cell(directory, cell)
    directory.run(cell.directory, 0).update(status="finished", step=600, steps=600, score=0.75)
    (directory.run(cell.directory, 0).path / "evaluations.parquet").touch()
    directory.run(cell.directory, 1).update(status="failed", step=450, steps=600, error="Traceback …\nValueError: no")
    directory.run(cell.directory, 3).update(status="running", step=150, steps=600)  # and no process holds it
    code, out, _ = bench("status", str(tmp_path))
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert "mine: 1 of 4 runs finished, 1 waiting, 1 stopped, 1 failed\n50% of all steps\n" in out
    assert f"\n{cell.names.suite}/{cell.names.task} per (a=1)\n" in out
    lines = [next(line for line in out.splitlines() if f"seed {seed} " in line) for seed in range(4)]
    assert [line.split(None, 2)[2] for line in lines] == [
        "finished        600 of 600  success 0.75", "failed          450 of 600", "waiting           0 of 600",
        "stopped         150 of 600",
    ]  # fmt: skip
    assert "ValueError: no" in out and "Traceback" not in out
    rows = json.loads(bench("status", str(tmp_path), "--json")[1])["runs"]
    assert [(row["seed"], row["status"], row["step"]) for row in rows] == [
        (0, "finished", 600),
        (1, "failed", 450),
        (2, "waiting", 0),
        (3, "stopped", 150),
    ]


def test_status_tells_what_a_worker_of_another_process_does_now(bench, train, tmp_path: Path, monkeypatch) -> None:
    for module, name in ((journal, "TELL_EVERY"), (journal, "LIVE_EVERY"), (pace, "SHORTEST")):
        monkeypatch.setattr(module, name, 1e-9)
    looks: list[tuple[int, dict[str, Any], str]] = []
    steps = iter(range(1, 1_000))

    def look() -> bool:
        """Note what `bench status` prints; the loop calls this after every step to ask whether to stop."""
        if (step := next(steps)) == 250:  # the first evaluation was at step 200, the first checkpoint comes at 5,000
            status = json.loads(bench("status", str(tmp_path / "study"), "--json")[1])
            looks.append((step, status, bench("status", str(tmp_path / "study"))[1]))
        return False

    train("method=uer", "seeds=1", packs=[(0,)], directory=tmp_path / "study", stop=look)
    (step, status, out), (row,) = looks[0], looks[0][1]["runs"]
    assert row["status"] == "running" and row["step"] == step - 1 and 0.0 <= row["score"] <= 1.0
    assert row["steps_per_second"] > 0 and row["seconds_left"] == status["seconds_left"] >= 0
    assert re.search(r"seed 0 +running +249 of 600  success \d\.\d\d  [\d,]+ steps/s  \d+ s left", out)
    row = json.loads(bench("status", str(tmp_path / "study"), "--json")[1])["runs"][0]
    assert row["status"] == "finished" and row["score"] is not None and row["steps_per_second"] is None
    assert not list((tmp_path / "study").rglob(".live*"))


@pytest.mark.parametrize("content", ["[]", "{", '{"schema": 1}', '{"schema": 99, "cells": {}}'])
def test_a_damaged_study_is_named(bench, tmp_path: Path, content: str) -> None:
    (tmp_path / "study.json").write_text(content)
    assert str(tmp_path / "study.json") in one_screen(*bench("status", str(tmp_path)))
    code, _, err = bench("run", *SMOKE, f"output={tmp_path}")
    assert str(tmp_path / "study.json") in one_screen(code, "", err)
    assert (tmp_path / "study.json").read_text() == content


def test_doctor_checks_packages_machine_and_programs(bench) -> None:
    code, out, _ = bench("doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(out)}
    assert {"torch", "registry", "processor", "gpu", "disk", "pdflatex"} <= set(findings)
    assert findings["torch"]["ok"] is True and re.match(r"\d+\.\d+", findings["torch"]["text"])
    assert "cores" in findings["processor"]["text"]
    assert code == (1 if any(finding["ok"] is False for finding in findings.values()) else 0)
    assert re.search(r"ok +torch +\d", bench("doctor")[1])


def test_doctor_names_what_is_missing_or_too_old(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy>=99", "no-such-package>=1", "x; extra == 'dev'"])
    code, out, _ = bench("doctor")
    assert code == 1
    assert re.search(r"PROBLEM +numpy .* does not fit numpy>=99", out)
    assert re.search(r"PROBLEM +no-such-package +not installed; pip install 'no-such-package>=1'", out)
    assert not re.search(r"^ *\w+ +x ", out, re.MULTILINE)


def test_doctor_names_what_a_suite_lacks(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(
        r"ok +minigrid_doorkey +6 tasks and their frames can be made", bench("doctor", "suite=minigrid_doorkey")[1]
    )
    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "crafter" else find(name))
    code, out, _ = bench("doctor", "suite=crafter", "task=game")
    assert code == 1
    assert len(re.findall(r"PROBLEM +crafter .*needs the package crafter; install the extra crafter", out)) == 1
    assert bench("doctor", "suite=crafte")[0] == 2


def test_a_second_command_into_a_study_leaves_its_name(tmp_path: Path, monkeypatch) -> None:
    study_names: list[str] = []
    monkeypatch.setattr(
        following, "follow", lambda launcher, jobs, watch: study_names.extend(job.study for job in jobs)
    )
    first, second = (
        matrix.plan([*SMOKE, "task=5x5", "seeds=1", "workers=1", f"method={method}", f"output={tmp_path}"])
        for method in ("uer", "per")
    )
    assert study.carry_out(first).name == first.name != second.name
    assert study.carry_out(second).name == first.name
    study_record = json.loads((tmp_path / "study.json").read_text())
    assert study_record["study"] == first.name and len(study_record["cells"]) == 2 and set(study_names) == {first.name}


@pytest.mark.parametrize(
    ("profile", "seeds", "says"),
    [
        ("quick", 1, "1 seed shows whether a method learns .* It does not show .* seeds=10; what is finished stays"),
        ("quick", 3, "3 seeds show whether a method learns .* They do not show .* seeds=10; what is finished stays"),
        ("quick", 10, ""),
        ("smoke", 1, "The profile smoke shows that everything runs. Its runs are too short to learn, so .*"),
    ],
)
def test_a_study_ends_with_what_its_seeds_show_and_with_its_page(
    tmp_path: Path, capsys, profile: str, seeds: int, says: str
) -> None:
    words = ["suite=minigrid_doorkey", "task=5x5", "method=uer", f"profile={profile}"]
    plan = matrix.plan([*words, f"seeds={seeds + 1}", f"output={tmp_path}"])
    for seed in range(seeds):  # one more is not finished
        run = StudyDirectory(tmp_path).run(plan.cells[0].directory, seed)
        run.update(status="finished", step=600, steps=600)
        (run.path / "evaluations.parquet").touch()
    run_._close(study.look(plan))
    out = capsys.readouterr().out
    assert re.fullmatch(f"\n{says}\\.\n", out) if says else not out
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").touch()
    run_._close(study.look(plan))
    assert capsys.readouterr().out.endswith(f"\npage: {tmp_path / 'report' / 'report.html'}\n")


def test_a_study_is_printed_with_its_errors_and_shown_as_a_table(tmp_path: Path) -> None:
    plan = matrix.plan([*SMOKE, "method=per", "replay.alpha=0.5", "task=5x5", "seeds=2", f"output={tmp_path}"])
    directory = StudyDirectory(tmp_path)
    (cell,) = plan.cells
    directory.write(plan.name, [], {cell.id: {"directory": cell.directory, "seeds": [0, 1], "label_variant": "a=1"}})
    write_cell(directory, cell)
    directory.run(cell.directory, 1).update(status="failed", seed=1, step=0, steps=600, error="Traceback\nNo: <b>&")
    for view in (study.look(plan), results.study(tmp_path)):
        line, error = repr(view).splitlines()
        assert str(view) == repr(view)
        assert line == f"study {plan.name} in {tmp_path}: 0 of 2 runs finished, 1 waiting, 1 failed"
        assert error.endswith(f"{cell.id}, seed 1: No: <b>&")
        html = view._repr_html_()
        assert html.startswith("<table>") and html.count("<tr>") == 3
        assert "<td>No: &lt;b&gt;&amp;</td>" in html and "Traceback" not in html


@pytest.mark.parametrize("words", [("help", "run"), ("help",), ("help", "models", "stats")])
def test_help_explains_a_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        cli.main(words)
    out = capsys.readouterr().out
    assert not exit.value.code and out.startswith(f"usage: bench {' '.join(words[1:])}".rstrip()) and "options:" in out
