"""The page that `bench watch` serves and keeps up to date: its contents, the server, and the report behind it."""
