"""Claims were committed before the runs, with the seeds that follow from them: on a repository made here, and on every
measured study that has claims."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.claims import Claim, Claims, key_of
from guidebench.harness.errors import UserError
from guidebench.results import claims
from tests.reports.conftest import Writer

ROOT = Path(__file__).parents[2]
GUIDED, BASE = ("method=vlm_rb",), ("method=uer",)
CLAIMS = Claims(
    (Claim(GUIDED, BASE, None, "final success", "higher", True),),
    "", ("suite=grid",), n=4, delta=0.2, sigma=0.1, pilot="", hours=1.0,
)  # fmt: skip
STUDIES = sorted(
    path.parent
    for path in (ROOT / "results" / "measured").glob("*/claims.json")
    if path.with_name("study.json").exists()
)


class Repository:
    """A git repository with a study in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "--quiet")
        self.before = self.commit("README", "no claims yet")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(self.root), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, name: str, text: str) -> str:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", name)
        return self.git("rev-parse", "HEAD")

    def study(self, commit: str, seeds: tuple[int, ...] = CLAIMS.seeds) -> results.StudyRecord:
        """Return a study whose runs have this commit in their provenance."""
        writer = Writer(self.root / "study")
        for name, method in (("guided", "vlm_rb"), ("base", "uer")):
            curves = {seed: {100: [0, 1]} for seed in seeds}
            writer.cell(name, curves, method=method, steps=100, provenance={"commit": commit})
        return results.study(writer.claim(CLAIMS, {key_of(GUIDED): ["guided"], key_of(BASE): ["base"]}))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def text_of(record: Claims) -> str:
    return json.dumps(record.as_json())


def test_runs_after_the_commit_of_their_claims_are_in_order(repository: Repository) -> None:
    origin = repository.commit("pilots/claims.json", text_of(CLAIMS))
    later = repository.commit("README", "something else")
    repository.git("mv", "pilots", "moved")
    repository.git("commit", "--quiet", "-m", "The claims move")
    assert claims.first_commit(CLAIMS.digest, repository.root) == origin
    assert claims.faults(repository.study(origin), repository.root) == []
    assert claims.faults(repository.study(later), repository.root) == []


def test_claims_after_the_runs_are_named(repository: Repository) -> None:
    study = repository.study(repository.before)
    (fault,) = claims.faults(study, repository.root)
    assert fault.startswith("no commit holds claims")
    origin = repository.commit("pilots/claims.json", text_of(CLAIMS))
    (fault,) = claims.faults(study, repository.root)
    assert f"does not descend from {origin[:12]}" in fault and "(8 of this kind)" in fault
    repository.git("checkout", "--quiet", "-b", "aside", repository.before)
    aside = repository.commit("README", "a branch without claims")
    repository.git("checkout", "--quiet", "-")
    assert "does not descend" in claims.faults(repository.study(aside), repository.root)[0]


def test_seeds_that_do_not_follow_from_the_claims_are_named(repository: Repository) -> None:
    origin = repository.commit("pilots/claims.json", text_of(CLAIMS))
    study = repository.study(origin, (*CLAIMS.seeds[:3], 7))
    faults = claims.faults(study, repository.root)
    assert faults == [f"{row}: seed 7 was not drawn from the claims" for row in ("method=vlm_rb", "method=uer")]
    row = claims.claimed_rows(study, study.claims)["method=uer"] if study.claims else None
    assert row is not None and row.missing == {CLAIMS.seeds[3]: "waiting"} and row.strangers == (7,)


def test_other_claims_under_the_same_name_are_not_taken_for_them(repository: Repository) -> None:
    """The digest decides, not the file's name or its whole content: an estimate of hours is not part of it."""
    repository.commit("study/claims.json", text_of(replace(CLAIMS, delta=0.3)))
    repository.commit("broken/claims.json", "{")
    assert claims.first_commit(CLAIMS.digest, repository.root) == ""
    origin = repository.commit("study/claims.json", text_of(replace(CLAIMS, hours=2.0)))
    assert claims.first_commit(CLAIMS.digest, repository.root) == origin


def test_a_directory_without_a_full_clone_is_refused(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="git rev-parse"):
        claims.first_commit(CLAIMS.digest, tmp_path)
    repository.commit("claims.json", text_of(CLAIMS))
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", repository.root.as_uri(), str(shallow))
    with pytest.raises(UserError, match="no full clone"):
        claims.first_commit(CLAIMS.digest, shallow)


@pytest.mark.parametrize("directory", STUDIES, ids=lambda directory: directory.name)
def test_the_claims_of_a_measured_study_precede_its_runs(directory: Path) -> None:
    study = results.study(directory)
    assert study.claims is not None, "it holds claims that its study.json does not name"
    rows = claims.claimed_rows(study, study.claims)
    assert not {row: of.missing for row, of in rows.items() if of.missing}, "drawn seeds have no finished run"
    assert not {row: of.strangers for row, of in rows.items() if of.strangers}, "seeds that were not drawn have runs"
    try:  # the order of commits is the rest; an archive and a shallow clone do not hold it
        claims.first_commit(study.claims.content.digest, ROOT)
    except UserError as error:
        pytest.skip(f"commits of claims need a full clone: {error}")
    assert claims.faults(study, ROOT) == []
