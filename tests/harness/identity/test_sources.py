"""Changed code is reported by the name of its group: a cell's own parts and the engine, and no other code."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.identity import provenance, sources
from guidebench.harness.plan import matrix
from guidebench.harness.run.worker import _continued

PLUGIN = '''
"""A replay of a plug-in."""

from dataclasses import dataclass

from guidebench.baselines.replay.uer import Uer
from guidebench.harness.registry import register


@register.replay("strange")
@dataclass(frozen=True)
class Strange(Uer):
    """Draws as uniform replay does."""
'''


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the project's packages from which source digests are computed."""
    for name in sources.PROJECT:
        ignored = shutil.ignore_patterns("__pycache__", "templates")
        place = Path(*name.split("."))
        shutil.copytree(sources.ROOT / place, tmp_path / "tree" / place, ignore=ignored)
    monkeypatch.setattr(sources, "ROOT", tmp_path / "tree")
    return tmp_path / "tree" / "guidebench"


def sources_of(*overrides: str) -> dict[str, str]:
    cell, *_ = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", *overrides]).cells
    return sources.of(cell.names)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_a_cell_s_sources_are_those_of_its_parts_and_of_the_engine() -> None:
    groups = sources_of("method=vlm_rb")
    expected = {"harness.loop", "harness.models", "methods.vlm_rb", "suites.minigrid_doorkey",
                "baselines.learners.dqn", "baselines.sum_tree"}  # fmt: skip
    assert expected <= groups.keys()
    others = ("baselines.learners.sac", "baselines.learners.actor_critic", "suites.metaworld", "methods.rl_vlm_f")
    assert not groups.keys() & {*others, "harness.playback", "harness.gym", "harness.commands"}
    assert "methods.vlm_rb" not in sources_of("method=uer")


def test_an_edit_is_told_by_the_group_it_lies_in_and_only_where_it_counts(tree: Path) -> None:
    before, uniform = sources_of("method=vlm_rb"), sources_of("method=uer")
    edit(tree / "methods" / "vlm_rb" / "sampler.py", "import numpy as np", "import numpy as np\n\nCHANGED = 1")
    assert sources.differing(before, sources_of("method=vlm_rb")) == ["methods.vlm_rb"]
    assert sources_of("method=uer") == uniform
    # The cell imports these through another module, inside a function.
    edit(tree / "harness" / "loop" / "training.py", "METRICS_EVERY = 1_000", "METRICS_EVERY = 999")
    edit(tree / "harness" / "models" / "backends" / "recipes.toml", "gpt-4o", "gpt-5o")
    changed = ["harness.loop", "harness.models", "methods.vlm_rb"]
    assert sources.differing(before, sources_of("method=vlm_rb")) == changed


def test_words_about_code_change_nothing(tree: Path) -> None:
    before = sources_of("method=vlm_rb")
    training = tree / "harness" / "loop" / "training.py"
    edit(training, '"""Environment steps over which losses', '"""Steps over which losses')
    edit(training, "METRICS_EVERY = 1_000", "# A comment.\n\n\nMETRICS_EVERY = 1_000")
    (tree / "harness" / "unused.py").write_text("raise RuntimeError\n")
    assert sources_of("method=vlm_rb") == before


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("x = 1", "x = 1\n# why", True),
        ('def f():\n    """One."""\n    return 1', 'def f():\n    """Two,\n    lines."""\n    return 1', True),
        ("x = 1", "x = 2", False),
        ("if x:\n    y = 1", "if x:\n        y = 1", False),
        ("x = 'a'", "x = 'a '", False),
        ('x = """a\n# one\n"""', 'x = """a\n# two\n"""', False),
        ("x = 'a\\\n# one'", "x = 'a\\\n# two'", False),
        ('"""Words."""; x = 1', '"""Words."""; x = 2', False),
    ],
)
def test_what_counts_as_a_change_of_code(old: str, new: str, same: bool) -> None:
    digests = [sources._understood(text.encode(), b"").digest for text in (old, new)]
    assert (digests[0] == digests[1]) is same


def test_a_plug_in_s_code_and_version_are_recorded(plugin: Callable[..., Path]) -> None:
    site = plugin("strange_replay", PLUGIN, {"replay": "strange"})
    before = sources_of("method=uer", "replay=strange")
    assert before["package strange_replay"] == "1.0" and "strange_replay" in before
    assert "baselines.replay.uer" in before
    cell, *_ = matrix.plan(["suite=minigrid_doorkey", "method=uer", "replay=strange"]).cells
    assert provenance.provenance("cpu", cell)["packages"]["strange_replay"] == "1.0"
    edit(site / "strange_replay.py", "class Strange(Uer):", "class Strange(Uer):\n    more = 1\n")
    assert sources.differing(before, sources_of("method=uer", "replay=strange")) == ["strange_replay"]


def test_a_run_that_goes_on_by_changed_code_says_so() -> None:
    original = {"commit": "a", "sources": {"harness.loop": "1", "methods.x": "2"}}
    current = {"commit": "b", "sources": {"harness.loop": "1", "methods.x": "3"}}
    assert _continued(original, {**original, "commit": "b"}) == original
    once = _continued(original, current)
    assert once == original | {"continued_by": ["methods.x"]}
    assert _continued(once, original)["continued_by"] == ["methods.x"], "a mixture of sources stays on record"
    assert _continued({"commit": "a"}, current) == {"commit": "a"}


def test_files_that_git_does_not_know_make_a_tree_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    def dirty() -> bool:
        provenance.commit.cache_clear()
        return provenance.commit()[1]

    monkeypatch.setattr(sources, "ROOT", tmp_path)
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "a.py").write_text("a = 1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "a")
    try:
        assert not dirty()
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "study.json").write_text("{}")
        assert not dirty(), "files of a study are not a change of the code"
        (tmp_path / "methods" / "b.py").write_text("b = 1\n")
        assert dirty()
    finally:
        provenance.commit.cache_clear()
