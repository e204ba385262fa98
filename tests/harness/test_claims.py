"""Claims: their file, the digest and the seeds that follow from it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import claims
from tests.refusals import check_refused

CLAIM = {
    "first": ["method=vlm_rb"],
    "second": ["method=uer"],
    "placebo": None,
    "score": "area success",
    "direction": "higher",
    "primary": True,
}
FIELDS: dict[str, Any] = {
    "claims": [CLAIM],
    "difficulty": "",
    "settings": ["suite=minigrid_doorkey", "task=6x6"],
    "n": 5,
    "delta": 0.2,
    "sigma": 0.1,
    "alpha": 0.05,
    "looks": 1,
    "pilot": "",
    "hours": 1.5,
}


def parse(**changes: Any) -> claims.Claims:
    return claims.parsed(json.dumps(FIELDS | changes).encode(), "claims.json")


def test_seeds_follow_from_the_digest_of_the_canonical_json_of_eight_fields() -> None:
    names = ("alpha", "claims", "delta", "difficulty", "looks", "n", "pilot", "settings")
    text = json.dumps({name: FIELDS[name] for name in names}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    record = parse()
    assert record.digest == digest
    first = int(hashlib.sha256(f"{digest}:0".encode()).hexdigest()[:8], 16) % 2_000_000_000 + 20_000
    assert record.seeds[0] == first and len(set(record.seeds)) == record.n


def test_every_digested_field_changes_the_seeds_and_the_others_do_not() -> None:
    seeds = parse().seeds
    changes: dict[str, Any] = {
        "claims": [CLAIM | {"direction": "lower"}], "difficulty": "hard", "settings": ["suite=classic"], "n": 6,
        "delta": 0.3, "pilot": "0" * 64,
    }  # fmt: skip
    assert all(parse(**{name: change}).seeds[:5] != seeds for name, change in changes.items())
    assert parse(sigma=0.2, hours=3.0).seeds == seeds


def test_a_file_that_was_written_is_read_again(tmp_path: Path) -> None:
    grids = {"method=vlm_rb": [["replay.lambda_max=0.5"]], "method=uer": [["learner.lr=1e-4"]]}
    record = parse(tuning={"seeds": 2, "score": "late success", "grids": grids, "chosen": {}})
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(record.as_json()))
    assert claims.read(path) == record


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 3}, "n does not fit"),
        ({"alpha": 0.1}, "alpha does not fit"),
        ({"looks": 3}, "looks does not fit"),
        ({"seeds": [1]}, "the file does not fit"),
        ({"claims": [CLAIM | {"score": "best success"}]}, r"claims\.0\.score does not fit"),
        ({"claims": [CLAIM | {"primary": False}]}, "no claim is primary"),
        ({"claims": [CLAIM | {"second": ["method=vlm_rb"]}]}, "with itself"),
        ({"claims": [CLAIM | {"second": None, "placebo": ["method=uer"]}]}, "trend"),
        ({"n": 5.0}, "write a whole number"),
        ({"claims": [CLAIM | {"first": ["method=\ud800"]}]}, "cannot be printed"),
        ({"delta": 1e400}, "not JSON|finite"),
        ({"n": 4, "claims": [CLAIM, CLAIM | {"score": "late success"}]}, r"n=4 cannot show .* needs 0\.025"),
        ({"n": 6, "looks": 2}, "3 seeds a row of the first look"),
    ],
)
def test_a_file_that_does_not_fit_names_the_fault(changes: dict[str, Any], message: str) -> None:
    check_refused(message, parse, **changes)


def test_grids_of_unequal_size_are_refused() -> None:
    grids = {"method=vlm_rb": [["a=1"], ["a=2"]], "method=uer": [["a=1"]]}
    check_refused("unequal sizes", parse, tuning={"seeds": 2, "score": "late success", "grids": grids, "chosen": {}})


def test_a_row_is_tuned_only_with_the_row_that_it_is_compared_with() -> None:
    grids = {"method=vlm_rb": [["replay.lambda_max=0.5"]]}
    check_refused(
        "no grid for 'method=uer'", parse, tuning={"seeds": 2, "score": "late success", "grids": grids, "chosen": {}}
    )
    twice = {name: [["learner.lr=1e-4"]] * 2 for name in ("method=vlm_rb", "method=uer")}
    check_refused("an entry twice", parse, tuning={"seeds": 2, "score": "late success", "grids": twice, "chosen": {}})


def test_a_tuned_row_is_the_row_with_its_chosen_words() -> None:
    grids = {"method=uer": [["learner.lr=1e-4"]], "method=vlm_rb": [["replay.lambda_max=0.5"]]}
    tuning = {"seeds": 2, "score": "late success", "grids": grids}
    chosen = {name: grid[0] for name, grid in grids.items()}
    tuned = [CLAIM | {"first": ["method=vlm_rb", "replay.lambda_max=0.5"], "second": ["method=uer", "learner.lr=1e-4"]}]
    assert parse(claims=tuned, tuning={**tuning, "chosen": chosen}).tuning is not None
    check_refused("no row of a claim", parse, tuning={**tuning, "chosen": chosen})


def test_rows_of_other_claims_are_refused() -> None:
    record = parse()
    rows = {"method=vlm_rb": ["a"], "method=uer": ["b"]}
    assert claims.rows_of({"digest": record.digest, "rows": rows}, record, "study.json")["method=uer"] == ("b",)
    check_refused("digest", claims.rows_of, {"digest": "0", "rows": rows}, record, "study.json")
    check_refused("names no cells", claims.rows_of, {"digest": record.digest, "rows": {}}, record, "study.json")
