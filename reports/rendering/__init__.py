"""The look of reports: figures, terminal and LaTeX tables with their wording, self-contained pages, templates."""
