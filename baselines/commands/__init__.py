"""Subcommands of `bench` provided by baselines; each is a module with HELP, add_arguments(parser) and run(args)."""
