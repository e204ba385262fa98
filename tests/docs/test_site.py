"""Pages have what they must and links that lead somewhere; the whole site builds strictly, from this checkout alone."""

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.generated import hooks, markdown, measured
from guidebench.harness import registry, settings
from guidebench.harness.commands import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    """Return address -> Markdown of every page of the site. Those of measured studies, which take half a minute to
    compute, are empty: the site's build checks them, and `test_measured.py` their contents."""
    files = {path.relative_to(ROOT / "docs").as_posix(): path.read_text() for path in (ROOT / "docs").rglob("*.md")}
    empty = {address.partition("#")[0]: "" for address in measured.addresses().values()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measured, "pages", lambda: empty)
        return hooks.pages.__wrapped__() | files


def test_every_relative_link_leads_to_a_page_or_a_file(pages: Mapping[str, str]) -> None:
    """The build of the site checks anchors, too."""
    dead = []
    for address, page in pages.items():
        text = re.sub(r"^ *```.*?^ *```|`[^`]*`", "", hooks.relink(page, address), flags=re.MULTILINE | re.DOTALL)
        for _, target in hooks.LINK.findall(text):
            path = target.partition("#")[0]
            place = posixpath.normpath(posixpath.join(posixpath.dirname(address), path))
            if path and ":" not in path and place not in pages and not (ROOT / "docs" / place).exists():
                dead.append(f"{address}: {target}")
    assert len(pages) > 40 and not dead


def build(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(target), *options]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    process = build(target)
    assert process.returncode == 0, process.stdout + process.stderr
    return target


class Fetched(HTMLParser):
    """Collects the addresses that a browser fetches for a page: scripts, styles, pictures, fonts and frames, but no
    links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        attributes_ = dict(attributes)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(attributes_.get("src") or "")
        elif tag == "link" and attributes_.get("rel") != "canonical":
            self.addresses.append(attributes_.get("href") or "")


@pytest.mark.release
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    fetched = {address for page in pages for address in Fetched(page.read_text()).addresses}
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert len(pages) > 40 and any("bundle" in address for address in fetched)
    assert not [address for address in fetched if re.match(r"(https?:)?//", address)]
    assert not re.findall(r"url\(['\"]?(?:https?:)?//", styles)


@pytest.mark.release
def test_no_block_is_left_as_text(site: Path) -> None:
    """A fence with unknown options, or a table or list right below a paragraph, would become part of a paragraph."""
    for page in site.rglob("*.html"):
        paragraphs = re.findall(r"<p>(.*?)</p>", page.read_text(), re.DOTALL)
        unparsed = [
            paragraph for paragraph in paragraphs if re.search(r"```|\n\s*[-*] |^\|? *---", paragraph, re.MULTILINE)
        ]
        assert not unparsed, f"{page.name}: {unparsed}"


def test_every_setting_of_every_part_has_a_row(pages: Mapping[str, str]) -> None:
    for kind in registry.KINDS:
        page = pages[f"reference/settings/{kind}.md"]
        for name in registry.names(kind):
            heading = f"## `{name}` {{: #{name} }}\n"
            assert heading in page, f"{kind} {name}"
            section = page.split(heading)[1].split("\n## ")[0]
            fields = settings.fields(registry.get(kind, name)) if kind != "method" else {}
            missing = [field for field in fields if f"\n| `{field}` |" not in section]
            assert not missing, f"{kind} {name}: {missing}"


def test_every_command_and_option_is_on_the_page_of_commands(pages: Mapping[str, str]) -> None:
    page = pages["reference/commands.md"]
    assert {"bench", "bench run", "bench report", "bench models prompt"} <= cli.helps(100).keys()
    for name in cli.helps(100):
        assert f"## `{name}`\n" in page
    assert "--stand-in" in page and "--dry-run" in page


def test_the_public_face_is_documented(pages: Mapping[str, str]) -> None:
    import guidebench

    page = pages["reference/python.md"]
    assert all(f"::: guidebench.{name}\n" in page for name in guidebench.__all__)


@pytest.mark.release
def test_directives_become_docstrings(site: Path) -> None:
    import guidebench

    page = (site / "reference/python.html").read_text()
    assert all(f'id="guidebench.{name}"' in page for name in guidebench.__all__)
    assert "<td><code>pack</code></td>" in (site / "reference/settings/run.html").read_text()


@pytest.mark.release
def test_a_link_to_nothing_ends_the_build(tmp_path: Path) -> None:
    """Only two pages of the documentation are built."""
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "models.md", docs)
    (docs / "judges.md").write_text("# Judges\n\n[a](nowhere.md) [b](models.md#nowhere) [c](../nowhere.md)\n")
    text = (ROOT / "mkdocs.yml").read_text().replace("docs_dir: docs", f"docs_dir: {docs}")
    text = re.sub(r"^nav:\n(?:[ -].*\n|\n)+", "", text, flags=re.MULTILINE)
    config = tmp_path / "mkdocs.yml"
    hooks = tmp_path / "hooks.py"
    hooks.write_text("from docs.generated.hooks import on_page_markdown\n")  # and no generated pages
    config.write_text(text.replace("- docs/generated/hooks.py", f"- {hooks}").replace("[.]", f"[{ROOT}]"))
    process = build(tmp_path / "site", "--config-file", str(config))
    messages = [line for line in process.stderr.splitlines() if "judges.md" in line and "nowhere" in line]
    assert process.returncode != 0 and len(messages) == 3, process.stderr


def test_links_between_files_become_links_between_pages() -> None:
    assert hooks.relink("[a](docs/models.md#x), [b](LICENSE)", "index.md") == "[a](models.md#x), b"
    assert hooks.relink("[a](../../CONTRIBUTING.md)", "methods/per.md") == "[a](../contributing.md)"
    assert hooks.relink("[a](../../docs/methods/per.md)", "measured/index.md") == "[a](../methods/per.md)"
    assert hooks.relink("[a](results/measured)", "index.md") == "[a](measured/index.md)"
    study = "[a](../../results/measured/doorkey_8x8/README.md)"
    assert hooks.relink(study, "methods/per.md") == "[a](../measured/minigrid_doorkey.md#doorkey_8x8)"
    assert hooks.relink("[a](#b) [c](https://example.org/d)", "index.md") == "[a](#b) [c](https://example.org/d)"
    assert hooks.relink("[a](results/nowhere)", "index.md") == "[a](results/nowhere)"


def test_words_of_docstrings_stay_words_in_a_table() -> None:
    assert markdown.text("a [b](c) *d* | `e*|f`\n g") == "a \\[b\\](c) \\*d\\* \\| `e*\\|f` g"
    assert markdown.code("") == "" and markdown.code("a|b") == "`a\\|b`"
    assert markdown.table(("x", "y"), []) == ""
    assert markdown.table(("x", "y"), [("1", "2")]) == "\n| x | y |\n| --- | --- |\n| 1 | 2 |\n\n"
