"""rk beside PyTorch's own ways to save memory: ``python -m benchmarks --help``."""
