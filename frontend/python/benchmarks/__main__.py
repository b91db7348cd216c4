"""``python -m benchmarks``: see :mod:`benchmarks.cells`."""

from benchmarks.cells import main

main()
