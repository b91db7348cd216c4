// The dialect rk: its stages and the laws of a schedule, stated here once.
//
// Each law's label also stands in dialect/src/verify.rs, in the judge of rk-plan, and in the names of the tests:
// grep for S3 and find all four.

#ifndef RK_DIALECT_TD
#define RK_DIALECT_TD

include "mlir/IR/OpBase.td"

def Rk_Dialect : Dialect {
  let name = "rk";
  let cppNamespace = "::rk";
  let summary = "One training step, from recorded to scheduled";
  let description = [{
    One step of training (forward, loss, backward) is a `func.func`. Its attribute `rk.stage` names the contract
    that it satisfies; each stage is printable and is valid input for the next pass.

    | stage | contract | made by |
    |---|---|---|
    | `raw` | the recorded step: one ATen operator per op, in-place ops and views as they ran | `rk-import` |
    | `dataflow` | values only: in-place rewritten, views explicit with their base, side effects named, nothing dead | `--rk-dataflow` |
    | `simplified` | one real computation per `rk.node`; views and cheap arithmetic folded into its body | `--rk-simplify` |
    | `blocks` | equivalent blocks known as such: measured, planned and compiled once per class | `--rk-anonymize` |
    | `costed` | every node has a time and a workspace, measured or from a model | `--rk-annotate-cost` |
    | `scheduled` | runs, re-runs and drops obey the laws below | `--rematerialize` |
    | `lowered` | one op per kernel launch, buffers at byte offsets of one arena | `--rk-lower` |

    The laws of a schedule. A *production* is one run's result; running a node again is a new production.

    - **S1** every operand of a step is live: produced before, not dropped since
    - **S2** a drop names a live value, once per production
    - **S3** what is not an output is dropped by the end; whatever is produced again is dropped before, so that of all
      productions of a value one is live at a time
    - **S4** `again` comes after a first run and reproduces it bit for bit: the same node on the same values, a random
      node with the generator state of its first run; the generator is put back afterwards
    - **S5** a side effect happens exactly once per step, in its original order: running statistics, counters, the
      advance of the generator, collectives
    - **S6** nothing overwrites storage that a later step reads in its old value; a view keeps its base alive
    - **S7** at every step, live bytes at their planned, aligned addresses plus the node's workspace stay within the
      budget
    - **S8** outputs, gradients and buffers equal those of the step before the rewrite, bit for bit, on the same kernels
    - **S9** what the caller may change once the outputs are handed over (`rk.lent`) is read on the same side of the
      hand-over as in the step before the rewrite, and in front of it by one run of each node
    - **S10** a transfer moves what is there: an offload begins where the value is on the device, is not on its way, and is not
      returned; a fetch begins where host memory has all of it, and the value was not made again since; each ends once, behind
      its start, and nothing that is on its way is dropped
    - **S11** no run reads a value that is away, from the end of its offload to the end of its fetch; no run makes a value
      anew that is on its way
    - **S12** what is in host memory fits in the host's budget (`rk.host_budget`) at every run

    S1 to S6 and S9 to S11 are verified on every function whose `rk.stage` is `scheduled`, whenever MLIR verifies it, as far as the IR
    itself can show them. S7 needs addresses: at stage `lowered` they are in the IR, where no two values that live at the
    same time may share a byte, and all must lie in the arena; before, the judge in `rk-plan` adds up. S12 is
    added up by `--rk-verify-schedule`. What a kernel really takes is seen by the allocator of `rk-run`. S8 needs the numbers: `rk-run --check` compares them.

    Effects are declared so that `--cse` and `--canonicalize` are harmless at every stage: fresh storage is an allocation
    on the result (two equal calls are never merged), a run is never erased, a drop frees its operand.

    Attributes of the dialect on functions, arguments and results (`rk.stage`, `rk.role`, `rk.name`, ...) are listed in
    docs/ir.md.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // RK_DIALECT_TD
