"""One budget for all graphs of a training step: which plan each call of a compiled graph runs.

Words. A compiled graph is a *class* (:class:`rk._run.classes.GraphClass`), each call of it an *instance*,
open from its forward half to its last backward half. Classes on one device whose options say the same
budget, scope and group are a :class:`rk._run.group.Group`, and share that budget: what all open instances
hold, what the half that runs takes, and what lies beside them (residual streams, eager code) is within it
at any time.

Decisions, and why.

* **Variants.** A class has a few plans: one that holds nothing that can be run again (the *checkpoint*,
  which needs no search), one that keeps all, and up to two between them, planned for what an instance may
  hold in the sequence at hand. They are planned and written when a choice needs them: a model that is one
  graph has one plan, as ever.
* **One compiled callable.** AOTAutograd fixes how many tensors are saved. Those of the first plan are the
  slots; another variant fills the slots that it shares, and leaves one empty tensor in the others. What
  it saves beyond them waits on the instance, with a version check of its own. So variants can be added at
  any time, and nothing is compiled again.
* **Tickets.** One more saved tensor says which instance a backward pass belongs to. Its lifetime is that
  of the saved values, so it also tells when an instance is over without a backward pass (see
  :mod:`rk._codegen.native`, whose scheme of ticket and keeper it is).
* **The sequence is observed.** A step begins with a forward half while no instance is open. While a step
  is not known it is *careful* (:mod:`rk._run.careful`): each instance runs what holds least, and memory is
  read at every event (:mod:`rk._run.observe`). From such a step come what lies beside at each event and the
  choice, by ``rk_solve::choose``. A step that departs from the known sequence is careful from there on, and
  is learnt again from the next one. Which sequence comes is foretold (:mod:`rk._run.sequences`). A step
  goes on while a checkpoint of the user's has not made its calls once more (:mod:`rk._run.awaited`).
* **A graph alone** is neither observed nor careful: as long as no two instances were open at once it runs
  the plan for the whole budget. When a second one begins, the first becomes a checkpoint, from arguments
  that are remembered for this (:mod:`rk._run.less`), and the step is careful from there on.
* **Scope `device`** has a group of its own kind (:mod:`rk._run.device_scope`): all that is allocated counts,
  so every step is observed, that of a graph alone, too. What an optimizer will add is foreseen
  (:mod:`rk._run.optimizers`), and its step is checked before it runs.
* **Ranks agree** on a choice where there are several processes (:mod:`rk._run.agreement`).
* **Classes with one variant** (Inductor's kernels, rk's runtime, graphs with operators of higher order)
  are compiled again when the choice gives them another share. That is all that their interface has to
  offer: numbers of a plan, a forward and a backward callable, and ``stale``.
"""
