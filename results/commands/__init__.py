"""Subcommands of `bench` about the record: handing in and checking."""
