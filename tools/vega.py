"""Make `reports/rendering/templates/vega.js.gz` anew: the program that draws the charts of pages.

    pip install vl-convert-python==1.9.0    # in an environment of its own; the project does not depend on it
    python -m tools.vega

The file is committed, so that a report needs no package for it. After a new version, run the tests of pages in a
browser, and bring `vega.LICENSE` up to date.
"""

from __future__ import annotations

import gzip
from pathlib import Path

FILE = Path(__file__).parents[1] / "reports" / "rendering" / "templates" / "vega.js.gz"


def main() -> None:
    import vl_convert

    # The function scope keeps the bundle's top-level names out of the page.
    script = f"(() => {{\n{vl_convert.javascript_bundle()}\n}})();"
    FILE.write_bytes(gzip.compress(script.encode(), compresslevel=9, mtime=0))
    print(f"{FILE}: Vega {vl_convert.get_vega_version()}, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
