"""A paper's own tables and figures filled with our runs, beside the published numbers."""
