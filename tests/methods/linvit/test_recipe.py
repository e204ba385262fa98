"""The method's parts and settings, and what is refused."""

from typing import Any

import pytest

from guidebench.harness import settings
from guidebench.harness.errors import UserError
from guidebench.harness.plan import config, matrix


def planned(*words: str) -> Any:
    defaults = ["method=linvit", "prior=scripted", *words]
    (cell,) = matrix.plan([*defaults, *(["profile=smoke"] if "profile=" not in " ".join(words) else [])]).cells
    return cell


@pytest.mark.parametrize(
    ("suite", "profile"),
    [("crafter", "paper"), ("crafter_ood", "paper"), ("crafter_ood", "quick"), ("housekeep", "paper"),
     ("housekeep", "smoke")],
)  # fmt: skip
def test_it_fits_every_profile_of_the_suites_that_tell_sentences(suite: str, profile: str) -> None:
    for cell in matrix.plan([f"suite={suite}", "method=linvit", f"profile={profile}"]).cells:
        backend = "transformers" if profile == "paper" else "scripted"
        assert cell.section("prior").backend == backend and cell.learner == "prior_dqn"
        observation_setting = "grey_text" if (profile, suite[:7]) == ("paper", "crafter") else "text"
        assert cell.section("suite").observation == observation_setting
        parts = config.cell_view(cell).observations.parts
        assert "text" not in parts and parts["prior"].shape == (config.cell_view(cell).actions.count,)


def test_what_a_profile_sets_of_the_dueling_network_holds_for_its_learner_too() -> None:
    linvit, sparse = planned("suite=housekeep", "profile=quick"), matrix.plan(
        ["suite=housekeep", "method=sparse", "profile=quick"]).cells[0]  # fmt: skip
    learner, dueling = (settings.identity(cell.section("learner")) for cell in (linvit, sparse))
    assert learner == {**dueling, "double": False, "temperature": 0.01}
    assert linvit.section("learner").lr == 3e-4 and linvit.settings["learner.lr"].layer == "profile quick"


def test_settings_of_its_own_have_precedence_over_those_of_the_dueling_network_in_one_layer() -> None:
    names = planned("suite=housekeep").names
    layer = {"learner.prior_dqn.lr": 2.0, "learner.dueling_dqn.lr": 1.0, "learner.dueling_dqn.n_step": 5}
    sparse = matrix.plan(["suite=housekeep", "method=sparse", "profile=smoke"]).cells[0].names
    for cell_names, ordered, lr in (
        (names, layer, 2.0),
        (names, dict(reversed(layer.items())), 2.0),
        (sparse, layer, 1.0),
    ):
        effective = {
            key: value.value for key, value in config.laid(cell_names, ordered, "a layer") if value is not None
        }
        assert effective == {"learner.lr": lr, "learner.n_step": 5}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suite=housekeep", "suite.observation=symbols"), r"reads the sentences in the part 'text'.*=text makes"),
        (("suite=minigrid_doorkey", "task=5x5"), r"the suite names none in words"),
        (("suite=classic", "task=Pendulum-v1"), r"needs discrete actions"),
        (("suite=housekeep", "agent=standard", "suite.observation=symbols"), r"which agent=prior_guided adds"),
        (("suite=housekeep", "prior.delay=3"), r"unknown setting 'prior\.delay'"),
        (("suite=housekeep", "agent.smoothing=0"), r"agent\.smoothing=0: expected float in \[0\.0001, 1\]"),
        (("suite=housekeep", "learner.temperature=0"), r"learner\.temperature=0: expected float at least 0\.0001"),
        (("suite=housekeep", "learner.double=true"), r"double=true does not apply to prior_dqn"),
        (
            ("suite=metaworld_pbrl", "method=pebble_llm", "chat=scripted_prior"),
            "weighs actions, for agent=prior_guided",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(words: tuple[str, ...], message: str) -> None:
    is_linvit = "method=pebble_llm" not in words
    prior = is_linvit and "agent=standard" not in words
    all_words = ["profile=smoke", *words, *("method=linvit",) * is_linvit, *("prior=scripted",) * prior]
    with pytest.raises(UserError, match=message):
        matrix.plan(all_words)
