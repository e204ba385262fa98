"""What methods that learn a reward from preferences share: segments, a reward ensemble, teachers, exploration."""
