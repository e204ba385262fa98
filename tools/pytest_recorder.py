"""A pytest plug-in that tells the recorder which test is running, or which shared fixture is being set up.

`coverage_map` copies this file beside the recorder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import recorder

recorder.begin()
recorder.runs_tests = os.getpid()
_contexts: list[str] = [""]
"""Stack of recording names: the running test, then the fixtures that are being set up for it."""
_fixtures: dict[Any, str] = {}
"""Definition of a shared fixture -> name of the recording of its last set-up."""
_in_fixtures = 0.0
"""Seconds spent on setting up shared fixtures for the running test."""
_failed: set[str] = set()


def _write(context: str, **about: Any) -> None:
    assert recorder.recorder is not None, "the recorder has not been started"
    recorder.recorder.write(context, **about)


def _enter(context: str) -> None:
    _write(_contexts[-1])
    _contexts.append(context)
    os.environ[recorder.CONTEXT] = context


def _leave(**about: Any) -> None:
    _write(_contexts.pop(), **about)
    os.environ[recorder.CONTEXT] = _contexts[-1]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    global _in_fixtures
    _close_readers()
    _enter(item.nodeid)
    _in_fixtures, began = 0.0, time.monotonic()
    try:
        return (yield)  # type: ignore[misc]
    finally:
        definitions = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        uses = [_fixtures[fixture] for group in definitions for fixture in group if fixture in _fixtures]
        seconds = round(time.monotonic() - began - _in_fixtures, 4)
        _leave(seconds=seconds, fixtures=sorted(uses), failed=item.nodeid in _failed)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[Any]:
    global _in_fixtures
    if fixturedef.scope == "function":
        return (yield)
    _fixtures[fixturedef] = name = f"fixture {os.getpid()}/{len(_fixtures)}/{time.monotonic()} {fixturedef.argname}"
    _enter(name)
    before, began = _in_fixtures, time.monotonic()
    try:
        return (yield)  # type: ignore[misc]
    finally:
        inner, total = _in_fixtures - before, time.monotonic() - began
        _in_fixtures = before + total
        _leave(seconds=round(total - inner, 4))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def _close_readers() -> None:
    """End the process that reads files, so that each test starts its own and is recorded with it."""
    from guidebench.harness import reader_process

    reader_process._SHARED.close()
