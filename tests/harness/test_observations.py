"""Observations with named parts, from a task to runs that are trained, killed, evaluated and demonstrated."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load_file

import guidebench
from guidebench import testing
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.episodes import demonstrations
from guidebench.harness.episodes.demonstrations import DemonstrationSpec
from guidebench.harness.errors import UserError
from guidebench.harness.identity import sources
from guidebench.harness.interfaces import Observations
from guidebench.harness.plan import matrix
from guidebench.harness.run.study import ring_bytes
from tests.logs import log_rows
from tests.refusals import check_refused

SOURCE = Path(__file__).with_name("corridor.py")
SMALL = (
    "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=40", "training.steps=80",
    "evaluation.every=40", "evaluation.episodes=1",
)  # fmt: skip
LEARNERS: dict[str, tuple[str, ...]] = {
    "dqn": ("task=steps", "learner=dqn", "learner.channels=4", "learner.features=8", *SMALL),
    "iqn": ("task=steps", "learner=iqn", "learner.channels=4", "learner.features=8", *SMALL),
    "sac": ("task=slides", "learner=sac", "learner.ensemble=2", "learner.utd=1", "learner.actor_utd=1", *SMALL),
    "td3": ("task=slides", "learner=td3", "learner.ensemble=2", "learner.utd=1", "learner.actor_utd=1", *SMALL),
}


@pytest.fixture(autouse=True)
def corridor(plugin: Callable[..., Path]) -> None:
    plugin("corridor", SOURCE.read_text(), {"suite": "seen_corridor"})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def test_the_suite_keeps_its_contract() -> None:
    testing.check_suite("seen_corridor", steps=60)


def test_runs_are_the_same_alone_beside_others_and_continued_after_a_kill(tmp_path: Path, cache: Path) -> None:
    testing.check_method("uer", tmp_path, "suite=seen_corridor", *LEARNERS["dqn"], "training.demonstrations=1")


@pytest.mark.parametrize("learner", ["iqn", "sac", "td3"])
def test_other_learners_train_on_records(learner: str, train: Callable[..., Path]) -> None:
    study = train("suite=seen_corridor", "method=uer", *LEARNERS[learner], "seeds=[0]", packs=[(0,)])
    (run,) = study.glob("*/*/*/seed-0")
    assert len(log_rows(run, "evaluations")) == 2 and "loss" in " ".join(log_rows(run, "metrics")[-1])


def test_a_replay_that_compares_features_trains_on_records(train: Callable[..., Path]) -> None:
    study = train("suite=seen_corridor", "method=aer", *LEARNERS["dqn"], "seeds=[0]", packs=[(0,)], probes=2)
    (run,) = study.glob("*/*/*/seed-0")
    assert len(log_rows(run, "evaluations")) > 0
    assert {row["quantity"] for row in log_rows(run, "probes")} >= {"critic", "event/there"}


def test_a_trained_run_plays_where_its_parts_are_the_same_and_another_is_named(
    train: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = train("suite=seen_corridor", "method=uer", *LEARNERS["dqn"], "seeds=[0]", packs=[(0,)]).glob(
        "*/*/*/seed-0"
    )
    for task in ("steps", "wide"):  # a grid of another size is still read
        assert cli.main(["eval", str(run), f"task={task}", "--episodes", "2", "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 2
    assert cli.main(["eval", str(run), "task=blind"]) == 2
    assert "part 'place' of its observations is float32 [3], against float32 [2]" in capsys.readouterr().err
    assert cli.main(["eval", str(run), "suite=classic", "task=CartPole-v1"]) == 2
    assert "observations are one array, against map, place, frames, word" in capsys.readouterr().err


def test_an_encoder_of_another_package_is_used_where_it_is_named_and_is_among_a_run_s_sources(
    plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    """The encoder is that of docs/observations.md."""
    page = (Path(__file__).parents[2] / "docs" / "observations.md").read_text()
    (source,) = re.findall(r'```python title="mean_colour.py"\n(.*?)```', page, flags=re.DOTALL)
    plugin("mean_colour", source, {"encoder": "mean_colour"})
    suite_source = SOURCE.read_text().replace('@register.suite("seen_corridor")', '@register.suite("coloured")')
    suite_source = suite_source.replace('"uint8", stack=2)', '"uint8", stack=2, encoder="mean_colour")')
    plugin("coloured", suite_source, {"suite": "coloured"})
    words = ("suite=coloured", "method=uer", *LEARNERS["dqn"], "seeds=[0]")
    (run,) = train(*words, packs=[(0,)]).glob("*/*/*/seed-0")
    policy = load_file(run / "policy.safetensors")
    assert policy["encoder.frames.weight"].shape == (2, 8) and policy["encoder.frames.weight"].std() > 0
    (cell,) = matrix.plan([*words, "profile=smoke"]).cells
    digests = sources.of(cell.names)
    assert digests["package mean_colour"] == "1.0" and "mean_colour" in digests


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_dry_run_tells_hours_and_bytes_of_records(
    learner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["suite=seen_corridor", "profile=smoke", "method=uer", *LEARNERS[learner], f"output={tmp_path / 'study'}"]
    assert cli.main(["run", *words, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "corridor" in output and "uer" in output
    (cell,) = matrix.plan(words).cells
    observations, actions = cell.section("suite").spaces(cell.names.task)
    reading = cell.section("learner").reading(observations)
    assert cell.section("learner").multiplications_to_act(observations, actions) > reading.multiplications > 217_152
    action = 2 if actions.discrete else 4
    # 80 steps, no demonstrations: a map of 5 bytes, a place of 8, a frame of the two of 7·7, a word of 8
    assert ring_bytes(cell) == 80 * (5 + 8 + 49 + 8 + action + 7)


def test_a_foreign_method_records_a_run_on_records(tmp_path: Path) -> None:
    environment = guidebench.make(
        "seen_corridor/steps", profile="smoke", record=tmp_path / "study", method="random", seed=1, steps=30
    )
    environment.reset()
    for _ in range(30):
        _, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
        if terminated or truncated:
            environment.reset()
    observation, _ = environment.evaluation.reset()
    while True:
        assert environment.observation_space.contains(observation)
        observation, _, terminated, truncated, _ = environment.evaluation.step(int(observation["word"][0]))
        if terminated or truncated:
            break
    environment.close()
    (run,) = (tmp_path / "study").glob("*/*/*/seed-1")
    assert [row["success"] for row in log_rows(run, "evaluations")] == [True]


def demonstration_request(count: int = 2) -> DemonstrationSpec:
    return DemonstrationSpec("seen_corridor", registry.get("suite", "seen_corridor")(), "steps", count)


def test_demonstrations_of_records_are_kept_and_read_back(cache: Path) -> None:
    episodes = demonstrations.make(demonstration_request())
    demonstrations.keep(episodes, demonstration_request())
    reread = demonstrations.read(demonstration_request().file)
    for episode, copy in zip(episodes, reread.episodes, strict=True):
        assert episode.observation.dtype == copy.observation.dtype and episode.observation.dtype.names
        assert all(getattr(episode, name).tobytes() == getattr(copy, name).tobytes() for name in episode._fields[1:])
    description = json.loads(demonstration_request().file.read_text())
    assert description["fields"]["observation"][1] == ["place", "<f4", [2]]
    description["fields"]["observation"][1][1] = "|O8"
    demonstration_request().file.write_text(json.dumps(description))
    with pytest.warns(UserWarning, match="is damaged"):
        assert demonstrations.read(demonstration_request().file) is None


def test_a_demonstration_that_replays_otherwise_is_told_by_its_part() -> None:
    (episode,) = demonstrations.make(demonstration_request(1))
    task = demonstration_request().suite.make("steps")
    demonstrations.verify(episode, task, "it")
    episode.next_observation["place"][-1, 1] += 2
    check_refused(
        rf"next_observation\.place\[1\] of step {episode.length - 1} is", demonstrations.verify, episode, task, "it"
    )


def test_gymnasium_sees_a_dict_of_spaces() -> None:
    environment = guidebench.make("seen_corridor/steps", profile="smoke")
    space = environment.observation_space
    assert isinstance(space, gymnasium.spaces.Dict) and [*space] == ["frames", "map", "place", "word"]
    frames, word = space["frames"], space["word"]
    assert isinstance(frames, gymnasium.spaces.Box) and frames.dtype == np.uint8 and frames.high.max() == 255
    assert isinstance(word, gymnasium.spaces.Box) and word.high.tolist() == [1] and word.low.tolist() == [0]
    observation, _ = environment.reset(seed=3)
    assert space.contains(observation)
    copies = {name: part.copy() for name, part in observation.items()}
    following, *_ = environment.step(1)
    assert space.contains(following) and all(np.array_equal(observation[name], copies[name]) for name in observation)
    assert np.array_equal(following["frames"][..., 0], observation["frames"][..., 1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("method=pebble", "task=slides"), "a vector of numbers, and these are the parts map, place, frames, word"),
        (("method=uer", "task=steps", "learner=sac"), "it needs continuous actions"),
    ],
)
def test_what_needs_a_vector_says_so_while_a_command_is_planned(words: tuple[str, ...], message: str) -> None:
    check_refused(message, matrix.plan, ["suite=seen_corridor", "profile=smoke", *words])


@pytest.mark.parametrize(
    ("original", "broken", "says"),
    [
        ('"place": Observations((2,), "float32")', '"place": Observations((2,), "float64")', ""),
        ("np.zeros((), self.space.numpy)", "np.zeros((2,), self.space.numpy)[0]", ""),
        (
            "[self.former, self.frame()]",
            "[self.frame(), self.former]",
            r"steps, part 'frames': after a step its stack of 2 frames does not hold the frames",
        ),
        ('record["word"] = self.goal > self.at', 'record["word"] = 2', r"steps, part 'word': codes up to \[2\]"),
        ('record["word"] = self.goal > self.at', 'record["word"] = -1', r"part 'word': codes from \[-1\] on"),
        ("= self.at, self.goal\n", "= self.at, np.nan\n", r"steps, part 'place': an observation holds \["),
        (
            "return record\n",
            'return record["place"]\n',
            r"observation is float32 \[2\], and its space says \[\('map'",
        ),
    ],
)
def test_a_suite_of_records_that_breaks_its_contract_is_told_by_the_part(
    plugin: Callable[..., Path], original: str, broken: str, says: str
) -> None:
    source = SOURCE.read_text().replace('@register.suite("seen_corridor")', '@register.suite("broken")')
    assert original in source
    plugin("broken_corridor", source.replace(original, broken), {"suite": "broken"})
    if not says:
        testing.check_suite("broken", ["steps"], steps=60)
        return
    with pytest.raises(AssertionError, match=says):
        testing.check_suite("broken", ["steps"], steps=60)


@pytest.mark.parametrize(
    ("encoder", "message"), [("vecto", "did you mean 'vector'"), ("image", "'image' reads an image")]
)
def test_an_encoder_that_a_part_cannot_have_is_refused_with_the_plan(
    plugin: Callable[..., Path], encoder: str, message: str
) -> None:
    source = SOURCE.read_text().replace('@register.suite("seen_corridor")', '@register.suite("named")')
    source = source.replace('Observations((2,), "float32")', f'Observations((2,), "float32", encoder="{encoder}")')
    plugin("named_corridor", source, {"suite": "named"})
    with pytest.raises(UserError, match=rf"part 'place' of the observations.*{message}"):
        matrix.plan(["suite=named", "task=steps", "method=uer", "profile=smoke"])


def test_a_mask_of_actions_is_one_vector_of_a_record() -> None:
    mask = Observations((3,), "uint8", (2, 2, 2), mask=True)
    plain = Observations((2,), "float32")
    assert plain.masking == "" and plain.joined(may=mask).masking == "may"
    with pytest.raises(ValueError, match=r"has shape \(count,\), and this one has \(3, 2\)"):
        Observations((3, 2), "uint8", mask=True)
    with pytest.raises(ValueError, match="parts 'may' and 'might' are both masks of the actions; declare one"):
        plain.joined(may=mask, might=mask)
