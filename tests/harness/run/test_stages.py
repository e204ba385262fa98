"""Pre-training stages: the cells of a command, where their runs begin, and that kills change nothing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from guidebench import results
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.execution import Execution
from guidebench.harness.identity.cells import record, recorded, rehashed
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import estimates, stages, study
from guidebench.harness.run.estimates import hours
from guidebench.harness.run.worker import work
from guidebench.reports.summary import comparability
from tests import programs
from tests.refusals import check_refused

BASE = ("suite=classic", "task=CartPole-v1", "profile=smoke")
METHOD = (*BASE, "method=uer")
STAGED = (*METHOD, "pretraining=per")
TINY = ("training.steps=200", "evaluation.every=100", "evaluation.episodes=2", "learner.hidden=[8]", "seeds=[0,1]")


FOUR = ("relo", "ero", "aer", "sparse")
"""Methods of four stages before the first one."""


DIGESTS = variations.Digests(Execution())


def cell(*words: str) -> Cell:
    names_stage = any(word.startswith("pretraining=") for word in words)
    (planned_cell,) = matrix.plan([*(METHOD if names_stage else STAGED), *words]).cells
    return planned_cell


# What a command means


def test_the_id_of_a_cell_includes_its_stage_s() -> None:
    plain, staged, longer = cell("pretraining=none"), cell(), cell("pretraining.training.steps=700")
    assert plain.stage is None and len({plain.id, staged.id, longer.id}) == 3
    assert (staged.stage.names.method, longer.stage.steps) == ("per", 700)
    (alone,) = matrix.plan([*BASE, "method=per"]).cells
    assert staged.stage.id == alone.id  # a stage is a cell like any other


def test_a_stage_comes_first_and_methods_share_it() -> None:
    plan = matrix.plan([*BASE, "method=uer,relo", "pretraining=per,none"])
    assert [cell.names.method for cell in plan.cells] == ["uer", "uer", "relo", "relo"]
    assert [cell.names.method for cell in plan.trained] == ["per", "uer", "uer", "relo", "relo"]


def test_a_stage_takes_over_what_is_said_of_suite_agent_and_learner_and_words_for_parts_that_only_it_has() -> None:
    staged = cell("learner.hidden=[8]", "training.steps=700", "replay.alpha=0.3")
    assert staged.settings["learner.hidden"].value == staged.stage.settings["learner.hidden"].value == (8,)
    assert staged.stage.steps != staged.steps == 700
    assert "replay.alpha" not in staged.settings and staged.stage.settings["replay.alpha"].value == 0.3
    assert staged.variant == "learner.hidden=[8], pretraining=per, pretraining.replay.alpha=0.3, training.steps=700"


def test_words_of_a_stage_come_before_those_it_takes_over() -> None:
    staged = cell("learner.lr=0.1", "pretraining.learner.lr=0.2")
    assert (staged.settings["learner.lr"].value, staged.stage.settings["learner.lr"].value) == (0.1, 0.2)


def test_what_is_kept_of_a_stage_is_in_the_id_and_in_the_name() -> None:
    keeps_all, keeps_heads = cell(), cell("pretraining.keeps=[head.0,head.1]")
    assert keeps_all.stage is not None and keeps_heads.stage is not None and keeps_all.stage.id == keeps_heads.stage.id
    assert keeps_all.id != keeps_heads.id and keeps_heads.keeps == ("head.0", "head.1")
    assert keeps_heads.variant == "pretraining=per, pretraining.keeps=[head.0,head.1]"
    assert recorded(json.loads(json.dumps(record(keeps_heads)))).id == rehashed(record(keeps_heads)) == keeps_heads.id
    plan = matrix.plan([*STAGED, "pretraining.keeps=head.0,head.1"])
    assert [planned.keeps for planned in plan.cells] == [("head.0",), ("head.1",)]


def test_stages_have_stages() -> None:
    staged = cell("pretraining.pretraining=relo", "pretraining.pretraining.training.steps=200")
    assert [(stage.names.method, stage.steps) for stage in staged.stages] == [("relo", 200), ("per", 600)]
    assert recorded(json.loads(json.dumps(record(staged)))).id == rehashed(record(staged)) == staged.id


def test_a_word_that_a_method_of_the_command_has_goes_to_no_stage() -> None:
    plan = matrix.plan([*BASE, "method=uer,per", "pretraining=relo", "replay.alpha=0.3,0.4"])
    assert [cell.names.method for cell in plan.trained] == ["relo", "uer", "per", "per"]


def test_a_word_that_the_stage_s_own_word_replaces_is_an_error() -> None:
    check_refused(r"replay\.alpha", cell, "replay.alpha=0.3", "pretraining.replay.alpha=0.5")


def test_what_a_stage_does_not_take_over_is_told_of_each() -> None:
    staged, longer = cell("training.steps=700"), cell("training.steps=700", "pretraining.training.steps=700")
    assert staged.variant == "pretraining=per, training.steps=700"
    assert longer.variant == "pretraining=per, pretraining.training.steps=700, training.steps=700"


def test_a_sweep_over_a_stage_s_setting_gives_a_cell_for_each() -> None:
    plan = matrix.plan([*STAGED, "pretraining.training.steps=300,400"])
    assert len(plan.cells) == 2 and len(plan.trained) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretraining=uer"], r"uer on classic/CartPole-v1 would be its own pre-training stage .*pretraining.task=…"),
        (["pretraining=perr"], "unknown method 'perr'.*did you mean 'per'"),
        (["pretraining=none", "pretraining.training.steps=300"], "none of the chosen methods has a pre-training stage"),
        (["pretraining.seeds=3"], "a stage has the seeds of the runs after it"),
        (["pretraining.method=per"], "write pretraining=… to name the stage's method"),
        (["pretraining.training.stepz=3"], "unknown setting of the stage .*'training.stepz'"),
        (["pretraining.guide=none", "pretraining.repla=uer"], "unknown setting of a stage 'repla'"),
        (["pretraining.task=Acrobot-v1"], "chooses one of 3 actions, and here are one of 2 actions"),
        (["pretraining.training.steps=10"], "in the pre-training stage per: training.steps=10 ends before learner.lea"),
        (["pretraining.keeps=[3]"], r"pretraining\.keeps=\[3\]: expected beginnings of names of parameters"),
        (["pretraining=none", "pretraining.keeps=head"], "none of the chosen methods has a pre-training stage"),
        (["pretraining.profile=foo"], "in the pre-training stage per: unknown profile"),
        (
            ["pretraining=per", *(f"{i * 'pretraining.'}pretraining={m}" for i, m in enumerate(FOUR, 1))],
            "at most 4 stages",
        ),
    ],
)
def test_a_stage_that_cannot_be_is_named_while_the_command_is_planned(words: list[str], message: str) -> None:
    check_refused(message, cell, *words)


def test_a_stage_whose_network_is_another_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    plan = matrix.plan([*STAGED, *TINY, "pretraining.learner.hidden=[9]", f"output={tmp_path}"])
    check_refused(
        r"the stage has \S+ of shape \[\S+ 9\], and the network of 'uer' has \S+ of shape", study.carry_out, plan
    )
    assert not list(tmp_path.glob("classic/*"))


def test_variations_keep_the_stage_vary_it_and_remove_it() -> None:
    staged = cell()
    assert staged.stage is not None
    assert variations._varied(staged, {"learner.lr": 0.5}, "test", DIGESTS).stage == staged.stage
    varied = variations._varied(staged, {"pretraining.replay.alpha": 0.1}, "test", DIGESTS)
    assert varied.stage is not None and varied.stage.settings["replay.alpha"].value == 0.1 and varied.id != staged.id
    assert variations._varied(staged, {"pretraining": "none"}, "test", DIGESTS).id == cell("pretraining=none").id
    with pytest.raises(UserError, match="no pre-training stage"):
        variations._varied(cell("pretraining=none"), {"pretraining.replay.alpha": 0.1}, "test", DIGESTS)


# Where runs begin


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> study.Study:
    """Return a finished study of two methods that share a stage."""
    directory = tmp_path_factory.mktemp("stages")
    words = [*BASE, *TINY, "method=uer,relo", "pretraining=per", f"output={directory}"]
    finished_study = study.carry_out(matrix.plan(words))
    assert finished_study.finished and [run.cell.names.method for run in finished_study.runs] == 2 * ["per"] + 2 * [
        "uer"
    ] + 2 * ["relo"]
    return finished_study


def test_a_run_begins_with_the_policy_of_its_seed_in_network_and_target_network(done: study.Study) -> None:
    run = done.runs[3]
    assert run.cell.names.method == "uer" and run.seed == 1 and run.cell.stage is not None
    policy = load_file(done.runs[1].directory / stages.POLICY)
    build = make_build(run.cell, [1], "cpu", [run.directory / "scratch"])
    agent = build.parts["agent"].spawn(build)
    assert any(not np.array_equal(parameters, policy[name]) for name, parameters in agent.parameters(0).items())
    digests = stages.begin(run.cell, agent, StudyDirectory(done.directory), [1])
    assert all(np.array_equal(parameters, policy[name]) for name, parameters in agent.parameters(0).items())
    learner = next(iter(agent.learners.values()))
    assert all(np.array_equal(parameters, policy[name]) for name, parameters in learner.target.arrays(0).items())
    provenance = json.loads((run.directory / "run.json").read_text())["provenance"]
    assert provenance["pretraining"] == digests[0]


def test_what_is_not_kept_begins_at_random(done: study.Study, tmp_path: Path) -> None:
    staged = replace(done.runs[2].cell, keeps=("head.0",))
    policy = load_file(done.runs[0].directory / stages.POLICY)
    agent = make_build(staged, [0], "cpu", [tmp_path]).parts["agent"].spawn(make_build(staged, [0], "cpu", [tmp_path]))
    before = agent.parameters(0)
    stages.begin(staged, agent, StudyDirectory(done.directory), [0])
    copied = {name for name, parameters in agent.parameters(0).items() if np.array_equal(parameters, policy[name])}
    random = {name for name, parameters in agent.parameters(0).items() if np.array_equal(parameters, before[name])}
    assert copied == {"head.0.weight", "head.0.bias"} and random >= {name for name in policy if name not in copied}
    stages.check(replace(staged, keeps=("head.0",)))
    check_refused(r"begins with 'tail' \(known: head\)", stages.check, replace(staged, keeps=("head.0", "tail")))


def test_reports_count_the_steps_of_stages(done: study.Study) -> None:
    cells = {cell.method: cell for cell in results.study(done.directory).cells}
    assert (cells["per"].total, cells["uer"].before, cells["uer"].total) == (600, 600, 800)
    assert comparability.place(cells["uer"]).steps == comparability.planned(record(done.runs[2].cell)).steps == 800


def test_bench_eval_loads_the_policy_of_a_stage(done: study.Study) -> None:
    words = ["eval", str(done.runs[0].directory), "--episodes", "2", "--json"]
    assert len(json.loads(programs.bench(*words).out)) == 2


def job_of(done: study.Study, directory: Path) -> Job:
    """Return the job of both seeds of `uer` in a copy of the study in which only the stage has been trained."""
    shutil.copytree(done.directory, directory)
    staged = done.runs[2].cell
    shutil.rmtree(directory / staged.directory)
    return Job(study="study", directory=str(directory), cell=record(staged), seeds=(0, 1))


def test_a_seed_whose_stage_failed_fails_alone(done: study.Study, tmp_path: Path) -> None:
    job, home = job_of(done, tmp_path / "copy"), StudyDirectory(tmp_path / "copy")
    staged = done.runs[2].cell
    home.run(staged.stage.directory, 1).update(status="failed", error="Traceback\nValueError: no luck")
    events: list[dict[str, object]] = []
    work(job, events.append, lambda: False)
    first, second = (home.run(staged.directory, seed).read() for seed in (0, 1))
    assert (first["status"], second["status"]) == ("finished", "failed")
    assert "failed (ValueError: no luck)" in second["error"] and events[0]["event"] == "failed"
    with pytest.raises(UserError, match=r"its pre-training stage .* failed \(ValueError: no luck\)"):
        work(replace(job, seeds=(1,)), events.append, lambda: False)


def test_a_run_waits_for_a_stage_that_was_stopped(done: study.Study, tmp_path: Path) -> None:
    job, home = job_of(done, tmp_path / "copy"), StudyDirectory(tmp_path / "copy")
    staged = done.runs[2].cell
    for seed in (0, 1):
        home.run(staged.stage.directory, seed).update(status="stopped")
    with pytest.raises(Stopped, match="is not finished"):
        work(job, lambda event: None, lambda: False)
    assert home.run(staged.directory, 0).status == "waiting"


def test_a_stage_without_its_policy_names_the_file(done: study.Study, tmp_path: Path) -> None:
    job = job_of(done, tmp_path / "copy")
    staged = done.runs[2].cell
    (tmp_path / "copy" / staged.stage.directory / "seed-1" / stages.POLICY).unlink()
    check_refused(
        r"seed-1/policy.safetensors is missing.*train the stage anew", work, job, lambda event: None, lambda: False
    )


def test_a_stage_that_was_trained_anew_is_refused_for_runs_that_began_before(done: study.Study, tmp_path: Path) -> None:
    shutil.copytree(done.directory, tmp_path / "copy")
    staged = done.runs[2].cell
    policy = tmp_path / "copy" / staged.stage.directory / "seed-0" / stages.POLICY
    policy.write_bytes(policy.read_bytes() + b" ")
    words = [*BASE, *TINY, "method=uer,relo", "pretraining=per", f"output={tmp_path / 'copy'}"]
    check_refused(r"seed 0 of \S+ began from another policy than \S+ holds now", study.carry_out, matrix.plan(words))


def test_an_estimate_counts_that_a_run_waits_for_its_stage() -> None:
    costs = [estimates.Cost(3600.0, 0.0, "timed"), estimates.Cost(3600.0, 0.0, "timed")]
    plain = {"timed": 1.0}
    assert hours._scheduled(costs, [None, None], 1, 2, plain) < hours._scheduled(costs, [None, 0], 1, 2, plain)
    assert hours._scheduled(costs, [None, 0], 1, 1, plain) == pytest.approx(7200.0)
