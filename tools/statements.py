"""Count statements and lines of docstrings by folder: `python -m tools.statements [FOLDER…]`.

A statement is what Python's grammar calls one, compound ones counting themselves and what is in them; docstrings are
not counted as statements. Without an argument the folders of the package and the tests are counted.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

from tools.names import PACKAGE, python_files

DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def counts(source: str) -> tuple[int, int]:
    """Return the statements of a module and the lines of its docstrings.

    A string below a field of a class counts as a docstring, as it does for the pages made from the code.
    """
    statements, lines = 0, 0
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines += (node.end_lineno or node.lineno) - node.lineno + 1
            case _:
                statements += 1
    return statements, lines


def main(folders: list[str]) -> int:
    """Print a table of the folders and of the folders in them."""
    root = Path(__file__).resolve().parents[1]
    chosen = tuple(folders) or (*PACKAGE, "tests")
    statements: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in python_files(root, chosen):
        code, prose = counts(path.read_text(encoding="utf-8"))
        parts = path.relative_to(root).parts
        for name in {parts[0], "/".join(parts[:2]) if len(parts) > 2 else parts[0]}:
            statements[name] += code
            lines[name] += prose
    print(f"{'folder':32} {'statements':>10} {'docstring lines':>15}")
    for name in sorted(statements):
        print(f"{name:32} {statements[name]:10,} {lines[name]:15,}")
    if not folders:
        print(
            f"{'package':32} {sum(statements[name] for name in PACKAGE):10,} {sum(lines[name] for name in PACKAGE):15,}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
