"""Writes the dataset beside this file with LeRobot's own package, and loads datasets that `bench dataset` wrote.

LeRobot 0.4.4 needs older versions of torch and of the Hub's client than this project, so it has an environment of its
own, and no test runs this file. `log.txt` holds what it printed.

    python3.11 -m venv lerobot && lerobot/bin/pip install lerobot==0.4.4
    lerobot/bin/python with_lerobot.py write fixture
    lerobot/bin/python with_lerobot.py load DIRECTORY …
"""

import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

EPISODES, ROWS = 3, 5
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "speed"]},
    "observation.image": {"dtype": "image", "shape": (64, 64, 3), "names": ["height", "width", "channel"]},
    "action": {"dtype": "float32", "shape": (1,), "names": ["torque"]},
    "choice": {"dtype": "int64", "shape": (1,), "names": None},
    "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "next.success": {"dtype": "bool", "shape": (1,), "names": None},
}


def write(root: Path) -> None:
    """Write three episodes of five rows; only the second is done at its end, with a success."""
    shutil.rmtree(root, ignore_errors=True)
    dataset = LeRobotDataset.create("guidebench/fixture", fps=10, features=FEATURES, root=root, use_videos=False)
    for episode in range(EPISODES):
        for row in range(ROWS):
            ended = episode == 1 and row == ROWS - 1
            dataset.add_frame(
                {
                    "observation.state": np.array([episode, row, row / 10], np.float32),
                    "observation.image": np.full((64, 64, 3), (episode, row, 7), np.uint8),
                    "action": np.array([row - 2], np.float32),
                    "choice": np.array([episode + row]),
                    "next.reward": np.array([-row], np.float32),
                    "next.done": np.array([ended]),
                    "next.success": np.array([ended]),
                    "task": f"swing pendulum {episode % 2} up",
                }
            )
        dataset.save_episode()
    dataset.finalize()
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    print(f"lerobot {version('lerobot')} wrote {root.name}: {EPISODES} episodes, {size:,} bytes")


def load(root: Path) -> None:
    """Load a dataset and print what its first and last rows hold."""
    dataset = LeRobotDataset(f"guidebench/{root.name}", root=root)
    print(f"lerobot {version('lerobot')} loads {root.name}: {dataset.num_episodes} episodes, {dataset.num_frames} rows")
    for at in (0, len(dataset) - 1):
        for name, tensor in sorted(dataset[at].items()):
            words = (
                repr(tensor)
                if isinstance(tensor, str)
                else f"{tensor.dtype} {list(tensor.shape)} mean {tensor.double().mean():.4f}"
            )
            print(f"  row {at}: {name}: {words}")


if __name__ == "__main__":
    for directory in sys.argv[2:]:
        {"write": write, "load": load}[sys.argv[1]](Path(directory))
