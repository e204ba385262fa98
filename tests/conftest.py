"""Fixtures and hooks that several tests share: plug-ins that exist only in a test, and checks for system programs that
a machine may lack."""

import ctypes.util
import gc
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
import textwrap
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

# Before torch is imported: bit-equality holds with one thread, and the tests' processes share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Figures of tests embed no fonts.
os.environ.setdefault("MATPLOTLIBRC", os.path.join(os.path.dirname(__file__), "matplotlibrc"))

import pytest

from guidebench.harness import fork_server, processes, reader_process, registry
from guidebench.harness.machine import cores as processors
from guidebench.suites import mujoco as _guard  # before files of tests import MuJoCo  # noqa: F401
from tests import guardian, scheduling

processes.begin()
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # no warning that the PDF uses other fonts

IMPORTED = (
    "torch", "pandas", "pyarrow.parquet", "guidebench.harness.run.worker", "guidebench.harness.models.service",
    "guidebench.results", "guidebench.harness.commands.run_", "tests.skeletons.killable_training", "tests.preloading",
)  # fmt: skip
"""Modules preloaded in the interpreter from which the tests' processes are forked."""


WAITING = {"chromium", "pdflatex", "transformers_serve", "vllm"}
"""Fixtures that start other programs: tests that use one are marked `waits`."""
COMPILED = ("guidebench.suites.bin_sorting.dynamics", "guidebench.suites.ogbench_scene.dynamics")
"""Modules that cache a compiled MuJoCo model of 200 to 400 MB, which takes a second to compile again."""
LARGE = 1200 * 2**20
"""Bytes of a process above which the cached models are dropped after a file of tests."""
GROWTH = 100 * 2**20
"""Bytes by which a process must have grown since its last garbage collection before the next one."""
RUN: dict[str, Any] = {}
"""In the first process of a test run: its id, its guardian, and the directory of its notes. In each process: its
resident memory after its last garbage collection."""


def pytest_configure(config: pytest.Config) -> None:
    """Give the run an id and a guardian, so that every process the run starts ends with it, even if the run is
    killed."""
    if not hasattr(config, "workerinput"):
        RUN["id"] = f"run-{uuid.uuid4().hex}"
        RUN["guardian"] = guardian.watch(RUN["id"])
        RUN["notes"] = Path(tempfile.mkdtemp(prefix="guidebench-tests-"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if processes of tests are still running when all workers have ended. Without workers, some processes
    end with this one, and the guardian ends the others then."""
    if "guardian" in RUN:
        orphans = guardian.end(RUN["id"], guardian.PATIENCE) if session.config.getoption("numprocesses", None) else []
        RUN["guardian"].stdin.close()
        RUN["guardian"].wait()
        shutil.rmtree(RUN["notes"])
        for command in orphans:
            print(f"\nleft by the tests, and ended: {' '.join(command.split())[:300]}", flush=True)
        if orphans and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: one for each core, and one for tests that wait."""
    return processors() + 1


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[scheduling.NOTE] = str(RUN["notes"] / scheduling.NOTE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Return a scheduler that gives a worker a whole file at a time, so that shared fixtures are made once, unless
    `--dist` says otherwise."""
    if config.getvalue("dist") in ("load", "loadfile"):
        return scheduling.Scheduling(config, log, RUN["notes"] / scheduling.NOTE)
    return None


def pytest_collection_finish() -> None:
    """Exclude all imported objects from later garbage collections."""
    gc.freeze()


def includes_rehearsals(config: pytest.Config) -> bool:
    """Return whether `-m` says which of the tests marked `release` run."""
    return "release" in config.option.markexpr


def is_named(config: pytest.Config, item: pytest.Item) -> bool:
    """Return whether the command names this test, by FILE::TEST."""
    test = item.nodeid.partition("::")[2]
    for word in config.args:
        file, _, name = word.partition("::")
        if name and (test == name or test.startswith((f"{name}[", f"{name}::"))):
            return (config.invocation_params.dir / file).resolve() == item.path.resolve()
    return False


def pytest_report_header(config: pytest.Config) -> str | None:
    return None if includes_rehearsals(config) else "left out: tests marked release; -m release or FILE::TEST runs them"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out rehearsals that the command does not name. Put files with slow tests and rehearsals first, so that no
    process begins a long one when the others are about to end, and tests that any process may run last."""
    if not includes_rehearsals(config):
        rehearsals = {item for item in items if item.get_closest_marker("release") and not is_named(config, item)}
        config.hook.pytest_deselected(items=[*rehearsals])
        items[:] = [item for item in items if item not in rehearsals]
    for item in items:
        if not WAITING.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("waits")
    slow = Counter(item.path for item in items if any(map(item.get_closest_marker, ("slow", "release"))))
    items.sort(key=lambda item: (item.get_closest_marker("alone") is not None, -slow[item.path]))
    if hasattr(config, "workerinput"):
        scheduling.note(config, items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `gpu` where there is no GPU."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves another working directory to the next one, and restore the directory."""
    yield
    home, directory = item.config.invocation_params.dir, Path(os.path.realpath("."))
    if directory != home.resolve():
        os.chdir(home)
        pytest.fail(f"the test left {directory} as the working directory: use monkeypatch.chdir", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Set and return the directory of files that are made once, such as demonstrations: new for each session, shared by
    its processes."""
    base = tmp_path_factory.getbasetemp()
    os.environ["GUIDEBENCH_CACHE"] = str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache")
    return Path(os.environ["GUIDEBENCH_CACHE"])


@pytest.fixture(scope="session", autouse=True)
def forking() -> Iterator[None]:
    """Fork the processes that tests, or the program under test, start from one preloaded interpreter."""
    with fork_server.running(*IMPORTED):
        yield
    reader_process.close()


@pytest.fixture(scope="module", autouse=True)
def freed() -> Iterator[None]:
    """Release memory after a file of tests if the process has grown: a worker, which tests run in this process, tells
    the C library to keep it for its next update. A garbage collection takes as long as ten unit tests, so it is not
    made after every file."""
    yield
    if resident() >= RUN.get("resident", 0) + GROWTH:
        for name in COMPILED if resident() > LARGE else ():
            if name in sys.modules:
                sys.modules[name]._compiled.cache_clear()
        free()
        RUN["resident"] = resident()


def resident() -> float:
    """Return this process's resident memory in bytes; infinity where the system does not report it."""
    if sys.platform != "linux":
        return float("inf")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free() -> None:
    """Collect garbage and return unused memory to the system."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Replace `os.fsync` by nothing: no test cuts the power, and runs are written in thousands of synced steps."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let estimates rest on operation counts alone, so that no test but those of timing waits for updates to be
    timed."""
    from guidebench.harness.run.estimates import jobs

    monkeypatch.setattr(jobs, "SECONDS", 0.0)


@pytest.fixture
def opengl(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Choose the OpenGL backend for tests that draw frames with MuJoCo, or skip the test without one; other packages
    draw with the same. Drawing takes hundreds of megabytes, which are freed afterwards."""
    from guidebench.harness.errors import UserError
    from guidebench.suites.mujoco import gl

    try:
        monkeypatch.setenv("MUJOCO_GL", gl.backend())
    except UserError as error:
        skip_or_fail(str(error))
    yield
    free()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`plugin("my_module", source, {"judge": "crash"})` installs a distribution with entry points for this test, in
    this process and in those it starts. A package is given as its files, name -> source; an entry point to another
    module of it as "section": "places = my_package.report"."""
    site = tmp_path / "site"

    def install(module: str, source: str | Mapping[str, str], registers: Mapping[str, str]) -> Path:
        files = {f"{module}.py": source} if isinstance(source, str) else {f"{module}/{n}": s for n, s in source.items()}
        for name, text in files.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(textwrap.dedent(text))
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        entry_points = {kind: name if "=" in name else f"{name} = {module}" for kind, name in registers.items()}
        lines = [f"[guidebench.{kind}s]\n{entry_point}\n" for kind, entry_point in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        if str(site) not in sys.path:
            monkeypatch.syspath_prepend(str(site))
            monkeypatch.setenv(
                "PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
            )
        return site

    with registry.fresh():
        reader_process.close()  # its process may have registered another part under this test's names
        yield install  # type: ignore[misc]
    reader_process.close()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(site)):
            del sys.modules[name]


def skip_or_fail(message: str) -> NoReturn:
    """Skip a test that lacks something, which the message names; fail where CI has promised it."""
    if os.environ.get("CI_REQUIRES_SYSTEM"):
        pytest.fail(message)
    pytest.skip(message)


def require(package: str) -> None:
    """Skip a file of tests if a Python package is not installed, without importing it during collection; fail where CI
    has promised the package."""
    if importlib.util.find_spec(package) is None:
        if os.environ.get("CI_REQUIRES_SYSTEM"):
            raise ModuleNotFoundError(f"{package} is not installed, and the extra 'dev' has it")
        pytest.skip(f"{package} is not installed", allow_module_level=True)


def need(program: str, package: str, library: bool = False) -> None:
    """Skip a test if a system program, or a shared library, is missing, and name its system package; fail where CI has
    promised it."""
    if (ctypes.util.find_library(program) if library else shutil.which(program)) is None:
        skip_or_fail(f"{program} is missing; install {package}")


def trainer(directory: Path) -> Callable[..., Path]:
    """Return the function of the fixture `train`; it makes its studies below `directory`."""
    import itertools

    from guidebench.harness.identity.cells import record, write_cell
    from guidebench.harness.loop.job import Job
    from guidebench.harness.plan import matrix
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run import study
    from guidebench.harness.run.worker import work
    from guidebench.harness.settings import show

    count, parent = itertools.count(), directory

    def run(*overrides: str, packs: list[tuple[int, ...]], directory: Path | None = None, stop=None, **job) -> Path:
        output = directory or parent / f"study-{next(count)}"
        home = [] if any(text.startswith("suite=") for text in overrides) else ["suite=minigrid_doorkey"]
        models = [f"models.{name}={show(value)}" for name, value in job.get("models", {}).items()]
        profile = [] if any(text.startswith("profile=") for text in overrides) else ["profile=smoke"]
        plan = matrix.plan([*home, *profile, *overrides, *models, f"output={output}"])
        directory_of = StudyDirectory(study.directory_of(plan))
        cells = {c.id: {"directory": c.directory, "seeds": list(plan.seeds), "label_variant": ""} for c in plan.trained}
        directory_of.write(plan.name, [], cells)
        for cell in plan.trained:
            write_cell(directory_of, cell)
            for seeds in packs:
                work(
                    Job(study=plan.name, directory=str(output), cell=record(cell), seeds=seeds, **job),
                    lambda event: None,
                    stop or (lambda: False),
                )
        return output

    return run


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Path]:
    """`train("method=per", "seeds=[0,2]", packs=[(0, 2)])` trains on 5x5, or on the given `suite=` and `task=`, in this
    process, one pack after the other, and returns the study's directory."""
    return trainer(tmp_path)


@pytest.fixture(scope="module")
def train_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`train` for studies that several tests of a file share and only read."""
    return trainer(tmp_path_factory.mktemp("once"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny("clip")` returns the directory of the model that `tiny_models.clip` writes, once per session; tests only
    read it."""
    pytest.importorskip("transformers")
    from tests.harness.models import tiny_models

    base = tmp_path_factory.mktemp("tiny")

    def model(name: str, **settings: object) -> Path:
        marked = "-".join([name, *(f"{key}={value}" for key, value in settings.items())])
        return getattr(tiny_models, name)(base / marked, **settings)  # type: ignore[no-any-return]

    return model
