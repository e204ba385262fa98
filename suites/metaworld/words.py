"""MetaWorld's fifty tasks in words: instructions, and descriptions of the objects in an observation."""

from __future__ import annotations

INSTRUCTIONS = {
    "assembly": "pick up the ring by its handle and put it onto the peg",
    "basketball": "pick up the ball and drop it through the hoop",
    "bin-picking": "take the block out of its bin and put it into the other bin",
    "box-close": "pick up the lid by its handle and put it onto the box",
    "button-press": "press the button on the front of the box all the way in",
    "button-press-topdown": "press the button on top of the box all the way down",
    "button-press-topdown-wall": "reach over the wall and press the button on top of the box all the way down",
    "button-press-wall": "reach past the wall and press the button on the front of the box all the way in",
    "coffee-button": "press the button of the coffee machine",
    "coffee-pull": "pull the mug away from the coffee machine to the mark",
    "coffee-push": "push the mug under the coffee machine",
    "dial-turn": "turn the dial half way round",
    "disassemble": "pick up the ring by its handle and lift it off the peg",
    "door-close": "push the open door shut",
    "door-lock": "turn the door's lock downwards until it locks",
    "door-open": "pull the door open by its handle",
    "door-unlock": "turn the door's lock sideways until it unlocks",
    "drawer-close": "push the open drawer shut",
    "drawer-open": "pull the drawer open by its handle",
    "faucet-close": "turn the handle of the faucet until it is closed",
    "faucet-open": "turn the handle of the faucet until it is open",
    "hammer": "pick up the hammer and drive the nail into the box",
    "hand-insert": "lower the gripper into the hole in the table",
    "handle-press": "press the handle down",
    "handle-press-side": "press the handle, which points sideways, down",
    "handle-pull": "pull the handle up",
    "handle-pull-side": "pull the handle, which points sideways, up",
    "lever-pull": "pull the lever up",
    "peg-insert-side": "pick up the peg and push it sideways into the hole of the box",
    "peg-unplug-side": "pull the peg sideways out of the hole of the box",
    "pick-out-of-hole": "pick the block out of its hole and lift it to the mark",
    "pick-place": "pick up the block and carry it to the mark",
    "pick-place-wall": "pick up the block and carry it over the wall to the mark",
    "plate-slide": "slide the plate away into the cabinet",
    "plate-slide-back": "slide the plate out of the cabinet, towards you",
    "plate-slide-back-side": "slide the plate out of the cabinet, sideways",
    "plate-slide-side": "slide the plate sideways into the cabinet",
    "push": "push the block to the mark on the table",
    "push-back": "pull the block back to the mark on the table",
    "push-wall": "push the block round the wall to the mark on the table",
    "reach": "move the gripper to the mark in the air",
    "reach-wall": "move the gripper past the wall to the mark in the air",
    "shelf-place": "pick up the block and put it onto the shelf",
    "soccer": "push the ball into the goal",
    "stick-pull": "pick up the stick, put it through the handle of the container and pull that to the mark",
    "stick-push": "pick up the stick and push the container with it to the mark",
    "sweep": "sweep the block along the table to the mark at its edge",
    "sweep-into": "sweep the block into the hole in the table",
    "window-close": "push the sliding window shut by its handle",
    "window-open": "push the sliding window open by its handle",
}
"""Task -> its instruction."""
LAGEA = {
    "button-press-topdown": "Press a button from the top.",
    "door-open": "Open a door with a revolving joint.",
    "drawer-close": "Push and close a drawer.",
    "drawer-open": "Open a drawer.",
    "peg-insert-side": "Insert the peg into the side hole.",
    "pick-place": "Pick up the puck and place it at the target.",
    "push": "Push the puck to the target position.",
    "reach": "Reach a goal position.",
    "window-close": "Push and close a window.",
    "window-open": "Push and open a window.",
}
"""Task -> its instruction in LaGEA, table 4, verbatim."""

OBJECTS = {
    "assembly": "the handle of the ring",
    "basketball": "the ball",
    "bin-picking": "the block",
    "box-close": "the lid of the box",
    "button-press": "the button",
    "button-press-topdown": "the button",
    "button-press-topdown-wall": "the button",
    "button-press-wall": "the button",
    "coffee-button": "the button of the coffee machine",
    "coffee-pull": "the mug",
    "coffee-push": "the mug",
    "dial-turn": "the dial",
    "disassemble": "the handle of the ring",
    "door-close": "the door's handle",
    "door-lock": "the door's lock",
    "door-open": "the door's handle",
    "door-unlock": "the door's lock",
    "drawer-close": "the drawer's handle",
    "drawer-open": "the drawer's handle",
    "faucet-close": "the faucet's handle",
    "faucet-open": "the faucet's handle",
    "hammer": "the hammer",
    "hand-insert": "the block in the hole",
    "handle-press": "the handle",
    "handle-press-side": "the handle",
    "handle-pull": "the handle",
    "handle-pull-side": "the handle",
    "lever-pull": "the lever",
    "mt10": "the first object of the task at hand",
    "peg-insert-side": "the peg",
    "peg-unplug-side": "the peg",
    "plate-slide": "the plate",
    "plate-slide-back": "the plate",
    "plate-slide-back-side": "the plate",
    "plate-slide-side": "the plate",
    "soccer": "the ball",
    "stick-pull": "the stick",
    "stick-push": "the stick",
    "window-close": "the window's handle",
    "window-open": "the window's handle",
}
"""Task -> description of its first object, if that is not a block."""

GRIPPER = "the gripper at the end of the robot's arm"
BLOCK = "the block"
FREE = ("reach", "reach-wall", "hand-insert")
"""Tasks whose target is a position of the gripper, independent of the object."""


def object_words(task: str) -> str:
    """Return the description of a task's first object, which the gripper has to reach."""
    return f"{OBJECTS.get(task, BLOCK)}, which the gripper has to get at"


def target_words(task: str) -> str:
    """Return the description of a task's target."""
    return f"where {'the gripper' if task in FREE else OBJECTS.get(task, BLOCK)} has to be for the task to succeed"
