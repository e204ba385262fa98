"""Push and pull submissions in a dataset repository of the Hugging Face Hub, with its official client.

The client's own settings choose token and server: `hf auth login` or HF_TOKEN, and HF_ENDPOINT. Pulled archives are
untrusted.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guidebench.harness import extras
from guidebench.harness.errors import UserError
from guidebench.results.submissions import schemas
from guidebench.results.submissions.opening import SUBMISSIONS, add, unpacked
from guidebench.results.submissions.strict import printable

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
ARCHIVE = re.compile(r"(?:[\w-]{1,100}/){0,4}[\w-]{1,100}\.zip", re.ASCII)
MOST_LISTED = 20_000
MOST_PULLED = 1_000
LARGEST_PULL = 20 * 2**30
"""Maximum total size, in bytes, of the archives pulled from one repository."""
TYPE = "dataset"


@dataclass(frozen=True)
class Pulled:
    """Outcome of pulling the archives of a repository."""

    added: tuple[Path, ...]
    """Directories of the submissions, including those that existed before"""
    refused: tuple[tuple[str, str], ...]
    """(path in the repository, reason)."""


def ready(repo: str) -> None:
    """Raise UserError if the client is missing or `repo` is not OWNER/NAME; send no request."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise extras.missing("the Hugging Face Hub needs the package huggingface_hub", "hub")
    if not REPOSITORY.fullmatch(repo):
        raise UserError(f"{printable(repo)!r} is no dataset repository; expected OWNER/NAME, as in reader/doorkey")


def push(file: Path, repo: str) -> str:
    """Upload a checked archive as submissions/NAME-DIGEST8.zip and return its address. A missing repository is created
    as private; its owner can make it public."""
    ready(repo)
    with warnings.catch_warnings(), unpacked(file) as submission:
        name = submission.manifest.directory
    with _faults_of(repo) as api:
        api.create_repo(repo, repo_type=TYPE, private=True, exist_ok=True)
        commit_info = api.upload_file(
            path_or_fileobj=file,
            path_in_repo=f"{SUBMISSIONS}/{name}.zip",
            repo_id=repo,
            repo_type=TYPE,
            commit_message=f"Submission {name}",
        )
    return str(getattr(commit_info, "commit_url", commit_info))


def pull(repo: str, directory: Path) -> Pulled:
    """Add every archive of a repository to `directory`, as `add` does, and report the rejected ones.

    Raises UserError if the repository cannot be read.
    """
    ready(repo)
    with _faults_of(repo) as api:
        commit = api.repo_info(repo, repo_type=TYPE).sha
        tree = api.list_repo_tree(repo, recursive=True, revision=commit, repo_type=TYPE)
        listed = list(itertools.islice(tree, MOST_LISTED + 1))
    archives = {
        str(repo_file.path): int(getattr(repo_file, "size", 0))
        for repo_file in listed
        if repo_file.path.endswith(".zip")
    }
    added, refused, remaining = [], [], LARGEST_PULL
    if len(listed) > MOST_LISTED:
        refused.append((repo, f"it has more than {MOST_LISTED:,} files; the others are not looked at"))
    for number, (path, size) in enumerate(sorted(archives.items())):
        if not ARCHIVE.fullmatch(path):
            refused.append((printable(path), "its name is none that `bench submit --push` gives"))
        elif number >= MOST_PULLED or size > min(remaining, schemas.LARGEST):
            refused.append((path, f"with its {size:,} bytes the archives here are more than are looked at in one go"))
        else:
            remaining -= size
            with tempfile.TemporaryDirectory(prefix="guidebench-") as scratch:
                try:
                    with _faults_of(repo) as api:
                        file = api.hf_hub_download(
                            repo, path, repo_type=TYPE, revision=commit, local_dir=scratch, tqdm_class=_bounded(size)
                        )
                    added.append(add(Path(file), directory))
                except UserError as error:
                    refused.append((path, str(error).replace(f"{scratch}/", "")))
    return Pulled(tuple(added), tuple(refused))


def _bounded(size: int) -> Any:
    """Return a progress bar class for the client that aborts a download beyond the announced size."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bounded(tqdm):
        got = 0.0

        def update(self, n: float | None = 1) -> bool | None:
            self.got += n or 0
            if self.got > size:
                raise UserError(f"the server sends more than the {size:,} bytes that it announced")
            return bool(super().update(n))

    return Bounded


@contextmanager
def _faults_of(repo: str) -> Iterator[Any]:
    """Yield the Hub's client; turn every error that it raises in the context into a UserError that names the remedy."""
    from huggingface_hub import HfApi

    try:
        yield HfApi(library_name="guidebench")
    except UserError:
        raise
    except Exception as error:  # the client and its libraries have dozens of error classes
        message = printable(str(error).strip().splitlines()[0]) if str(error).strip() else type(error).__name__
        raise UserError(
            f"the Hub does not serve {repo} ({message}); check the name, your login (`hf auth login`, or HF_TOKEN) "
            f"and, for another server, HF_ENDPOINT"
        ) from None
