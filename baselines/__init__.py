"""Shared building blocks and baseline methods: learners, replay, guides, teachers, agents."""

if __name__ != "guidebench.baselines":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.baselines; import it by that name, not as {__name__!r}")
