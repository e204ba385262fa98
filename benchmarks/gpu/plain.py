"""Plain training loops in PyTorch, written as CleanRL writes them: one file, modules of `torch.nn`, `torch.optim.Adam`.

They train on this project's tasks with the settings of our contender, so the difference is the code alone. Each
function takes steps and calls `stop` after every one, until that returns True.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from guidebench.baselines.encoders.grid import DILATIONS

Stop = Callable[[], bool]


def layers(widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    modules: list[nn.Module] = []
    for into, out in itertools.pairwise(widths):
        modules += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


class Buffer:
    """A replay buffer of NumPy arrays on the host."""

    def __init__(self, size: int, observation: Any, action: Any) -> None:
        self.size, self.count = size, 0
        observation, action = np.asarray(observation), np.asarray(action)
        self.observations, self.following = (
            np.zeros((size, *observation.shape), observation.dtype) for _ in range(2)
        )  # fmt: skip
        self.actions = np.zeros((size, *action.shape), action.dtype)
        self.rewards, self.terminated = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def add(self, observation: Any, action: Any, reward: float, following: Any, terminated: bool) -> None:
        at = self.count % self.size
        self.observations[at], self.following[at], self.actions[at] = observation, following, action
        self.rewards[at], self.terminated[at] = reward, terminated
        self.count += 1

    def sample(self, number: int, rng: np.random.Generator, device: str) -> list[Tensor]:
        """Return observations, actions, rewards, next observations and terminations [number, …]."""
        at = rng.integers(min(self.count, self.size), size=number)
        arrays = (self.observations, self.actions, self.rewards, self.following, self.terminated)
        return [torch.as_tensor(array[at]).to(device) for array in arrays]


class GridNetwork(nn.Module):
    """The encoder of `baselines/encoders/grid`, and Q-values from its features; codes [B, H, W, K] -> [B, actions]."""

    def __init__(
        self, shape: Sequence[int], categories: Sequence[int], channels: int, features: int, hidden: Sequence[int],
        actions: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        inner, reach = max(1, channels // 2), max(1, (min(shape[:2]) - 1) // 2)
        starts = np.cumsum([0, *categories[:-1]])
        self.register_buffer("starts", torch.as_tensor(starts))
        self.embedding = nn.Embedding(sum(categories), channels)
        dilations = [min(dilation, reach) for dilation in DILATIONS]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, inner, 3, padding=dilation, dilation=dilation) for dilation in dilations
        )
        self.mixes = nn.ModuleList(nn.Conv2d(inner, channels, 1) for _ in dilations)
        self.pooled = nn.Linear(2 * channels, features)
        self.head = layers([features, *hidden, actions]) if actions else nn.Identity()

    def forward(self, codes: Tensor) -> Tensor:
        x = self.embedding(codes.long() + self.starts).sum(-2).permute(0, 3, 1, 2)
        for convolution, mix in zip(self.convolutions, self.mixes, strict=True):
            x = x + mix(F.relu(convolution(F.relu(x))))
        x = F.relu(x)
        return self.head(F.relu(self.pooled(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1))))


def dqn(
    environment: Any, network: Callable[[], nn.Module], settings: Mapping[str, Any], device: str, stop: Stop
) -> None:
    """Double DQN with Huber loss (Mnih et al. 2015; van Hasselt et al. 2016), as CleanRL's `dqn.py`."""
    rng = np.random.default_rng(0)
    online, target = network().to(device), network().to(device)
    target.load_state_dict(online.state_dict())
    optimiser = torch.optim.Adam(online.parameters(), lr=settings["lr"])
    observation, _ = environment.reset(seed=0)
    buffer = Buffer(settings["capacity"], observation, np.int64(0))
    for step in itertools.count(1):
        if rng.random() < settings["epsilon_start"]:
            action = int(environment.action_space.sample())
        else:
            with torch.no_grad():
                action = int(online(torch.as_tensor(observation[None]).to(device)).argmax(1).item())
        following, reward, terminated, truncated, _ = environment.step(action)
        buffer.add(observation, action, reward, following, terminated)
        observation = environment.reset()[0] if terminated or truncated else following
        if step >= settings["learning_starts"] and step % settings["train_every"] == 0:
            now, actions, rewards, after, over = buffer.sample(settings["batch_size"], rng, device)
            with torch.no_grad():
                best = target(after).gather(1, online(after).argmax(1, keepdim=True)).squeeze(1)
                td_target = rewards + settings["discount"] * (1 - over) * best
            loss = F.huber_loss(online(now).gather(1, actions.unsqueeze(1)).squeeze(1), td_target)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), settings["max_grad_norm"])
            optimiser.step()
        if step % settings["target_every"] == 0:
            target.load_state_dict(online.state_dict())
        if stop():
            return


def critics(environment: Any, hidden: Sequence[int], device: str) -> list[nn.Module]:
    """Return two critics and their target networks."""
    into = environment.observation_space.shape[0] + environment.action_space.shape[0]
    networks: list[nn.Module] = [layers([into, *hidden, 1]).to(device) for _ in range(4)]
    for online, target in zip(networks[:2], networks[2:], strict=True):
        target.load_state_dict(online.state_dict())
    return networks


def interact(
    environment: Any, buffer: Buffer, act: Callable[[Any], Any], update: Callable[[int], None], learning_starts: int,
    stop: Stop,
) -> None:  # fmt: skip
    """Take steps, at first random ones, with an update after each from `learning_starts` on, until `stop()`."""
    observation, _ = environment.reset(seed=0)
    for step in itertools.count(1):
        action = act(observation) if step > learning_starts else environment.action_space.sample()
        following, reward, terminated, truncated, _ = environment.step(action)
        buffer.add(observation, action, reward, following, terminated)
        observation = environment.reset()[0] if terminated or truncated else following
        if step >= learning_starts:
            update(step)
        if stop():
            return


def value(critic: nn.Module, observation: Tensor, action: Tensor) -> Tensor:
    q_values: Tensor = critic(torch.cat([observation, action], 1)).squeeze(1)
    return q_values


def soft_update(pairs: Sequence[tuple[nn.Module, nn.Module]], rate: float) -> None:
    """Move each target network towards its online network, one tensor after the other."""
    for online, target in pairs:
        for fast, slow in zip(online.parameters(), target.parameters(), strict=True):
            slow.data.copy_(rate * fast.data + (1 - rate) * slow.data)


def sac(environment: Any, settings: Mapping[str, Any], device: str, stop: Stop) -> None:
    """Soft actor-critic with a tuned temperature (Haarnoja et al. 2018b), as CleanRL's `sac_continuous_action.py`."""
    rng, size = np.random.default_rng(0), environment.action_space.shape[0]
    actor = layers([environment.observation_space.shape[0], *settings["hidden"], 2 * size]).to(device)
    first, second, slow_first, slow_second = critics(environment, settings["hidden"], device)
    of_critics = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=settings["critic_lr"])
    of_actor = torch.optim.Adam(actor.parameters(), lr=settings["actor_lr"])
    log_alpha = torch.full((1,), math.log(settings["alpha"]), requires_grad=True, device=device)
    of_alpha = torch.optim.Adam([log_alpha], lr=settings["alpha_lr"])
    wished = -settings["target_entropy_scale"] * size

    def drawn(observation: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = actor(observation).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp(), validate_args=False)
        raw = normal.rsample()
        action = raw.tanh()
        return action, (normal.log_prob(raw) - torch.log(1 - action.square() + 1e-6)).sum(1)

    def update(step: int) -> None:
        now, action, reward, after, over = buffer.sample(settings["batch_size"], rng, device)
        with torch.no_grad():
            next_action, log_probability = drawn(after)
            slow = torch.min(value(slow_first, after, next_action), value(slow_second, after, next_action))
            td_target = reward + settings["discount"] * (1 - over) * (slow - log_alpha.exp() * log_probability)
        loss = F.mse_loss(value(first, now, action), td_target) + F.mse_loss(value(second, now, action), td_target)
        of_critics.zero_grad()
        loss.backward()
        of_critics.step()
        new_action, log_probability = drawn(now)
        least = torch.min(value(first, now, new_action), value(second, now, new_action))
        loss = (log_alpha.exp().detach() * log_probability - least).mean()
        of_actor.zero_grad()
        loss.backward()
        of_actor.step()
        loss = (-log_alpha.exp() * (log_probability.detach() + wished)).mean()
        of_alpha.zero_grad()
        loss.backward()
        of_alpha.step()
        soft_update([(first, slow_first), (second, slow_second)], settings["target_rate"])

    def act(observation: Any) -> Any:
        with torch.no_grad():
            return drawn(torch.as_tensor(observation[None]).to(device))[0][0].cpu().numpy()

    buffer = Buffer(settings["capacity"], environment.reset(seed=0)[0], np.zeros(size, np.float32))
    interact(environment, buffer, act, update, settings["learning_starts"], stop)


def td3(environment: Any, settings: Mapping[str, Any], device: str, stop: Stop) -> None:
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018), as CleanRL's `td3_continuous_action.py`."""
    rng, size = np.random.default_rng(0), environment.action_space.shape[0]
    actor, slow_actor = (
        nn.Sequential(layers([environment.observation_space.shape[0], *settings["hidden"], size]), nn.Tanh()).to(device)
        for _ in range(2)
    )
    slow_actor.load_state_dict(actor.state_dict())
    first, second, slow_first, slow_second = critics(environment, settings["hidden"], device)
    of_critics = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=settings["critic_lr"])
    of_actor = torch.optim.Adam(actor.parameters(), lr=settings["actor_lr"])

    def update(step: int) -> None:
        now, action, reward, after, over = buffer.sample(settings["batch_size"], rng, device)
        with torch.no_grad():
            noise = settings["target_noise"] * torch.randn_like(action)
            next_action = slow_actor(after) + noise.clamp(-settings["noise_clip"], settings["noise_clip"])
            next_action = next_action.clamp(-1, 1)
            slow = torch.min(value(slow_first, after, next_action), value(slow_second, after, next_action))
            td_target = reward + settings["discount"] * (1 - over) * slow
        loss = F.mse_loss(value(first, now, action), td_target) + F.mse_loss(value(second, now, action), td_target)
        of_critics.zero_grad()
        loss.backward()
        of_critics.step()
        if step % settings["policy_frequency"] == 0:
            loss = -value(first, now, actor(now)).mean()
            of_actor.zero_grad()
            loss.backward()
            of_actor.step()
            pairs = [(first, slow_first), (second, slow_second), (actor, slow_actor)]
            soft_update(pairs, settings["target_rate"])

    def act(observation: Any) -> Any:
        with torch.no_grad():
            action = actor(torch.as_tensor(observation[None]).to(device))[0].cpu().numpy()
        noise = settings["exploration_noise"] * rng.standard_normal(size, np.float32)
        return np.clip(action + noise, -1, 1)

    buffer = Buffer(settings["capacity"], environment.reset(seed=0)[0], np.zeros(size, np.float32))
    interact(environment, buffer, act, update, settings["learning_starts"], stop)
