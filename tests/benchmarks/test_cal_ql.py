"""The plain loop beside which Cal-QL is measured computes the same, from its own code."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from benchmarks.cal_ql import Plain, batch_of
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.harness.interfaces import Observations
from tests.baselines.learners.continuous import build


class Still:
    """A random generator whose normal numbers are 0 and whose uniform numbers are ¼."""

    def standard_normal(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def random(self, shape: Any, dtype: Any) -> Any:
        return np.full(shape, 0.25, dtype)


def copy_weights(modules: list[torch.nn.Module], arrays: dict[str, Any]) -> None:
    """Copy weights of ours, [N, in, out] or [in, out], into the linear layers of plain networks."""
    for member, module in enumerate(modules):
        linear = [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)]
        for number, layer in enumerate(linear):
            for name in ("weight", "bias"):
                (weights,) = (values for key, values in arrays.items() if key.endswith(f".{number}.{name}"))
                weights = weights[member] if len(modules) > 1 else weights
                getattr(layer, name).data.copy_(torch.as_tensor(weights.T if name == "weight" else weights))


def test_the_plain_loop_has_the_same_losses_and_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CalQl(hidden=(16, 16), batch_size=32, learning_starts=32, cql_actions=3, critic_lr=1e-2, actor_lr=1e-2)
    space = Observations((5,), "float32")
    ours: Any = config.spawn(build(observations=space, actions=2))
    plain, batch = Plain(config, space, 2), batch_of(space, 2, 32)
    state = ours.state(0)
    copy_weights([*plain.critics], state["critic"])
    copy_weights([*plain.targets], state["target"])
    copy_weights([plain.policy], state["actor"])
    ours.noise = [Still()]
    monkeypatch.setattr(torch, "rand", lambda *shape: torch.full(shape, 0.25))
    monkeypatch.setattr(Normal, "rsample", lambda distribution, shape=(): distribution.loc)
    for step in range(5):
        loss = ours.update(batch, np.ones(1, bool), 100 + step).metrics["loss"][0]
        assert loss == pytest.approx(plain.update(batch), rel=1e-4)
    assert ours.alpha(0).item() == pytest.approx(plain.log_alpha.exp().item(), rel=1e-4)
