"""The encoder that actor and critics of SAC and TD3 share where an observation is more than a vector."""

from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.actor_critic.sample import Kind
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.td3 import Td3
from guidebench.baselines.replay.aer.sampler import AerSampler
from guidebench.harness.interfaces import Actions, Batch, Loss, Observations
from tests.baselines.learners.conftest import RECORD, observed
from tests.baselines.learners.continuous import SMALL, build
from tests.baselines.learners.continuous import batch as vectors

BOTH = pytest.mark.parametrize("learner_of", [Sac, Td3])
IMAGE = Observations((7, 7, 2), "uint8", stack=2)
GRID = Observations((3, 4, 2), "uint8", (5, 3))
ACTIVE = np.ones(1, bool)


def batch(space: Observations, seed: int, size: int = 16) -> Batch:
    rng = np.random.default_rng(seed)
    observation, following = (observed(space, rng, 1, size) for _ in range(2))
    return vectors(seed, size)._replace(observation=observation, next_observation=following)


def test_without_anything_to_be_encoded_there_is_no_encoder() -> None:
    for space in (Observations((2,), "float32"), Observations(parts={"x": Observations((2,), "float32")})):
        learner: Any = Sac(**SMALL).spawn(build(observations=space))
        assert not learner.encodes and len(learner.optimisers) == 2 and len(learner.targets()) == 1
        assert learner.state(0).keys() == {
            "actor", "critic", "target", "alpha", "actor_optimiser", "critic_optimiser", "alpha_optimiser", "renewals"
        }  # fmt: skip


@BOTH
def test_the_critics_loss_alone_moves_the_encoder(learner_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor's loss has no gradient by the encoder, and the encoder keeps still while the critics' Adam does."""
    learner = learner_of(**SMALL).spawn(build(observations=IMAGE))
    losses = []
    monkeypatch.setattr(learner, "fit_actor", lambda loss, kind, added: losses.append(loss) or {})
    learner.update_actor(
        learner.sample(batch(IMAGE, 0), slice(0, 1), True), Kind(0, True, (False,), None, True, (True,))
    )
    views = [*learner.encoder.blocks[0].views.values()]
    by_actor = torch.autograd.grad(
        losses[0].sum(), [*views, *learner.actor.blocks[0].views.values()], allow_unused=True
    )
    assert all(gradient is None for gradient in by_actor[: len(views)])
    assert all(gradient is not None and bool(gradient.any()) for gradient in by_actor[len(views) :])
    still = learner_of(**SMALL, critic_lr=0.0).spawn(build(observations=IMAGE))
    before = still.encoder.flat.clone(), still.actor.flat.clone()
    for step in (2, 4):
        metrics = still.update(batch(IMAGE, step), ACTIVE, step).metrics
    assert torch.equal(still.encoder.flat, before[0]) and not torch.equal(still.actor.flat, before[1])
    assert metrics["encoder_grad_norm"] > 0


def test_the_encoders_gradient_is_the_slope_of_the_critics_loss() -> None:
    """Finite differences by a shift of an image's features and a bias of a grid's, in a loss whose target, of TD3,
    does not depend on the online encoder; the learner leaves that gradient, here unclipped."""
    space = Observations(parts={"image": IMAGE, "grid": GRID})
    learner: Any = Td3(**{**SMALL, "max_grad_norm": None}, critic_lr=0.0).spawn(build(observations=space))
    sample = learner.sample(batch(space, 3), slice(0, 1), False)
    kind = Kind(0, False, (False,), None, True, (True,))
    learner.update_critics(sample, kind)
    gradient = learner.gradients[2].arrays(0)
    for name in ("encoder.image.shift", "encoder.grid.pooled.bias"):
        view = learner.encoder.blocks[0].views[name][0]
        index = int(np.abs(gradient[name]).argmax())
        losses = []
        for change in (1e-2, -2e-2):
            with torch.no_grad():
                view[index] += change
            losses.append(learner.update_critics(sample, kind).metrics["loss"].item())
        with torch.no_grad():
            view[index] += 1e-2
        assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradient[name][index], rel=0.02)


@BOTH
def test_the_target_encoder_follows_by_its_share(learner_of: Any) -> None:
    """θ̄ ← τθ + (1 − τ)θ̄ with τ = ¼: from 0, an online encoder of 8 moves it to 2, and then to 3.5."""
    learner = learner_of(**SMALL, target_rate=0.25).spawn(build(observations=IMAGE))
    online, target = learner.encoder, learner.target_encoder
    assert torch.equal(online.flat, target.flat)
    online.flat.fill_(8)
    target.flat.fill_(0)
    for expected in (2.0, 3.5):
        for moved, followed in learner.targets():
            learner.move(moved, followed, ACTIVE)
        assert bool((target.flat == expected).all())
    learner = learner_of(**SMALL, target_rate=0.25).spawn(build(observations=IMAGE))
    before = learner.target_encoder.flat.clone()
    learner.update(batch(IMAGE, 1), ACTIVE, 2)
    torch.testing.assert_close(learner.target_encoder.flat, 0.25 * learner.encoder.flat + 0.75 * before)
    assert not torch.equal(learner.target_encoder.flat, before)


@BOTH
def test_targets_see_by_the_target_encoder_and_the_rest_by_the_online_one(learner_of: Any) -> None:
    """An encoder whose scale and shift are 0 gives features of 0 for whatever it is shown."""
    learner = learner_of(**SMALL).spawn(build(observations=IMAGE))
    sample = learner.sample(batch(IMAGE, 1), slice(0, 1), True)
    features = learner.features(0, sample.observation)
    views = learner.target_encoder.blocks[0].views
    views["encoder.scale"].zero_(), views["encoder.shift"].zero_()
    assert not learner.target_features(0, sample.observation).any()
    assert torch.equal(learner.features(0, sample.observation), features) and bool(features.any())
    targets = learner.target_q(0, sample, learner.target_features(0, sample.next_observation), sample.action)
    blind = torch.zeros(1, 16, 50)
    torch.testing.assert_close(targets, learner.target_q(0, sample, blind, sample.action))


def test_a_reset_of_the_critics_leaves_the_encoder() -> None:
    learner: Any = Sac(**SMALL).spawn(build(observations=IMAGE))
    learner.update(batch(IMAGE, 1), ACTIVE, 1)
    before = {name: parameters.flat.clone() for name, parameters in learner.networks().items()}
    learner.reset("critic", ACTIVE)
    unchanged = {name for name, parameters in learner.networks().items() if torch.equal(parameters.flat, before[name])}
    assert unchanged == {"actor", "encoder", "target_encoder", "alpha"}


def test_a_loss_added_to_the_critics_moves_the_encoder_and_one_added_to_the_actor_does_not() -> None:
    config = Sac(**SMALL, critic_lr=1e-3)
    added: dict[str, Any] = {
        "critic": lambda batch, networks: {"critic": networks.critic(batch.observation, batch.action).sum(1).mean(1)},
        "actor": lambda batch, networks: {"actor": networks.policy(batch.observation).mean((1, 2))},
    }
    flats = {}
    for group in ("", "critic", "actor"):
        learner: Any = config.spawn(build(observations=RECORD))
        losses = (Loss("a test", (group,), added[group]),) if group else ()
        learner.update(batch(RECORD, 1), ACTIVE, 2, losses=losses)
        flats[group] = learner.encoder.flat, learner.actor.flat
    assert torch.equal(flats["actor"][0], flats[""][0]) and not torch.equal(flats["actor"][1], flats[""][1])
    assert not torch.equal(flats["critic"][0], flats[""][0])


def test_the_time_of_an_update_counts_the_encoder() -> None:
    """7×7×2 -> 5×5×32 -> 3×3×64 -> 64 -> 50 features; on every update five evaluations' arithmetic, and one more on the
    half that are the actor's."""
    config = Sac(hidden=(4,), ensemble=3, utd=4, actor_utd=2)
    encoder = 25 * 9 * 2 * 32 + 9 * 9 * 32 * 64 + 9 * 64 * 64 + 64 * 50
    actor, critic = 50 * 4 + 4 * 2, 51 * 4 + 4
    assert config.multiplications_to_act(IMAGE, Actions(shape=(1,))) == encoder + actor
    learning = actor + 11 * critic + 0.5 * (3 * actor + 6 * critic) + 5.5 * encoder
    assert config.multiplications_to_learn(IMAGE, Actions(shape=(1,))) == learning


@BOTH
def test_aer_compares_records_by_the_shared_encoder(learner_of: Any) -> None:
    from guidebench.baselines.replay.aer import Aer

    config = learner_of(**SMALL)
    sampler = AerSampler(Aer(), build((0, 1), observations=RECORD, parts={"learner": config}))
    assert sampler.columns[0].shape == (config.encoder_width(RECORD),) == (50 + 3 + 50 + 7 + 6,)
    observations = np.concatenate([batch(RECORD, seed).observation for seed in (0, 0)])
    features = sampler.features(observations)
    assert features.shape == (2, 16, 116) and not np.array_equal(features[0], features[1])
    assert np.array_equal(features[0][:, 50:53], observations[0]["place"])
