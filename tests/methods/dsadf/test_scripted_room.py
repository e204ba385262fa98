"""What the hand-written chats make of Housekeep's prompts."""

import json

import pytest

from guidebench.harness import registry
from guidebench.methods.dsadf import plans, prompts
from guidebench.methods.dsadf.deeds import Deeds
from guidebench.methods.dsadf.plans import Vocabulary, listed
from guidebench.methods.dsadf.scripted import LOST, PromptPerformer, PromptPlanner, PromptReflector
from guidebench.methods.dsadf.scripted_room import step

DEEDS = Deeds(registry.get("suite", "housekeep")(), "adjustment_2")
WORDS = Vocabulary(DEEDS.names, (), DEEDS.things)
TIDY = "tidy the room: put each on a receptacle where it does"
STOVE = "you see stove (2.0 m left), fridge (3.0 m ahead)."


def planned(state: str, goal: str = TIDY, omits: float = 0) -> list[str]:
    message = prompts.planning(goal, state, DEEDS.listed, "", 40)
    return [name for name, _ in plans.read(PromptPlanner(omits, 0)((message,)), WORDS, 40)]


AIMS = "put lamp on chest; put plant on sink."


@pytest.mark.parametrize(
    ("scene", "goal", "steps"),
    [  # things that lie unusually go to where they belong, or where the target says
        ("butter dish on stove (2.1 m left). pan on stove (1.9 m left). you hold nothing.", TIDY,
         "find butter dish, grab butter dish, find fridge, put butter dish on fridge"),
        ("you hold mustard bottle.", TIDY, "find fridge, put mustard bottle on fridge"),
        ("plant on sink (2.0 m left). you hold nothing.", AIMS,  # the plant is there already
         "find lamp, grab lamp, find chest, put lamp on chest"),
        ("plant on stove (2.0 m left). you hold nothing.", AIMS,
         "find plant, grab plant, find sink, put plant on sink"),
    ],
)  # fmt: skip
def test_a_thing_is_carried_to_where_it_belongs(scene: str, goal: str, steps: str) -> None:
    assert ", ".join(planned(f"{STOVE} {scene}", goal)) == steps
    (search,) = planned("you see nothing. you hold nothing.")
    assert search.removeprefix("find ") in DEEDS.things


def test_a_step_is_omitted_at_its_rate_and_the_reflector_finds_it() -> None:
    states = [f"you see fridge (2.{n} m ahead). lamp on fridge (2.{n} m ahead). you hold nothing." for n in range(200)]
    short = [state for state in states if len(planned(state, omits=0.3)) == 3]
    assert abs(len(short) / 200 - 0.3) < 3 * (0.3 * 0.7 / 200) ** 0.5
    plan = ["find lamp", "find table", "put lamp on table"]

    def reflected(plan: list[str], misses: float = 0) -> str:
        plan_text = listed([plans.Subgoal(name) for name in plan])
        return PromptReflector(misses)((prompts.reflecting(TIDY, states[0], DEEDS.listed, "", 40, plan_text),))

    reply = reflected(plan)
    assert "step 3, put lamp on table, lacks lamp" in reply and "2. grab lamp" in reply.split("Revised plan:")[1]
    assert "Weaknesses: none" in reflected([plan[0], "grab lamp", *plan[1:]])
    assert "Weaknesses: none" in reflected(plan, misses=1)


HISTORY = (
    f"Step 3. Seen: {STOVE} lamp on stove (2.0 m left). apple in fridge (2.0 m left). you hold nothing. Action: turn "
    "left. Reward: 0.\nStep 9. Seen: you hold plant. Action: grab or release (put plant on chair). Reward: 0.2.\n"
    "Step 12. Seen: you hold mug. Action: grab or release (put mug on chair). Reward: 0."
)


def inferred(history: str, omits: float = 0) -> str:
    return PromptPlanner(omits, 0)((prompts.inferring(TIDY, history, ""),))


def test_the_target_names_what_lay_unusually_and_what_was_rewarded() -> None:
    target = json.loads(inferred(HISTORY))["target"]
    assert target.endswith(": put lamp on table; put plant on chair.")
    assert json.loads(inferred(HISTORY, omits=1))["target"].endswith("where it does: .")
    assert inferred("Step 1. Seen: you see tree.") == LOST


AIMED = "lamp on stove (1.2 m ahead). you hold nothing. you look 30 degrees down."


@pytest.mark.parametrize(
    ("subgoal", "state", "would", "action"),
    [
        ("find lamp", "lamp on stove (2.0 m left). you hold nothing.", "", "turn left"),
        ("find lamp", "lamp on stove (2.0 m ahead). you hold nothing.", "", "move forward"),
        ("grab lamp", "lamp on stove (1.2 m ahead). you hold nothing.", "", "look down"),  # 26.6 degrees
        ("grab lamp", AIMED, "grab lamp", "grab or release"),
        ("find lamp", AIMED, "grab lamp", "grab or release"),
        ("put lamp on sink", AIMED, "grab lamp", "grab or release"),  # the plan left out a step
        ("grab lamp", AIMED, "grab mug", "look down"),  # another thing is closer to the gaze
        ("put lamp on sink", "you see sink (2.0 m right). you hold lamp.", "put lamp on stove", "turn right"),
        ("put lamp on sink", "you see sink (2.0 m right). you hold lamp.", "put lamp on sink", "grab or release"),
        ("grab lamp", "you see sink (1.0 m right). you hold mug.", "", "turn right"),  # the hand is full
        ("", "you see sink (1.0 m right). you hold sponge.", "", "turn right"),
        ("", "lamp on stove (2.0 m left). you hold nothing.", "", "turn left"),
        ("find lamp", "you see nothing. you hold nothing. you look 60 degrees down.", "", "look up"),
        ("find lamp", "you see nothing. you hold nothing. you look 20 degrees down.", "", "move forward"),
    ],
)  # fmt: skip
def test_the_performer_serves_its_sub_goal(subgoal: str, state: str, would: str, action: str) -> None:
    effects = f"- grab or release: {would}" * bool(would)
    assert step({prompts.STATE: state, prompts.SUBGOAL: subgoal, prompts.EFFECTS: effects}, 0.5) == action


def test_the_performer_turns_after_four_steps_forward() -> None:
    state = "lamp on stove (2.0 m ahead). you hold nothing."
    actions = ["move forward", "turn left", "turn right", "look up", "look down", "grab or release"]
    for steps, expected in ((4, ("turn left", "turn right")), (3, ("move forward",))):
        message = prompts.performing(TIDY, state, actions, "find lamp", ["move forward"] * steps, True)
        assert PromptPerformer(0, 0)((message,)) in expected
