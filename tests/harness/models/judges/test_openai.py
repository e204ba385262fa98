import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.models import study_models
from guidebench.harness.models.judges.openai_ import OpenAI
from guidebench.harness.models.judges.transformers_ import Transformers
from guidebench.harness.parts import Most
from guidebench.harness.plan import matrix
from guidebench.harness.run import call_bounds
from tests.refusals import check_refused


def test_it_is_registered() -> None:
    assert registry.get("judge", "openai") is OpenAI and registry.get("judge", "transformers") is Transformers


@pytest.mark.parametrize("pasted", ["sk-proj-0123456789abcdef", "hf_AbCdEfGhIjKl", "Bearer 0123456789", ""])
def test_a_key_pasted_for_the_name_of_its_variable_is_refused_and_not_repeated(pasted: str) -> None:
    with pytest.raises(UserError, match="takes the name of an environment variable") as error:
        matrix.plan(["suite=minigrid_doorkey", "method=vlm_rb", "judge=openai", f'judge.key_variable="{pasted}"'])
    assert not pasted or pasted not in str(error.value)


DOORKEY = ("suite=minigrid_doorkey", "method=vlm_rb", "profile=quick")
CHOOSING = (*DOORKEY, "judge=openai", "judge.scoring=choice")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (CHOOSING, r"scoring=choice needs judge\.choice_by"),
        ((*DOORKEY, "judge=openai", "judge.choice_by=label"), r"judge\.choice_by=label is for scoring=choice"),
        ((*CHOOSING, "judge.choice_by=prompt", "judge.rotations=1"), r"judge\.rotations=1 is for choice_by=label"),
        ((*CHOOSING, "judge.choice_by=label", "judge.model=gemini-3-pro"), "tells no likelihoods"),
        ((*CHOOSING, "judge.choice_by=enum"), "enum"),
    ],
)
def test_a_judgement_by_choice_that_cannot_be_made_is_refused_before_anything_runs(
    words: tuple[str, ...], message: str
) -> None:
    check_refused(message, matrix.plan, words)


def test_the_way_of_choosing_is_in_id_and_key_and_counts_its_requests() -> None:
    """A clip takes two orders of yes and no by labels, and by prompts both answers and two renderings."""
    literal, label, prompt = (
        matrix.plan(words).cells[0]
        for words in (
            (*DOORKEY, "judge=openai", "judge.scoring=literal"),
            (*CHOOSING, "judge.choice_by=label"),
            (*CHOOSING, "judge.choice_by=prompt"),
        )
    )
    assert len({literal.id, label.id, prompt.id}) == 3 and "judge.choice_by=label" in label.variant
    identities = [study_models.identity(cell.section("judge")) for cell in (literal, label)]
    assert "choice_by" not in identities[0] and identities[1]["choice_by"] == "label"
    calls = [
        call_bounds.questions(Most(10, images=4), cell.section("judge"), "judge").calls
        for cell in (literal, label, prompt)
    ]
    assert calls == [calls[0], 2 * calls[0], 4 * calls[0]]
