"""Statements are counted as Python's grammar has them, docstrings apart."""

from tools.statements import counts

SOURCE = '''"""Two
lines."""
import os

class Table:
    """One line."""

    rows: int = 0
    """Rows."""

    def __len__(self):
        if self.rows: return 1; pass
        return 0
'''


def test_docstrings_are_lines_and_all_else_is_statements() -> None:
    assert counts(SOURCE) == (8, 4)
