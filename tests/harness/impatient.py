"""Imported into a test's fork server, so that it kills processes half a second after their parent has ended."""

from guidebench.harness import heartbeats

heartbeats.STOPPING = 0.5
