"""Random streams return to the point at which their state was taken."""

from guidebench.harness.streams import PURPOSES, Streams


def test_a_state_takes_back_what_was_drawn_since_also_of_a_purpose_that_it_did_not_know() -> None:
    streams = Streams(3)
    generator = streams.named("known")
    generator.random()
    state = streams.state()
    assert state.keys() == {*PURPOSES, "named"}
    numbers = streams.explore.random(), generator.random(), streams.named("new").random()
    streams.load_state(state)
    assert (streams.explore.random(), generator.random(), streams.named("new").random()) == numbers
    restored = Streams(3)
    new_generator = restored.named("new")
    new_generator.random()
    restored.load_state(state)
    assert (restored.explore.random(), restored.named("known").random(), new_generator.random()) == numbers


def test_a_branch_has_generators_of_its_own_that_the_seed_s_state_holds() -> None:
    streams = Streams(3)
    branch = streams.branch("second")
    state = streams.state()
    numbers = branch.noise.random(), branch.named("own").random()
    assert numbers == (Streams(3).named("second/noise").random(), Streams(3).named("second/own").random())
    assert streams.noise.random() == Streams(3).noise.random(), "the seed's own stream has not moved"
    streams.load_state(state)
    assert (branch.noise.random(), branch.named("own").random()) == numbers
    branch_state = branch.state()
    later = branch.explore.random(), streams.explore.random()
    branch.load_state(branch_state)
    assert branch.explore.random() == later[0] and streams.explore.random() != later[1], (
        "loading a branch leaves the other streams alone"
    )


def test_each_evaluation_of_a_seed_has_layouts_of_its_own() -> None:
    streams = [Streams(3), Streams(4)]
    assert (
        len(
            {
                seed_streams.evaluation_seed(step, episode)
                for seed_streams in streams
                for step in (0, 1)
                for episode in (0, 1)
            }
        )
        == 8
    )
