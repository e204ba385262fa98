"""What is shipped works outside the tree, who may import whom is kept, and no file speaks of one machine."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("harness", "suites", "baselines", "methods", "results", "reports")


def tracked() -> list[Path]:
    """Return the files that git tracks or would add, relative to the project's root."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    command = ["git", "-C", str(ROOT), "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the tree; return its path."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name, follow_symlinks=False)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new environment into which the wheel is installed, without network. It sees the packages of this one,
    but not this project: the `.pth` file of an editable install counts in its own environment alone."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    present = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(present))
    options = ["--no-deps", "--no-index", "--ignore-installed", "--disable-pip-version-check", "--quiet"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(directory / "bin" / "python"),
        "install",
        *options,
        str(wheel),
    ]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr
    return directory


@pytest.fixture
def outside(environment: Path, tmp_path: Path) -> Callable[..., str]:
    """`outside("bench", "list")` runs a program of the new environment in an empty directory and returns its output."""
    variables = {name: setting for name, setting in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(program: str, *words: str) -> str:
        command = [str(environment / "bin" / program), *words]
        process = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=240)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    return run


@pytest.mark.release
def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"guidebench"}
    assert not [name for name in names if re.search(r"(^|/)(tests?|tools|benchmarks|docs)/|__pycache__|\.pyc$", name)]
    templates = {
        f"guidebench/{path}" for path in tracked()
        if path.parts[:3] in (("harness", "commands", "templates"), ("reports", "rendering", "templates"))
    }  # fmt: skip
    assert len(templates) >= 6 and templates <= set(names)
    assert {"guidebench/py.typed", "guidebench/harness/models/backends/recipes.toml"} <= set(names)
    sources = {f"guidebench/{path}" for path in tracked() if path.parts[0] in PACKAGES and path.suffix == ".py"}
    assert sources <= set(names)
    published = {f"guidebench/{path}" for path in tracked() if path.match("results/published/*.csv")}
    assert len(published) == 10 and published <= set(names)
    # Of the measured studies, exactly the files that a comparison with them reads.
    read = {"study.json", "claims.json", "cell.json", "run.json", "evaluations.parquet"}
    measured = {name for name in names if name.startswith("guidebench/results/measured/")}
    assert {Path(name).name for name in measured} | {"claims.json"} == read
    tracked_data = {path for path in tracked() if path.parts[:2] == ("results", "measured") and path.name in read}
    assert measured == {f"guidebench/{path}" for path in tracked_data}


@pytest.mark.release
def test_the_installed_wheel_lists_trains_and_reports_in_an_empty_environment(
    environment: Path, outside: Callable[..., str], tmp_path: Path
) -> None:
    program = (
        "import guidebench; from guidebench import reports; print(guidebench.__file__, reports.__file__, sep='\\n')"
    )
    for file in outside("python", "-c", program).splitlines():
        assert Path(file).is_relative_to(environment), "the editable install must not win"
    names = json.loads(outside("bench", "list", "--json"))
    assert {"uer", "per", "vlm_rb"} <= set(names["method"])
    command = ("run", "suite=minigrid_doorkey", "method=vlm_rb", "profile=smoke", "seeds=1", "output=study")
    out = outside("bench", *command)
    assert "1 finished" in out and "vlm_rb · sprite · smoke" in out
    assert (tmp_path / "study" / "report" / "report.html").exists()
    run = json.loads(next(tmp_path.glob("study/*/*/vlm_rb-*/seed-0/run.json")).read_text())
    # Written by a worker, which therefore ran what was installed: the tree would have named its commit.
    assert run["provenance"]["commit"].startswith("guidebench ")


@pytest.mark.release
def test_the_installed_wheel_compares_with_what_was_measured(
    environment: Path, outside: Callable[..., str], tmp_path: Path
) -> None:
    out = outside("bench", "compare", "measured", "--task", "5x5", "--method", "uer,per", "--json")
    (table,) = json.loads(out)["tables"]
    assert table["reference"]["studies"] == ["measured/doorkey_5x5"] and table["rows"][0]["difference"] is not None
    assert Path(table["reference"]["runs"][0]).is_relative_to(environment), "the editable install must not win"
    assert (tmp_path / "comparison" / "table.tex").is_file()


@pytest.mark.release
def test_the_installed_wheel_writes_a_method_s_skeleton(outside: Callable[..., str], tmp_path: Path) -> None:
    out = outside("python", "-m", "guidebench", "new", "replay", "my_replay")
    assert "pip install -e my_replay" in out
    assert (tmp_path / "my_replay" / "guidebench_my_replay" / "sampler.py").exists()
    assert "$" not in (tmp_path / "my_replay" / "pyproject.toml").read_text()


def test_who_may_import_whom_is_kept() -> None:
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or shutil.which("lint-imports")
    assert program is not None, "import-linter is missing; pip install -e '.[dev]'"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [program, "--no-cache"]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    assert re.search(r"Contracts: [6-9] kept, 0 broken", process.stdout)


FORBIDDEN = {
    "a package registry's address": "pypi" + r"\.org|python" + r"hosted\.org|download\.py" + r"torch\.org",
    "a path of one machine": r"(?<![\w.*}-])/(?:wo" + r"rk|ro" + r"ot|ho" + "me)/",
}


def contents() -> Iterator[tuple[Path, str]]:
    for name in tracked():
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_bytes().decode(errors="replace")


@pytest.mark.parametrize("secret", FORBIDDEN)
def test_no_file_names(secret: str) -> None:
    pattern = re.compile(FORBIDDEN[secret])
    matches = [f"{name}: {match.group()}" for name, text in contents() for match in pattern.finditer(text)]
    assert matches == []


def test_pinned_versions_have_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line.strip() and not line.startswith("#")]
    assert pins and all(re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.+!-]+( *;.*)?", line.strip()) for line in pins)
