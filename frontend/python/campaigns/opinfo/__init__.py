"""PyTorch's own operator tests as a peer: every sample of its databases through compile and import.

``python -m campaigns.opinfo --help`` says how it is run. :mod:`.families` reads the databases,
:mod:`.program` puts a training function around a sample, :mod:`.compiled` and :mod:`.imported` run it in each
of rk's ways and compare bits, :mod:`.worker` does so in a process that may die, :mod:`.table` sums up.
"""
