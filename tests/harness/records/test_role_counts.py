import pytest

from guidebench.harness.records import role_counts
from guidebench.harness.records.role_counts import RoleCount


def test_counts_come_back_with_and_without_the_number_of_retries() -> None:
    counts = {"planner": RoleCount(5, 2, "planned without plans", 3), "judge": RoleCount(4, 0)}
    assert role_counts.read(role_counts.written(counts)) == counts
    assert role_counts.read('{"judge":[4,0,""]}') == {"judge": RoleCount(4, 0)}, "as early records have it"
    assert RoleCount(5, 2, "x", 1).plus(RoleCount(1, 0, "", 1)) == RoleCount(6, 2, "", 2)
    assert RoleCount(5, 2, "", 1).plus(RoleCount(1, 0)).retried is None


@pytest.mark.parametrize("fields", ['[5,2,"",4]', '[5,2,"",-1]', '[5,2,"",true]', '[5,2,"",1,1]', '[2,5,""]', "[5]"])
def test_counts_that_cannot_be_are_refused(fields: str) -> None:
    with pytest.raises(ValueError, match="is no count of a role"):
        role_counts.read(f'{{"judge":{fields}}}')
