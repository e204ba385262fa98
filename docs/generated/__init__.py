"""Generators of the site's pages and pictures from the code and from the repository's own data."""
