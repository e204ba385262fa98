"""Which rows of ours a published number is about."""

from collections.abc import Callable
from typing import Any

import pytest

from guidebench.reports.papers import catalogue, matching
from guidebench.reports.papers.matching import Match, Missing, Number, Shelf

FLAT = {0: {100: 0.5}, 1: {100: 0.5}}


def number(method: str = "vlm_rb", task: str = "8x8", metric: str = "best_success_rate", **variant: str) -> Number:
    return Number("7", "minigrid_doorkey", task, method, variant, metric, 1.0, float("nan"), "", 5, "")


def check_match(match: Match | Missing, *cells: str) -> Match:
    """Return the match after checking that it is one of these cells."""
    assert isinstance(match, Match), match
    assert [setting.row.cell.id for setting in match.settings] == [*cells]
    return match


def set_to(value: Any, layer: str) -> dict[str, Any]:
    return {"replay.lambda_max": {"value": value, "layer": layer, "source": ""}}


def test_a_number_is_matched_by_suite_task_method_learner_and_variant(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    add("plain", FLAT, method="vlm_rb", settings=set_to(0.5, "default"))
    add("other", FLAT, method="vlm_rb", learner="iqn", settings=set_to(0.5, "default"))
    add("swept", FLAT, method="vlm_rb", variant="replay.lambda_max=1.0", settings=set_to(1.0, "command line"))
    rows = shelf()
    for variant, cell in (
        ({"learner": "dqn"}, "plain"),
        ({"learner": "iqn"}, "other"),
        ({"replay.lambda_max": "1"}, "swept"),
        ({"learner": "dqn", "replay.lambda_max": "0.5"}, "plain"),
    ):
        check_match(rows.match(number(**variant)), cell)
    assert rows.match(number(task="16x16")) == Missing("vlm_rb on 16x16")
    assert isinstance(rows.match(number(learner="sac")), Missing)
    assert isinstance(rows.match(number(**{"replay.lambda_max": "null"})), Missing)
    assert matching.metric("label_accuracy_percent", {"data": "offline"}) == "offline_label_accuracy_percent"
    assert matching.metric("label_accuracy_percent", {}) == "label_accuracy_percent"


def test_an_ablation_never_stands_for_the_full_method(add: Callable[..., None], shelf: Callable[..., Shelf]) -> None:
    role = {"kind": "ablation", "name": "lambda_max=1", "reference": "full"}
    add("full", {0: {100: 0.1}, 1: {100: 0.1}}, method="vlm_rb", settings=set_to(0.5, "default"))
    add("ablated", FLAT, method="vlm_rb", variant="x", settings=set_to(1.0, "ablation lambda_max=1"), matrix=role)
    check_match(shelf().match(number()), "full")


def test_a_baseline_is_matched_beside_it_and_must_be_there(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    add("ours", FLAT, method="vlm_rb")
    assert shelf().match(number(baseline="uer")) == Missing("uer on 8x8")
    add("theirs", FLAT, method="uer")
    baseline = check_match(shelf().match(number(baseline="uer")), "ours").settings[0].baseline
    assert baseline is not None and baseline.cell.id == "theirs"
    assert check_match(shelf().match(number(method="uer", baseline="uer")), "theirs").settings[0].baseline is None


def test_another_task_stands_in_only_when_asked_and_says_so(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    add("ours", {0: {1_000_000: 0.5}, 1: {1_000_000: 0.5}}, method="uer")
    assert isinstance(shelf().match(number("uer", task="16x16")), Missing)
    match = shelf(_16x16="8x8").match(number("uer", task="16x16"))
    assert check_match(match, "ours").reasons == ("task 8x8 instead of 16x16",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"profile": "quick"}, "profile quick"),
        ({"steps": 500_000}, "500,000 of 1,000,000 steps"),
        ({"backend": "scripted", "model": "sprite"}, "judge sprite, scripted"),
        ({"backend": "transformers", "model": "perception_lm_1b"}, "prompts of our own"),
        ({"backend": "external", "model": ""}, "runs logged elsewhere"),
        ({"settings": set_to(0.3, "command line")}, "replay.lambda_max=0.3"),
    ],
)
def test_what_differs_from_the_paper_is_a_reason(
    changes: dict[str, Any], reason: str, add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    add(
        "ours",
        {0: {changes.get("steps", 1_000_000): 0.5}, 1: {changes.get("steps", 1_000_000): 0.5}},
        method="vlm_rb",
        **changes,
    )
    add("uer", {0: {1_000_000: 0.5}, 1: {1_000_000: 0.5}}, method="uer")
    study_shelf = shelf()
    assert check_match(study_shelf.match(number()), "ours").reasons == (reason,)
    assert check_match(study_shelf.match(number("uer")), "uer").reasons == (), (
        "nothing differs in the paper's own configuration"
    )


def ours(shelf: Shelf, method: str = "rl_sallm_f", task: str = "button-press", **variant: str) -> Match | Missing:
    suite = "point_maze" if "reward" in variant else "metaworld_pbrl"
    return shelf.match(Number("1", suite, task, method, variant, "dollars", 1.0, float("nan"), "", 5, ""))


def test_an_ablation_is_found_by_its_name_and_its_setting_is_meant(
    taught: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    taught("full", (3, 3))
    taught("a", (2, 2), ablation="no_double_check")
    taught("b", (2, 2), ablation="one_shot", settings={"learner.lr": {"value": 1, "layer": "method", "source": ""}})
    rows = shelf("rl_sallm_f")
    check_match(ours(rows), "full")  # not even an ablation that changes no setting stands for the full method
    ablation = check_match(ours(rows, ablation="no_double_check"), "a")
    assert ablation.reasons == ("MetaWorld v3; the paper used v2", "prompts of our own")
    check_match(ours(rows, prompt="one_shot"), "b")  # as this paper calls it
    assert isinstance(ours(rows, ablation="no_llm_labels"), Missing)


def test_a_paper_s_word_for_a_setting_is_translated(add: Callable[..., None], shelf: Callable[..., Shelf]) -> None:
    for reward in ("dense", "sparse"):
        setting = {"suite.reward": {"value": reward, "layer": "command line", "source": ""}}
        add(reward, FLAT, suite="point_maze", task="open", method="sac", steps=100, settings=setting)
    rows = shelf("rl_sallm_f")
    for reward in ("dense", "sparse"):
        match = check_match(ours(rows, "sac", "open", reward=reward), reward)
        assert match.reasons == ("100 of 500,000 steps",), "the setting was meant"


def test_a_model_is_found_without_its_date_and_is_the_one_meant(
    taught: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    taught("mini", (3, 3))
    chat = {"chat.model": {"value": "gpt-4o-2024-08-06", "layer": "command line", "source": ""}}
    taught("large", (4, 4), model="gpt-4o-2024-08-06", settings=chat)
    rows = shelf("rl_sallm_f")
    check_match(ours(rows, model="gpt-4o-mini"), "mini")
    assert check_match(ours(rows, model="gpt-4o"), "large").reasons == (
        "MetaWorld v3; the paper used v2",
        "prompts of our own",
    )


def test_tasks_that_a_paper_does_not_name_are_those_of_ours(
    taught: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    assert isinstance(ours(Shelf([], catalogue.paper("rl_sallm_f"), {}), task="all"), Missing)
    taught("one", (3, 3))
    taught("two", (3, 3), task="reach")
    match = check_match(ours(shelf("rl_sallm_f"), task="all"), "one", "two")
    assert match.reasons[0] == "mean over button-press, reach; the paper names no tasks"


def test_a_privileged_teacher_is_a_reason_only_where_the_paper_had_none(
    taught: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    oracle = {"backend": "oracle", "model": "oracle", "parts": {"teacher": "oracle"}}
    taught("p", (4, 4), method="pebble", **oracle)
    taught("r", (4, 4), method="rl_sallm_f", **oracle)
    taught(
        "s", (4, 4), task="reach", backend="scripted", model="scripted", parts={"teacher": "llm", "chat": "scripted"}
    )
    rows = shelf("rl_sallm_f")
    reasons = [match.reasons[1:] for match in (ours(rows, "pebble"), ours(rows), ours(rows, task="reach"))
               if isinstance(match, Match)]  # fmt: skip
    assert reasons == [(), ("teacher oracle, oracle",), ("chat scripted, scripted",)]


def goal(value: str, ablation: str = "") -> dict[str, Any]:
    settings = {"suite.goal": {"value": value, "layer": "command line", "source": ""}}
    if ablation:
        settings["guide.x"] = {"value": True, "layer": f"ablation {ablation}", "source": ""}
    return settings


def test_a_mean_over_pairs_of_task_and_setting_has_these_pairs_alone(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    """LaGEA's table 3 has three tasks with hidden goals and three with observable ones, not all four tasks with
    either."""
    pairs = {
        "hidden": ("push", "drawer-open", "door-open"),
        "observable": ("button-press-topdown", "drawer-open", "door-open"),
    }
    for mode, tasks in pairs.items():
        for task in tasks:
            add(f"{mode}-{task}", FLAT, suite="metaworld_mt10", task=task, method="lagea", settings=goal(mode))
    both = {"goal": "hidden_fixed,observable_random"}
    tasks = "button-press-topdown,drawer-open,door-open,push"
    mean = Number("3", "metaworld_mt10", tasks, "lagea", both, "success_percent", 98.0, float("nan"), "", 3, "")
    hidden, observable = (
        [f"{mode}-{task}" for task in (*more, "drawer-open", "door-open", *last)]
        for mode, more, last in (("hidden", (), ("push",)), ("observable", ("button-press-topdown",), ()))
    )
    check_match(shelf("lagea").match(mean), *hidden, *observable)


def test_an_ablation_of_a_paper_is_found_by_the_name_that_it_has_here(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    place: dict[str, Any] = {"suite": "metaworld_mt10", "task": "push", "method": "lagea"}
    add("full", FLAT, **place, settings=goal("hidden"))
    role = {"kind": "ablation", "name": "keyframes=none", "reference": "full"}
    add("none", FLAT, **place, variant="x", settings=goal("hidden", "keyframes=none"), matrix=role)
    rows = shelf("lagea")
    for variant, cell in (({}, "full"), ({"ablation": "no_key_frames"}, "none")):
        number = Number("7", "metaworld_mt10", "push", "lagea", {"goal": "hidden_fixed", **variant},
                        "success_percent", 1.0, float("nan"), "", 3, "")  # fmt: skip
        assert not any("guide.x" in reason for reason in check_match(rows.match(number), cell).reasons)
