"""The list of what `make test-quick` leaves out."""

import ast
from pathlib import Path

from tools.quick import LIST


def test_every_entry_names_a_file_or_a_test_of_one() -> None:
    functions: dict[str, set[str]] = {}
    for entry in LIST.read_text().split():
        file, _, test = entry.partition("::")
        if file not in functions:
            nodes = ast.walk(ast.parse(Path(file).read_text()))
            functions[file] = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        assert not test or test.rpartition("::")[2] in functions[file], entry
