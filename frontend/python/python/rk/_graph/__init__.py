"""A training step as PyTorch traces it: read, put in order, and spelled in the dialect rk."""
