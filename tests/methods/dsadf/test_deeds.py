"""What the steps of a plan can be, on a suite whose deeds are its actions and on one where they are not."""

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.methods.dsadf import prompts
from guidebench.methods.dsadf.deeds import Deeds, done
from guidebench.methods.dsadf.plans import Vocabulary

ROOM = registry.get("suite", "housekeep")(observation="text")


def test_on_crafter_a_deed_is_an_action_that_the_mask_admits() -> None:
    suite = registry.get("suite", "crafter_ood")(observation="text", impossible="masked")
    deeds = Deeds(suite, "wood_sword")
    assert deeds.names == deeds.listed == suite.action_names("wood_sword") and not (deeds.others or deeds.things)
    seen = np.zeros(2, suite.spaces("wood_sword")[0].numpy)
    chop, eat = (deeds.names.index(name) for name in ("chop tree", "eat cow"))
    seen["admissible"][0, [chop, eat]] = 1
    first, second = deeds.possible(seen)
    assert first == {"chop tree": chop, "eat cow": eat} and done(chop, first) == ["chop tree"] and not done(0, first)
    assert len(second) == len(deeds.names), "a mask that admits nothing is none"
    assert deeds.shows_possible and deeds.effects(first) == {}
    deeds = Deeds(registry.get("suite", "crafter_ood")(observation="text"), "wood_sword")
    (found,) = deeds.possible(np.zeros(1))
    assert [*found] == [*deeds.names] and [*found.values()] == [*range(len(found))] and not deeds.shows_possible, (
        "no mask"
    )


def test_in_a_room_one_action_does_what_the_observation_shows() -> None:
    deeds, task = Deeds(ROOM, "adjustment_2"), ROOM.make("adjustment_2")
    observation = task.reset(3)
    for _ in range(400):
        (possible,) = deeds.possible(observation[None])
        observation = task.step(action := task.expert()).observation
        if task.caption():
            break
    assert done(action, possible) == [task.caption()] and not done(0, possible)
    assert deeds.effects(possible) == {"grab or release": task.caption()}
    assert deeds.others and deeds.shows_possible and {"mug", "top cabinet"} < deeds.things


@pytest.mark.parametrize(
    ("phrase", "name"),
    [
        ("Put the salt shaker into the top cabinet", "put salt shaker on top cabinet"),
        ("put mug on table, then rest", "put mug on table"),
        ("grab mugs", "grab mug"),
        ("find the mug on the table", "find mug"),
        ("find top cabinet", "find top cabinet"),
        ("find cabinet", None),
        ("find something unusual", None),
        ("grab or release", None),
        ("put mug", None),
    ],
)
def test_steps_name_deeds_and_things_of_the_room(phrase: str, name: str | None) -> None:
    deeds = Deeds(ROOM, "adjustment_3")
    words = Vocabulary(deeds.names, ("something unusual in a cabinet",), deeds.things)
    assert words.match(phrase) == name


def test_prompts_list_deeds_in_a_few_lines_and_say_what_an_action_would_do() -> None:
    deeds = Deeds(ROOM, "adjustment_3")
    asked = prompts.sections(str(prompts.planning("tidy", "", deeds.listed, "", 9).content[0]))[prompts.ACTIONS]
    lines = asked.splitlines()
    assert lines[:2] == ["- grab OBJECT", "- put OBJECT on RECEPTACLE"] and len(lines) == 4
    assert lines[3].startswith("- RECEPTACLE is one of: bottom cabinet, carpet, ")
    acts = prompts.performing("tidy", "", ["look up"], "", (), False, {"grab or release": "grab mug"})
    told = prompts.sections(str(acts.content[0]))
    assert told[prompts.EFFECTS] == "- grab or release: grab mug"
    assert prompts.EFFECTS not in str(prompts.performing("tidy", "", ["look up"], "", (), False).content[0])
