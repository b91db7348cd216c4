"""rk measured on a GPU: ``python -m gpu_suite --out DIR``. In the repository, not in the wheel."""
