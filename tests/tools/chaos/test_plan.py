"""What is drawn follows from the seed and the number of a round, and every family and fault has its turn."""

from itertools import islice

import pytest

from guidebench.harness import registry
from tests.methods import contract
from tools.chaos import plan
from tools.chaos.families import FAMILIES
from tools.chaos.marker import SUITE
from tools.chaos.processes import FORK_SERVER, TASKS


def test_a_round_follows_from_the_seed_and_its_number() -> None:
    rounds = list(islice(plan.rounds(7, FAMILIES), 30))
    assert rounds == list(islice(plan.rounds(7, FAMILIES), 30))
    assert plan.draw(7, 29, FAMILIES) == rounds[29] == next(plan.rounds(7, FAMILIES, first=29))
    assert rounds != list(islice(plan.rounds(8, FAMILIES), 30))


def test_every_family_has_its_turn_before_one_comes_again() -> None:
    count = len(FAMILIES)
    families = [round.family for round in islice(plan.rounds(7, FAMILIES), 2 * count)]
    assert {*families[:count]} == {*families[count:]} == {*FAMILIES} and families[:count] != families[count:]


def test_each_round_has_possible_faults_and_all_are_drawn() -> None:
    kinds: dict[str, set[tuple[str, str]]] = {name: set() for name in FAMILIES}
    for round in islice(plan.rounds(7, FAMILIES), 60 * len(FAMILIES)):
        *disturbed, last = round.commands
        faults = [command.fault for command in disturbed if command.fault is not None]
        assert len(faults) == plan.DISTURBED and last.fault is None
        assert [fault.step for fault in faults] == sorted(fault.step for fault in faults)
        assert all(fault.step < FAMILIES[round.family].steps for fault in faults)
        kinds[round.family] |= {(fault.kind, fault.target) for fault in faults}
        for command in disturbed:
            assert command.fault is not None
            assert command.env_workers or command.fault.target != TASKS
            assert command.is_fresh or command.fault.target != FORK_SERVER
    assert kinds == {name: {*plan.possible(family)} for name, family in FAMILIES.items()}


def test_planning_registers_no_part() -> None:
    assert SUITE not in registry.names("suite")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_a_row_of_the_contract_with_each_setting_once(name: str) -> None:
    family = FAMILIES[name]
    words = family.command("http://127.0.0.1:1/v1", {model: f"/models/{model}" for model in family.models})
    assert words[:2] == ["run", f"method={contract.METHODS[family.row].words.split()[0].partition('=')[2]}"]
    settings = [word.partition("=")[0] for word in words[1:]]
    assert len(settings) == len({*settings}) and not any("{" in word for word in words)
    assert bool(family.served) == any("127.0.0.1" in word for word in words)
