"""How reports look: figures, terminal and LaTeX tables with their words, self-contained pages, templates."""
