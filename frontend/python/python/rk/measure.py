"""What a piece of training really takes: bytes from the allocator, seconds from the clock.

>>> with rk.measure.Addresses() as addresses:
...     step()
>>> print(addresses.peak(without=[p.grad for p in model.parameters()]))

The same measurements as :func:`rk.verify`'s. Peaks are above what is allocated when a measurement starts.
"""

from rk._plan.measure import Addresses, DeviceAddresses, Memory, addresses, memory, peak, seconds

__all__ = ["Addresses", "DeviceAddresses", "Memory", "addresses", "memory", "peak", "seconds"]
