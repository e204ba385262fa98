"""Three small agents as packages outside the tree: what the engine must bear before papers that need it come."""
