"""A budget that machines share without locks is never exceeded, and a dead machine does not hold it back."""

import json
import os
import time
from pathlib import Path

import pytest

from guidebench.harness.errors import BudgetReached
from guidebench.harness.models import budget, grants
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.grants import Grants
from tests import programs
from tests.refusals import check_refused

CALL = Usage(calls=1, seconds=2.0, usd=0.01)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "LOOK", 0.0)


def open_grants(place: Path, **limits: float) -> Grants:
    return Grants(place / "grants", place / "budget.json", Limits(**limits))  # type: ignore[arg-type]


def read_grant(place: Path, number: int) -> dict[str, float]:
    return json.loads((place / "grants" / str(number)).read_text())


def test_a_grant_is_a_share_of_what_is_left_and_ends_with_what_was_spent(tmp_path: Path) -> None:
    first, second = (open_grants(tmp_path, calls=1280, usd=40.0) for _ in range(2))
    assert first.reserve(CALL) and second.reserve(CALL)
    assert (read_grant(tmp_path, 1)["calls"], read_grant(tmp_path, 1)["usd"]) == (20.0, 0.625)  # a sixty-fourth
    assert read_grant(tmp_path, 2)["calls"] == 19.6875  # a sixty-fourth of the 1,260 that are left
    assert read_grant(tmp_path, 1)["seconds"] == 0.0  # not limited
    first.settle(CALL, CALL)
    first.rest()
    assert json.loads((tmp_path / "grants" / "1.spent").read_text()) == {"usd": 0.01, "calls": 1, "seconds": 2.0}
    assert first.reserve(CALL) and read_grant(tmp_path, 3)["calls"] == pytest.approx((1280 - 1 - 19.6875) / 64)


def test_a_small_rest_is_granted_for_some_calls_at_once_and_then_as_it_is(tmp_path: Path) -> None:
    first, second = (open_grants(tmp_path, calls=10) for _ in range(2))
    assert first.reserve(CALL) and read_grant(tmp_path, 1)["calls"] == 8.0
    assert second.reserve(CALL) and read_grant(tmp_path, 2)["calls"] == 2.0


def test_a_grant_ends_once_its_last_call_is_settled_if_others_were_to_have_it(tmp_path: Path) -> None:
    first, second = (open_grants(tmp_path, calls=9) for _ in range(2))
    assert first.reserve(CALL) and first.reserve(CALL)
    first.rest()
    assert not first.reserve(CALL)  # no call is begun on it any more
    first.settle(CALL, CALL)
    assert not (tmp_path / "grants" / "1.spent").exists()
    first.settle(CALL, CALL)
    assert all(second.reserve(CALL) for _ in range(7)) and (tmp_path / "grants" / "1.spent").exists()


def test_it_is_not_exceeded_and_its_end_is_told_when_all_is_spent(tmp_path: Path) -> None:
    first, second = (open_grants(tmp_path, calls=9) for _ in range(2))
    assert all(first.reserve(CALL) for _ in range(8)) and second.reserve(CALL)
    assert not first.reserve(CALL) and not second.reserve(CALL)  # calls under way may cost less than reserved
    for _ in range(8):
        first.settle(CALL, CALL)
    second.settle(CALL, Usage())  # it failed, and cost nothing
    assert not first.reserve(CALL)  # the second process may spend the rest of its grant
    second.rest()
    assert first.reserve(CALL)
    first.settle(CALL, CALL)
    with pytest.raises(BudgetReached, match=r"models.budget_calls=9 is reached: 9 calls are spent .* may take 1"):
        second.reserve(CALL)


def test_a_study_whose_budget_is_spent_ends_and_a_raised_one_goes_on(tmp_path: Path) -> None:
    first = open_grants(tmp_path, seconds=5.0)
    for _ in range(2):
        assert first.reserve(CALL)
        first.settle(CALL, Usage(calls=1, seconds=2.5))
    with pytest.raises(BudgetReached, match="5 seconds of models' time are spent"):
        first.reserve(CALL)
    first.close()
    assert grants.settle(tmp_path / "grants", tmp_path / "budget.json") and not (tmp_path / "grants").exists()
    assert Budget(tmp_path / "budget.json", Limits()).spent["seconds"] == 5.0
    raised = open_grants(tmp_path, seconds=8.0)
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
        first = open_grants(tmp_path, calls=10)
        assert first.reserve(CALL) and first.reserve(CALL)
        for _ in range(2):
            first.settle(CALL, CALL)
        assert not first.reserve(CALL)
        assert not grants.settle(tmp_path / "grants", tmp_path / "budget.json")
    finally:
        holder.kill()
        holder.wait()
    with pytest.raises(BudgetReached, match="10 calls are spent"):
        first.reserve(CALL)
    assert grants.spent_and_granted(tmp_path / "grants", tmp_path / "budget.json")["calls"] == 10
    first.close()
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
first = grants.Grants(place / "grants", place / "budget.json", Limits(calls=300, usd=2.0))
try:
    while True:
        if first.reserve(Usage(calls=1, usd=0.01)):
            made += 1
            first.settle(Usage(calls=1, usd=0.01), Usage(calls=1, usd=0.01))
except BudgetReached:
    print(made)
first.close()
"""


def test_processes_that_share_it_spend_exactly_what_there_is(tmp_path: Path) -> None:
    spenders = [programs.start_python(SPEND, tmp_path) for _ in range(3)]
    assert sum(int(spender.stdout.read()) for spender in spenders) == 200
    assert grants.settle(tmp_path / "grants", tmp_path / "budget.json")
    assert budget.spent(tmp_path / "budget.json")[0]["usd"] == pytest.approx(2.0)


def test_a_process_that_gave_no_sign_of_life_spends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = open_grants(tmp_path, calls=10)
    assert late.reserve(CALL)
    monkeypatch.setattr("guidebench.harness.records.leases._elapsed", lambda: time.monotonic() + 10_000)
    other = next(path for path in (tmp_path / "grants").iterdir() if path.is_dir())
    (other / ".lease" / "2").write_text(
        "held{}"
    )  # another process judged it dead, as a command that settles the budget does
    check_refused("could give no sign of life", late.reserve, CALL)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"holder": "../x", "usd": 1, "calls": 1, "seconds": 1}', '{"holder": 1}']
)
def test_a_file_that_is_no_grant_is_named(tmp_path: Path, content: str) -> None:
    first = open_grants(tmp_path, calls=10)
    (tmp_path / "grants" / "1").write_text(content)
    check_refused(r"1 (is not what this program wrote|cannot be read as JSON)", first.reserve, CALL)


def test_a_grant_whose_reply_was_lost_is_this_process_s_own_and_one_of_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (open_grants(tmp_path, calls=1280) for _ in range(2))
    link = os.link

    def link_twice(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(17, "File exists")

    with monkeypatch.context() as patched:
        patched.setattr("os.link", link_twice)
        assert first.reserve(CALL)
    assert second.reserve(CALL)
    assert sorted(path.name for path in (tmp_path / "grants").iterdir() if path.is_file()) == ["1", "2"]
    assert read_grant(tmp_path, 1)["holder"] != read_grant(tmp_path, 2)["holder"]


def test_a_disk_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_grants(tmp_path, calls=10)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    check_refused("its file system makes no hard links; choose another output=…", first.reserve, CALL)
