"""A budget that machines share without locks is never exceeded, and a dead machine cannot hold it."""

import json
import os
import time
from pathlib import Path

import pytest

from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.models import budget, grants
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.grants import Grants
from tests import programs

CALL = Usage(calls=1, seconds=2.0, usd=0.01)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "LOOK", 0.0)


def opened(place: Path, **limits: float) -> Grants:
    return Grants(place / "grants", place / "budget.json", Limits(**limits))  # type: ignore[arg-type]


def given(place: Path, number: int) -> dict[str, float]:
    return json.loads((place / "grants" / str(number)).read_text())


def test_a_grant_is_a_share_of_what_is_left_and_ends_with_what_was_spent(tmp_path: Path) -> None:
    mine, yours = (opened(tmp_path, calls=1280, usd=40.0) for _ in range(2))
    assert mine.reserve(CALL) and yours.reserve(CALL)
    assert (given(tmp_path, 1)["calls"], given(tmp_path, 1)["usd"]) == (20.0, 0.625)  # a sixty-fourth
    assert given(tmp_path, 2)["calls"] == 19.6875  # a sixty-fourth of the 1,260 that are left
    assert given(tmp_path, 1)["seconds"] == 0.0  # not limited
    mine.settle(CALL, CALL)
    mine.rest()
    assert json.loads((tmp_path / "grants" / "1.spent").read_text()) == {"usd": 0.01, "calls": 1, "seconds": 2.0}
    assert mine.reserve(CALL) and given(tmp_path, 3)["calls"] == pytest.approx((1280 - 1 - 19.6875) / 64)


def test_a_small_rest_is_granted_for_some_calls_at_once_and_then_as_it_is(tmp_path: Path) -> None:
    mine, yours = (opened(tmp_path, calls=10) for _ in range(2))
    assert mine.reserve(CALL) and given(tmp_path, 1)["calls"] == 8.0
    assert yours.reserve(CALL) and given(tmp_path, 2)["calls"] == 2.0


def test_a_grant_ends_once_its_last_call_is_settled_if_others_were_to_have_it(tmp_path: Path) -> None:
    mine, yours = (opened(tmp_path, calls=9) for _ in range(2))
    assert mine.reserve(CALL) and mine.reserve(CALL)
    mine.rest()
    assert not mine.reserve(CALL)  # nothing more is begun on it
    mine.settle(CALL, CALL)
    assert not (tmp_path / "grants" / "1.spent").exists()
    mine.settle(CALL, CALL)
    assert all(yours.reserve(CALL) for _ in range(7)) and (tmp_path / "grants" / "1.spent").exists()


def test_it_is_not_exceeded_and_its_end_is_told_when_all_is_spent(tmp_path: Path) -> None:
    mine, yours = (opened(tmp_path, calls=9) for _ in range(2))
    assert all(mine.reserve(CALL) for _ in range(8)) and yours.reserve(CALL)
    assert not mine.reserve(CALL) and not yours.reserve(CALL)  # what is under way may take less
    for _ in range(8):
        mine.settle(CALL, CALL)
    yours.settle(CALL, Usage())  # it failed, and cost nothing
    assert not mine.reserve(CALL)  # yours may spend its rest
    yours.rest()
    assert mine.reserve(CALL)
    mine.settle(CALL, CALL)
    with pytest.raises(BudgetReached, match=r"models.budget_calls=9 is reached: 9 calls are spent .* may take 1"):
        yours.reserve(CALL)


def test_a_study_whose_budget_is_spent_ends_and_a_raised_one_goes_on(tmp_path: Path) -> None:
    first = opened(tmp_path, seconds=5.0)
    for _ in range(2):
        assert first.reserve(CALL)
        first.settle(CALL, Usage(calls=1, seconds=2.5))
    with pytest.raises(BudgetReached, match="5 seconds of models' time are spent"):
        first.reserve(CALL)
    first.close()
    assert grants.settle(tmp_path / "grants", tmp_path / "budget.json") and not (tmp_path / "grants").exists()
    assert Budget(tmp_path / "budget.json", Limits()).spent["seconds"] == 5.0
    raised = opened(tmp_path, seconds=8.0)
    assert raised.reserve(CALL) and (tmp_path / "grants" / "2").exists()  # no number is given twice


HOLD = """
import sys, time
from pathlib import Path
from guidebench.harness.models.budget import Limits
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.grants import Grants
place = Path(sys.argv[1])
held = Grants(place / "grants", place / "budget.json", Limits(calls=10))
assert held.reserve(Usage(calls=1))
print("held", flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_was_granted_counts_as_spent(tmp_path: Path) -> None:
    holder = programs.start_python(HOLD, tmp_path)
    try:
        assert holder.stdout.readline() == "held\n"
        mine = opened(tmp_path, calls=10)
        assert mine.reserve(CALL) and mine.reserve(CALL)
        for _ in range(2):
            mine.settle(CALL, CALL)
        assert not mine.reserve(CALL)
        assert not grants.settle(tmp_path / "grants", tmp_path / "budget.json")
    finally:
        holder.kill()
        holder.wait()
    with pytest.raises(BudgetReached, match="10 calls are spent"):
        mine.reserve(CALL)
    assert grants.spent_and_granted(tmp_path / "grants", tmp_path / "budget.json")["calls"] == 10
    mine.close()
    assert grants.settle(tmp_path / "grants", tmp_path / "budget.json")
    assert budget.spent(tmp_path / "budget.json")[0]["calls"] == 10


SPEND = """
import sys
from pathlib import Path
from guidebench.harness.errors import BudgetReached
from guidebench.harness.models import grants
from guidebench.harness.models.budget import Limits
from guidebench.harness.models.calls import Usage
grants.LOOK = 0.0
place, made = Path(sys.argv[1]), 0
mine = grants.Grants(place / "grants", place / "budget.json", Limits(calls=300, usd=2.0))
try:
    while True:
        if mine.reserve(Usage(calls=1, usd=0.01)):
            made += 1
            mine.settle(Usage(calls=1, usd=0.01), Usage(calls=1, usd=0.01))
except BudgetReached:
    print(made)
mine.close()
"""


def test_processes_that_share_it_spend_exactly_what_there_is(tmp_path: Path) -> None:
    spenders = [programs.start_python(SPEND, tmp_path) for _ in range(3)]
    assert sum(int(spender.stdout.read()) for spender in spenders) == 200
    assert grants.settle(tmp_path / "grants", tmp_path / "budget.json")
    assert budget.spent(tmp_path / "budget.json")[0]["usd"] == pytest.approx(2.0)


def test_a_process_that_gave_no_sign_of_life_spends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = opened(tmp_path, calls=10)
    assert late.reserve(CALL)
    monkeypatch.setattr("guidebench.harness.records.leases._elapsed", lambda: time.monotonic() + 10_000)
    other = next(path for path in (tmp_path / "grants").iterdir() if path.is_dir())
    (other / ".lease" / "2").write_text("held{}")  # others judged it, as a command that settles the budget does
    with pytest.raises(UserError, match="could give no sign of life"):
        late.reserve(CALL)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"holder": "../x", "usd": 1, "calls": 1, "seconds": 1}', '{"holder": 1}']
)
def test_a_file_that_is_no_grant_is_named(tmp_path: Path, content: str) -> None:
    mine = opened(tmp_path, calls=10)
    (tmp_path / "grants" / "1").write_text(content)
    with pytest.raises(UserError, match=r"1 (is not what this program wrote|cannot be read as JSON)"):
        mine.reserve(CALL)


def test_a_grant_whose_reply_was_lost_is_this_process_s_own_and_one_of_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, yours = (opened(tmp_path, calls=1280) for _ in range(2))
    made = os.link

    def repeated(source: Path, target: Path) -> None:
        made(source, target)
        raise FileExistsError(17, "File exists")

    with monkeypatch.context() as patched:
        patched.setattr("os.link", repeated)
        assert mine.reserve(CALL)
    assert yours.reserve(CALL)
    assert sorted(path.name for path in (tmp_path / "grants").iterdir() if path.is_file()) == ["1", "2"]
    assert given(tmp_path, 1)["holder"] != given(tmp_path, 2)["holder"]


def test_a_disk_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = opened(tmp_path, calls=10)

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    with pytest.raises(UserError, match="its file system makes no hard links; choose another output=…"):
        mine.reserve(CALL)
