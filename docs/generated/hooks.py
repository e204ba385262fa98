"""Hooks that mkdocs calls as it builds the site: they add generated pages, and turn links between the repository's
files into links between pages. Run mkdocs as `python -m mkdocs` at the root of the repository, as `make docs` does."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generated import api, commands, measured, papers, settings

ROOT = Path(__file__).parents[2]
COPIED = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "measured/index.md": "results/measured/README.md",
}
"""Address -> repository file outside `docs` that becomes a page."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


@functools.cache
def pages() -> Mapping[str, str]:
    """Return address -> Markdown of every page that is not a file in `docs`."""
    copied = {address: (ROOT / source).read_text(encoding="utf-8") for address, source in COPIED.items()}
    return papers.pages() | copied | measured.pages() | settings.pages() | commands.pages() | api.pages()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add generated pages to the navigation of mkdocs, in the order in which they are generated."""
    for section_of_nav in config.nav or ():
        (title, children), *_ = section_of_nav.items()
        if children == []:
            section = [address for address in pages() if address.startswith(f"{title.lower()}/")]
            plain: list[Any] = [address for address in section if address.count("/") == 1]
            nested = [address for address in section if address.count("/") > 1]
            section_of_nav[title] = [*plain, *([{"Settings": nested}] if nested else [])]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for address, content in pages().items():
        files.append(File.generated(config, address, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return relink(markdown, page.file.src_uri)


def relink(markdown: str, address: str) -> str:
    """Return a page's Markdown with links to repository files replaced: by links to the pages that show these files or,
    where there is none, by the link's text. A link to a missing file stays, so that the build fails on it."""
    source_path = COPIED.get(address, f"docs/{address}")
    pages_of = {source: page for page, source in COPIED.items()} | measured.addresses()
    pages_of["results/measured"] = "measured/index.md"

    def replaced(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return link[0]
        file = os.path.normpath(os.path.join(os.path.dirname(source_path), path))
        page = pages_of.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else "")
        if page:
            to = os.path.relpath(page, os.path.dirname(address) or ".")
            return f"[{words}]({to}{'#' + anchor if anchor and '#' not in to else ''})"
        return words if (ROOT / file).exists() else link[0]

    return LINK.sub(replaced, markdown)
