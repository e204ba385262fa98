"""Subcommands of `bench` that belong to baselines; each is a module with HELP, add_arguments(parser) and run(args)."""
