"""The subcommands of `bench models`, a module each with HELP, add_arguments(parser) and run(args) -> exit code."""
