"""Random streams go back to where a state was taken."""

from __future__ import annotations

from guidebench.harness.streams import Streams


def test_a_state_takes_back_what_was_drawn_since_also_of_a_purpose_that_it_did_not_know() -> None:
    streams = Streams(3)
    known = streams.named("known")
    known.random()
    state = streams.state()
    drawn = streams.explore.random(), known.random(), streams.named("new").random()
    streams.load_state(state)
    assert (streams.explore.random(), known.random(), streams.named("new").random()) == drawn
    again = Streams(3)
    held = again.named("new")
    held.random()
    again.load_state(state)
    assert (again.explore.random(), again.named("known").random(), held.random()) == drawn
