"""The command line expands to the cells that a researcher expects, and mistakes are named before anything starts."""

import itertools
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from tests.refusals import check_refused

BASE = ["suite=minigrid_doorkey", "profile=smoke"]


def cells(*overrides: str) -> list[tuple[str, str]]:
    return [(cell.names.task, cell.names.method) for cell in matrix.plan([*BASE, *overrides]).cells]


def test_lists_expand_to_every_combination() -> None:
    combinations = cells("task=5x5,8x8", "method=uer,per,vlm_rb")
    assert sorted(combinations) == sorted(itertools.product(["5x5", "8x8"], ["uer", "per", "vlm_rb"]))


def test_without_method_and_task_the_suite_s_own_are_run() -> None:
    assert cells() == [("5x5", "uer")]


def test_sweeping_a_field_expands_only_the_methods_that_have_it() -> None:
    assert sorted(cells("method=uer,per", "replay.alpha=0.5,0.6,0.7")) == [("5x5", "per")] * 3 + [("5x5", "uer")]


def test_a_judge_belongs_only_to_methods_that_ask_one() -> None:
    plan = matrix.plan([*BASE, "method=uer,vlm_rb", "judge=sprite"])
    assert [cell.names.part("judge") for cell in plan.cells] == ["", "sprite"]


def test_a_part_may_be_swapped_for_one_that_needs_less_than_the_suite_names() -> None:
    """VLM-RB needs a judge, and the suite `classic` names none."""
    (cell,) = matrix.plan(["suite=classic", "task=CartPole-v1", "method=vlm_rb", "replay=uer"]).cells
    assert cell.overrides == {"replay": "uer"} and not cell.models
    check_refused("needs a judge as 'judge'", matrix.plan, ["suite=classic", "task=CartPole-v1", "method=vlm_rb"])


def test_ranges_follow_hydra_s_grammar() -> None:
    assert len(cells("learner.train_every=range(1,5)")) == 4


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("seeds=3", (0, 1, 2)),
        ("seeds=3e0", (0, 1, 2)),
        ("seeds=[0,3,7]", (0, 3, 7)),
        ("seeds=4,9", (4, 9)),
        ("seeds=range(2,4)", (2, 3)),
    ],
)
def test_seeds_as_a_number_a_list_or_a_range(text: str, seeds: tuple[int, ...]) -> None:
    assert matrix.plan([*BASE, text]).seeds == seeds


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("suite=minigrid_dorkey", "unknown suite 'minigrid_dorkey'; did you mean 'minigrid_doorkey'"),
        ("task=9x9", "unknown task of suite 'minigrid_doorkey': '9x9'"),
        ("method=vlmrb", "did you mean 'vlm_rb'"),
        ("profile=fast", "unknown profile"),
        ("learner.lrr=1", r"unknown setting 'learner.lrr'; did you mean 'learner.lr'"),
        ("replay.alpha=0.5", "unknown setting 'replay.alpha'"),
        ("learner.sac.lr=1", "unknown setting 'learner.sac.lr'"),
        ("sedes=5", "unknown setting 'sedes'; did you mean 'seeds'"),
        ("learner.lr=-1", "learner.lr=-1: expected"),
        ("learner.lr=abc", "learner.lr=abc: expected"),
        ("learner.batch_size=100000", "learning_starts"),
        ("training.steps=10", "nothing would be learnt"),
        ("evaluation.every=100000", "evaluation.every=100000 is longer"),
        ("seeds=0", "seeds=0"),
        ("seeds=1e9", r"seeds=1000000000\.0: expected a number of seeds, from 1 to 10,000"),
        ("seeds=1000000000", "seeds=1000000000: expected a number of seeds, from 1 to 10,000"),
        ("seeds=range(1000000000)", "a range needs a step other than 0 and at most 100,000 values"),
        ("seeds=shuffle(range(1,1e12))", "a range needs a step other than 0 and at most 100,000 values"),
        ("seeds=range(20000)", "names 20,000 seeds; at most 10,000"),
        ("learner.lr=range(0,1,1e-12)", "a range needs a step other than 0 and at most 100,000 values"),
        ("learner.lr=range(0,1,0)", "a range needs a step other than 0"),
        (
            "replay.lambda_max=0.5",
            r"unknown setting 'replay.lambda_max' of the chosen methods \(uer\): it is a setting of replay vlm_rb; "
            r"choose method=vlm_rb or replay=vlm_rb, or leave it out",
        ),
        (
            "embedder.revision=x",
            r"unknown setting 'embedder.revision' of the chosen methods \(uer\): it is a setting of embedders "
            r"diffusers, transformers, transformers_segmenter, transformers_text_embedder, transformers_tracker; "
            r"choose method=furl \(or .*vlm_rm\), or leave it out",
        ),
        ("lr=1", r"unknown setting 'lr'; did you mean .*'learner\.lr'"),
        (f"seeds={'9' * 5_000}", "cannot be read: Exceeds the limit"),
        (f"gpus={'[' * 3_000}", "cannot be read: "),
        (
            "replay.alpha=0.5",
            r"replays per, relo, vlm_rb; choose method=per \(or relo, vlm_rb\) or replay=per \(or relo, vlm_rb\)",
        ),
        ("suite", "not of the form key=value; write suite=…"),
        ("seeds=[1,1]", "seed 1 is repeated"),
        ("seeds=[-1]", "-1 is not a seed"),
        ("seeds=[1.5]", "1.5 is not a seed"),
        ("judge=sprite", "none of the chosen methods has a judge"),
        ("workers=0", "workers=0: expected"),
        ("profile", "not of the form key=value"),
        ("vlm_rb", "not of the form key=value; write method=vlm_rb"),
        ("runs/mine", "not of the form key=value; for example: suite="),
        ("~profile", "not of the form"),
        ("task=", "task="),
    ],
)
def test_mistakes_name_the_value_and_the_fix(override: str, says: str) -> None:
    key = override.split("=")[0]
    base = [text for text in BASE if text.split("=")[0] != key]
    check_refused(says, matrix.plan, [*base, override])


def test_a_message_names_each_known_thing_once_and_those_of_the_section_alone() -> None:
    with pytest.raises(UserError, match=r"none of the words of a command .*, and `bench show` prints") as raised:
        matrix.plan([*BASE, "zebra=1"])
    words = str(raised.value).split(" (")[1].partition(")")[0].split(", ")
    assert len(words) == len(set(words)) and {"suite", "judge", "planner", "seeds", "output"} < {*words}
    with pytest.raises(UserError) as raised:
        matrix.plan([*BASE, "learner.zebra=1"])
    names = str(raised.value).split("(known: ")[1].partition(")")[0].split(", ")
    assert len(names) > 5 and all(name.startswith("learner.") for name in names)


def test_a_list_of_settings_too_long_to_help_is_left_out_where_one_is_near() -> None:
    check_refused(r"unknown setting 'metod'; did you mean 'method'\?$", matrix.plan, [*BASE, "metod=uer"])


def test_more_cells_than_anyone_waits_for_are_refused_before_they_are_made() -> None:
    with pytest.raises(UserError, match="more than 100,000 cells"):
        matrix.plan([*BASE, "learner.target_every=range(1,1001)", "training.steps=range(1000,2000)"])


def test_a_learner_that_does_not_fit_the_spaces_is_refused_with_the_reason() -> None:
    check_refused("does not fit", matrix.plan, ["suite=classic", "profile=smoke", "method=vlm_rb", "judge=sprite"])


def test_the_id_ignores_how_a_cell_is_carried_out_and_follows_what_it_is() -> None:
    def ids(*overrides: str) -> list[str]:
        return [cell.id for cell in matrix.plan([*BASE, *overrides]).cells]

    plain = ids()
    assert plain == ids("seeds=[7]", "workers=1", "output=elsewhere", "pack=2", "device=cpu", "checkpoint_every=7")
    assert plain != ids("learner.lr=0.001") and ids("learner.lr=0.001") == ids("learner.lr=1e-3")


def test_the_study_s_name_depends_on_its_cells_alone() -> None:
    assert matrix.plan([*BASE, "seeds=2"]).name == matrix.plan([*BASE, "seeds=9", "output=x"]).name
    assert matrix.plan(BASE).name != matrix.plan([*BASE, "learner.lr=0.001"]).name


def test_layers_win_in_the_order_of_the_design() -> None:
    base = ["suite=minigrid_doorkey", "method=uer", "task=8x8"]
    paper = matrix.plan(base).cells[0]
    quick = matrix.plan([*base, "profile=quick"]).cells[0]
    overridden = matrix.plan([*base, "profile=quick", "learner.lr=0.5"]).cells[0]
    assert paper.settings["learner.lr"][:2] == (4e-5, "default")
    assert quick.settings["learner.lr"][:2] == (3e-4, "profile quick")
    assert overridden.settings["learner.lr"][:2] == (0.5, "command line")


def test_an_asking_part_says_how_long_an_answer_in_a_role_may_be_and_other_layers_win() -> None:
    pytest.importorskip("crafter")
    words = ["suite=crafter_ood", "task=wood_sword", "method=dsadf", "profile=smoke", "text_embedder=scripted"]
    words += ["text_embedder.width=384", "performer=openai", "planner=openai", "reflector=scripted"]
    (cell,) = matrix.plan([*words, "scorer=openai"]).cells
    limits = {role: cell.settings[f"{role}.max_tokens"] for role in ("performer", "scorer", "planner")}
    assert [limit[:2] for limit in limits.values()] == [
        (32, "agent dual_system"), (16, "agent dual_system"), (1_000, "default"),
    ]  # fmt: skip
    (other,) = matrix.plan([*words, "scorer=scripted", "performer.max_tokens=500"]).cells
    assert other.settings["performer.max_tokens"].value == other.section("performer").max_tokens == 500
    assert "scorer.max_tokens" not in other.settings, "a chat that lacks the setting is left alone"


def test_every_override_of_every_suite_and_method_names_a_setting_that_exists() -> None:
    from guidebench.harness import registry, settings
    from guidebench.harness.plan import config

    setting_names = {f"{section}.{name}" for section, kind in config.PLAIN.items() for name in settings.fields(kind)}
    for kind in registry.PARTS:
        for part in registry.names(kind):
            for field in settings.fields(registry.get(kind, part)):
                setting_names |= {f"{kind}.{field}", f"{kind}.{part}.{field}"}
    for role, kinds in registry.roles().items():
        for kind in kinds - {registry.HUMAN}:
            for name in registry.names(kind):
                part, short = registry.meant(kind, name, role), name.removesuffix(f"_{role}")
                for field in settings.fields(registry.get(kind, part)):
                    setting_names |= {f"{prefix}.{field}" for prefix in (role, f"{role}.{name}", f"{role}.{short}")}
    for suite in registry.names("suite"):
        setting_names |= {f"drawing.{field}" for field in settings.fields(registry.get("suite", suite).drawing)}
        setting_names |= {f"suite.{field}" for field in settings.fields(registry.get("suite", suite))}
    for suite in registry.names("suite"):
        home = registry.get("suite", suite)
        for layer in [home.defaults, *home.profiles.values()]:
            layers = [layer, *layer.get("by_task", {}).values()]
            assert {key for overrides in layers for key in overrides} - {
                "tasks",
                "by_task",
                "judge",
            } <= setting_names, suite
    for method in registry.names("method"):
        recipe = registry.get("method", method)
        needed = [layer for profiles in recipe.on_profile.values() for layer in profiles.values()]
        for layer in [recipe.defaults, *recipe.on_suite.values(), *needed, *recipe.ablations.values()]:
            overridden = {
                key.removeprefix(f"{config.PRETRAINING}.") for key in layer
            }  # of the method or of its pre-training
            assert overridden - {*registry.KINDS, *registry.roles(), config.PRETRAINING} <= setting_names, method


def test_a_method_of_one_suite_is_run_there_where_none_is_named() -> None:
    (cell,) = matrix.plan(["method=vlm_rb", "profile=smoke"]).cells
    assert cell.names.suite == "minigrid_doorkey"
    assert {c.names.suite for c in matrix.plan(["method=uer,vlm_rb", "profile=smoke"]).cells} == {"minigrid_doorkey"}
    check_refused("no suite named", matrix.plan, ["method=uer,per"])


def test_a_prompt_from_a_file_is_in_the_cell_as_if_it_had_been_typed(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("Is a key taken?\n")
    (tmp_path / "other.txt").write_text("Is a door open?")
    judged = [*BASE, "method=vlm_rb", "judge=transformers"]
    (typed,) = matrix.plan([*judged, "judge.prompt='Is a key taken?'"]).cells
    from_files = matrix.plan([*judged, f"judge.prompt=file:{tmp_path}/one.txt,file:{tmp_path}/other.txt"]).cells
    assert [cell.settings["judge.prompt"].value for cell in from_files] == ["Is a key taken?", "Is a door open?"]
    assert from_files[0].id == typed.id and from_files[0].variant == typed.variant != from_files[1].variant
