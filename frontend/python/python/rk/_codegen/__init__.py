"""From a plan to what runs: graphs of PyTorch, Inductor's kernels, or rk's own runtime."""
