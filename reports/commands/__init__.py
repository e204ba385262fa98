"""Subcommands of `bench` that read results; each is a module with HELP, add_arguments(parser) and run(args)."""
