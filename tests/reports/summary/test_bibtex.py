from __future__ import annotations

import pytest

from guidebench.reports.summary.bibtex import entries

TWO = r"""% a comment with { and @
@article{first2020,
  title = {A {B}race, and \{another\}},
  author = {M{\"u}ller, A.},
  year = {2020}
}
@misc{second, title = {T}, }
"""


def test_entries_are_told_apart_with_their_fields() -> None:
    first, second = entries(TWO)
    assert (first.kind, first.key) == ("article", "first2020")
    assert first.fields == {"title": r"A {B}race, and \{another\}", "author": r"M{\"u}ller, A.", "year": "2020"}
    assert first.text.startswith("@article{") and first.text.endswith("{2020}\n}") and second.fields == {"title": "T"}
    assert (
        entries(
            "% nothing to cite\
"
        )
        == entries("")
        == []
    ), "comments alone are no entry"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@misc{a, title = {T}", "not closed"),
        ("@misc{a, title = {T}\n  year = {2020}}", "expected a comma after title"),
        ("@misc{a, title = T}", "expected a field as name = {value}"),
        ("@misc{a, title = {T}, Title = {U}}", "given twice"),
        ("@misc{title = {T}}", "expected an entry"),
        ("Smith, 2020", "expected an entry"),
    ],
)
def test_what_is_no_whole_entry_is_told(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        entries(text)
