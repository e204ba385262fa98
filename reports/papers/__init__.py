"""Our runs laid out as a paper's own tables and figures, the published numbers beside ours."""
