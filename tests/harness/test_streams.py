"""Random streams go back to where a state was taken."""

from guidebench.harness.streams import PURPOSES, Streams


def test_a_state_takes_back_what_was_drawn_since_also_of_a_purpose_that_it_did_not_know() -> None:
    streams = Streams(3)
    known = streams.named("known")
    known.random()
    state = streams.state()
    assert state.keys() == {*PURPOSES, "named"}
    drawn = streams.explore.random(), known.random(), streams.named("new").random()
    streams.load_state(state)
    assert (streams.explore.random(), known.random(), streams.named("new").random()) == drawn
    again = Streams(3)
    held = again.named("new")
    held.random()
    again.load_state(state)
    assert (again.explore.random(), again.named("known").random(), held.random()) == drawn


def test_a_branch_has_generators_of_its_own_that_the_seed_s_state_holds() -> None:
    streams = Streams(3)
    branch = streams.branch("second")
    state = streams.state()
    drawn = branch.noise.random(), branch.named("own").random()
    assert drawn == (Streams(3).named("second/noise").random(), Streams(3).named("second/own").random())
    assert streams.noise.random() == Streams(3).noise.random(), "the seed's own stream has not moved"
    streams.load_state(state)
    assert (branch.noise.random(), branch.named("own").random()) == drawn
    kept = branch.state()
    later = branch.explore.random(), streams.explore.random()
    branch.load_state(kept)
    assert branch.explore.random() == later[0] and streams.explore.random() != later[1], "only the branch goes back"


def test_each_evaluation_of_a_seed_has_layouts_of_its_own() -> None:
    streams = [Streams(3), Streams(4)]
    assert len({each.evaluation_seed(step, episode) for each in streams for step in (0, 1) for episode in (0, 1)}) == 8
