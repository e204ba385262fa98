"""The pictures of the documentation are those of the code."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from docs.generated import pictures
from docs.generated.pictures import Call, Folder

AGAIN = "write it anew with: python -m docs.generated.pictures"
IMPORTS = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset(), "d": frozenset("c")}
"""a imports b and c, b and d import c."""


def test_an_arrow_leads_to_the_nearest_of_what_is_imported() -> None:
    assert pictures.nearest({name: frozenset(imported) for name, imported in IMPORTS.items()}) == {
        "a": {"b"}, "b": {"c"}, "c": set(), "d": {"c"}
    }  # fmt: skip
    assert pictures.levels(IMPORTS) == {"a": 2, "b": 1, "c": 0, "d": 1}


def test_imports_are_found_in_either_form_and_within_functions(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import guidebench.x.y\nfrom guidebench import z\nimport os\ndef f():\n    from guidebench.w import v\n"
    )
    assert pictures._imports(module) == {"x", "z", "w"}


def test_every_folder_has_a_box_above_what_it_imports() -> None:
    folders = {name: Folder(name, f"What {name} is", (), imported) for name, imported in IMPORTS.items()}
    root = ElementTree.fromstring(pictures.draw_folders(folders))
    texts = {element.text: float(element.get("y", 0)) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert texts["a/"] < texts["b/"] == texts["d/"] < texts["c/"]
    assert len([element for element in root.iter("{http://www.w3.org/2000/svg}path") if element.get("marker-end")]) == 3


def test_calls_lead_downwards_from_column_to_column() -> None:
    picture = pictures.draw_transition(
        [Call("Loop", "Agent", "act"), Call("Agent", "Loop", "ask")], {"Loop": "Loop", "Agent": "StandardAgent"}
    )
    # Two columns of 500: Loop in the middle of the first, Agent in that of the second; a row is 24 high.
    assert "M250,82 L750,82" in picture and "M750,106 L250,106" in picture and "StandardAgent" in picture


def test_the_picture_of_folders_is_that_of_the_tree() -> None:
    picture = pictures.draw_folders(pictures.read_folders())
    assert (pictures.DOCS / "folders.svg").read_text(encoding="utf-8") == picture, AGAIN


@pytest.mark.slow
def test_the_picture_of_a_transition_is_that_of_a_run() -> None:
    calls, classes = pictures.trace_step()
    order = [Call("Loop", "Task", "step"), Call("Experience", "Store", "append"), Call("Loop", "Asks", "submit")]
    order += [Call("Experience", "Sampler", "scored"), Call("Experience", "Store", "gather")]
    order += [Call("Agent", "Learner", "update"), Call("Experience", "Sampler", "feedback")]
    assert [call for call in calls if call in order] == order
    picture = pictures.draw_transition(calls, classes)
    assert (pictures.DOCS / "transition.svg").read_text(encoding="utf-8") == picture, AGAIN
