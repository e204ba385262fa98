"""Names of rows say only what differs between the rows of a study."""

from typing import Any

from guidebench import results
from guidebench.reports.summary import names
from guidebench.reports.summary.names import Names
from tests.reports.conftest import Writer

CURVES = {0: {100: [1]}, 1: {100: [0]}}


def settings(**values: Any) -> dict[str, Any]:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return {name: {"value": value, "layer": "command line", "source": ""} for name, value in named.items()}


def brief_names(writer: Writer) -> tuple[Names, list[str]]:
    notes: list[str] = []
    return names.brief(results.study(writer.finish()).cells, notes), notes


def test_a_setting_is_told_only_where_rows_that_have_it_differ(writer: Writer) -> None:
    writer.cell("a", CURVES, variant="training.steps=300", settings=settings(training__steps=300))
    both = {"training__steps": 300, "embedder__width": 8}
    writer.cell("b", CURVES, method="seen", variant="embedder.width=8, training.steps=300", settings=settings(**both))
    default = settings(training__steps=300, embedder__width=8)
    writer.cell("c", CURVES, method="heard", variant="training.steps=300", settings=default)
    longer = settings(training__steps=300, learner__lr=0.1)
    writer.cell("d", CURVES, method="slow", variant="learner.lr=0.1, training.steps=300", settings=longer)
    writer.cell("e", CURVES, method="fast", settings=settings(training__steps=300, learner__lr=0.2))
    names, notes = brief_names(writer)
    assert list(names.labels.values()) == ["uer", "seen", "heard", "slow (learner.lr=0.1)", "fast"] and not notes
    assert names.shared == ("training.steps=300", "embedder.width=8")


def test_models_and_profile_that_all_rows_share_are_not_repeated_and_hand_written_ones_are_always_told(
    writer: Writer,
) -> None:
    def models(**of: str) -> dict[str, Any]:
        return {
            "parts": {
                role: {
                    "kind": "chat",
                    "name": model,
                    "backend": "scripted" if "rules" in model else "openai",
                    "model": model,
                }
                for role, model in of.items()
            }
        }

    joined = {"backend": "scripted", "model": "rules_planner+rules"}
    writer.cell("a", CURVES, method="plans", record=models(planner="rules_planner", critic="rules"), **joined)
    joined = {"backend": "openai+scripted", "model": "gpt+rules"}
    writer.cell("b", CURVES, method="plans", record=models(planner="gpt", critic="rules"), **joined)
    writer.cell("c", CURVES, method="acts", backend="scripted", model="rules", record=models(critic="rules"))
    names, _ = brief_names(writer)
    assert list(names.labels.values()) == ["plans · rules_planner", "plans · planner=gpt+scripted", "acts · rules"]


def test_rows_of_one_model_name_it_in_the_legend_alone(writer: Writer) -> None:
    model = {"backend": "scripted", "model": "sprite"}
    for name in ("low", "high"):
        writer.cell(
            name, CURVES, method="vlm_rb", variant=f"replay.cap={name}", settings=settings(replay__cap=name), **model
        )
    names, _ = brief_names(writer)
    assert list(names.labels.values()) == ["vlm_rb (replay.cap=low)", "vlm_rb (replay.cap=high)"]


def test_cells_of_one_name_are_told_apart_by_the_settings_that_differ_and_never_by_a_digest(writer: Writer) -> None:
    writer.cell("a", CURVES, settings=settings(learner__lr=1))
    writer.cell("b", CURVES, settings=settings(learner__lr=2))
    writer.cell(
        "c", CURVES, method="per", variant="judge.digest=" + "1f" * 32, settings=settings(judge__digest="1f" * 32)
    )
    writer.cell(
        "d", CURVES, method="per", variant="judge.digest=" + "2f" * 32, settings=settings(judge__digest="2f" * 32)
    )
    names, notes = brief_names(writer)
    assert list(names.labels.values()) == ["uer [learner.lr=1]", "uer [learner.lr=2]", "per [1]", "per [2]"]
    assert notes == [
        "grid/8x8: 2 configurations are called uer; what tells them apart is in [ ]",
        "grid/8x8: 2 configurations are called per; what tells them apart is in [ ] (c, d)",
    ]
