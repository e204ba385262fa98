"""Pages and pictures of the documentation's site that are made from the code and from the repository's own data."""
