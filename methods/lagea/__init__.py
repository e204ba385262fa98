"""LaGEA: a model writes feedback on each episode."""

from guidebench.methods.lagea import feedback as feedback
