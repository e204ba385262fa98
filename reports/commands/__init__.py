"""Subcommands of `bench` that read results. Each module has HELP, add_arguments(parser) and run(args)."""
