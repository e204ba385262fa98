"""Subcommands of `bench` that submit and verify results."""
