"""Running mean and variance of each seed."""

import numpy as np

from guidebench.baselines.moments import Moments


def test_moments_of_two_batches_are_those_of_all() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(3, 2, (50, 4)).astype(np.float32)
    moments = Moments(2, 4)
    assert (moments.variance == 1).all() and (moments.mean == 0).all()
    for part in (values[:7], values[7:8], values[8:]):
        moments.add(1, part)
    np.testing.assert_allclose(moments.mean[1], values.mean(0, np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.variance[1], values.var(0, np.float64), rtol=1e-12)
    assert (moments.variance[0] == 1).all() and moments.count.tolist() == [0, 50]
