"""The Gymnasium face: tasks as environments for training scripts of others, and a recorder of their evaluations."""
