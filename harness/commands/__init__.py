"""The built-in subcommands of `bench`, one module each; heavy imports inside `run`."""
