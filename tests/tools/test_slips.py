import random

import pytest

from tools import slips
from tools.slips import Answer, Slip

COMMAND = ("run", "suite=crafter_ood", "method=uer,vlm_rb", "learner.lr=1e-3", "--dry-run")


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        ("letter", "method=uer,vlm_rb"),
        ("space", "learner"),
        ("plural", "suites=crafter_ood"),
        ("kind", "replay.lr=1e-3"),
        ("missing", "suite="),
    ],
)
def test_a_slip_breaks_one_word_and_names_what_it_was(kind: str, broken: str) -> None:
    slips_drawn = [slip for seed in range(30) for slip in slips.slips(COMMAND, kind, random.Random(seed))]
    assert slips_drawn and all(slip.original == COMMAND != slip.words for slip in slips_drawn)
    assert all(any(slip.right in word for word in COMMAND) for slip in slips_drawn)
    assert any(broken in slip.words for slip in slips_drawn) or kind in ("letter", "space")


def test_equal_seeds_draw_equal_slips_and_most_answers_name_the_word() -> None:
    """A person reads the 200 slips of `python -m tools.slips`; these few show that most answers are still good."""
    answers, repeated = slips.draw(15, seed=3), slips.draw(15, seed=3)
    assert [reply.slip for reply in answers] == [reply.slip for reply in repeated]
    assert {reply.slip.kind for reply in answers} == {*slips.SLIPS} and all(reply.code == 2 for reply in answers)
    assert sum(reply.names for reply in answers) >= 13, [reply for reply in answers if not reply.names]


def test_an_answer_names_a_key_as_it_is_written_and_not_by_chance() -> None:
    slip = Slip("kind", ("show", "task=metaworld"), "suite", ("show", "suite=metaworld"))
    assert not Answer(slip, 2, "bench: unknown task of suite 'bin_sorting': 'metaworld' (known: backward)").names
    assert Answer(slip, 2, "bench: metaworld is a suite; write suite=metaworld").names
