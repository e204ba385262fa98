"""The package's own environment, corrected independently of the suite: its chunks keep their objects in order of
entry."""

import collections

import crafter
from crafter import constants, engine


class InOrder(dict):
    """A set in order of entry, with the operations that the package uses on a chunk."""

    def add(self, thing):
        self[thing] = True

    def remove(self, thing):
        del self[thing]


class MendedWorld(engine.World):
    def reset(self, seed=None):
        super().reset(seed)
        self._chunks = collections.defaultdict(InOrder)


class Peer(crafter.Env):
    """The package's environment; it draws at every step, or with `always=False` only at night, where drawing uses
    random numbers."""

    def __init__(self, seed, always=True, **settings):
        super().__init__(seed=seed, **settings)
        self._world = MendedWorld(self._area, constants.materials, (12, 12))
        self._local_view._world = self._sem_view._world = self._world
        self.always, self.nights, self.before = always, 0, None

    def _obs(self):
        night = self._world.daylight < 0.5
        self.nights += night
        self.before = self._world.random.get_state()
        return self.render() if night or self.always else None

    def again(self, size):
        """Render the present step at another size as if for the first time, and leave the random stream unchanged."""
        after = self._world.random.get_state()
        self._world.random.set_state(self.before)
        picture = self.render((size, size))
        self._world.random.set_state(after)
        return picture
