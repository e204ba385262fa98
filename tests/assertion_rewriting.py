"""Compile the test modules as pytest does, with its rewritten assertions, once for all its processes.

    python -m tests.assertion_rewriting

Rewriting takes half of the time in which tests are collected. Each process of pytest would do it anew in a fresh clone,
and at every start where PYTHONDONTWRITEBYTECODE is set. What is written is where pytest looks for it.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

from _pytest.assertion import rewrite

HOME = Path(__file__).parent


def compile_(path: Path) -> bool:
    """Write the bytecode of a test module unless it is up to date; return whether it was written."""
    directory = rewrite.get_cache_dir(path)
    target = directory / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, target) is not None:
        return False
    status, code = rewrite._rewrite_test(path, SimpleNamespace(getini=lambda name: False))
    rewrite.try_makedirs(directory)
    return bool(rewrite._write_pyc(SimpleNamespace(trace=lambda text: None), code, status, target))


def main() -> None:
    modules = [path for path in HOME.rglob("*.py") if path.stem == "conftest" or path.stem.startswith("test_")]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        count = sum(pool.map(compile_, modules, chunksize=16))
    print(f"{count} of {len(modules)} test modules compiled")


if __name__ == "__main__":
    main()
