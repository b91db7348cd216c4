"""codegen ``inductor``: plans on Inductor's kernels, which Inductor then obeys.

What Inductor would make of PyTorch's own partition is read before any code is made of it (:mod:`.lowering`,
:mod:`.reading`): each of its kernels is one operator for the planner. The plan is written back as two graphs
whose nodes say to which run they belong (:mod:`.writer`), kernels are fused inside of a run only and stay in
the order of the runs (:mod:`.pinning`), and what Inductor's wrapper will allocate and free is added up before
a kernel is compiled (:mod:`.replay`).
"""
