// Ops of the dialect rk. docs/ir.md shows them at work; the laws S1-S12 stand in Dialect.td.

#ifndef RK_OPS_TD
#define RK_OPS_TD

include "Dialect.td"
include "Attributes.td"
include "Types.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Rk_Op<string mnemonic, list<Trait> traits = []> : Op<Rk_Dialect, mnemonic, traits>;

def Rk_Effects : DeclareOpInterfaceMethods<MemoryEffectsOpInterface>;
def Rk_ResultNames : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>;

def Rk_AtenOp : Rk_Op<"aten", [Rk_Effects, Rk_ResultNames]> {
  let summary = "one ATen operator call";
  let description = [{
    The operator is named `namespace.name.overload`, with `default` for the empty overload. Arguments stand in schema
    order: an SSA value, `none`, an integer, a float, `true` or `false`, a string, or a list of these.

    ```mlir
    %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %c = rk.aten "aten.cat.default"([%a, %b], 1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
    %k = rk.aten "aten.bernoulli_.float"(%e, 0.9, none) writes(0) aliases(0) random : (tensor<8xf32>) -> tensor<8xf32>
    ```

    Clauses after the arguments, each optional:

    - `writes(i, ...)`: SSA operands (not schema arguments) whose storage the operator overwrites
    - `effects(i, ...)`: like `writes`, for an optional operand that holds state of the model (running statistics): the
      first run updates it, a second run is given `none` in its place
    - `aliases(a, ...)`: per result, the operand whose storage it shares, or -1; left out when every result is fresh
    - `random`: draws from the device's default generator
    - `backward`: belongs to the backward pass
    - `cost <...>`: what the call takes

    In the generic form `args` holds `unit` where the next operand goes.

    Effects: a fresh result is allocated (equal calls are not merged, an unused one may be erased), a written operand is
    written, a random call reads and writes the generator. A call that only makes views has no effect.
  }];
  let arguments = (ins Variadic<Rk_Tensor>:$inputs, StrAttr:$op_name, ArrayAttr:$args,
                       OptionalAttr<DenseI64ArrayAttr>:$writes, OptionalAttr<DenseI64ArrayAttr>:$effects,
                       OptionalAttr<DenseI64ArrayAttr>:$aliases, UnitAttr:$random, UnitAttr:$backward,
                       OptionalAttr<Rk_CostAttr>:$cost);
  let results = (outs Variadic<Rk_Tensor>:$outputs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Rk_ConstantOp : Rk_Op<"constant", [Rk_Effects, AllTypesMatch<["value", "output"]>]> {
  let summary = "a tensor baked into the trace";
  let description = [{
    Resident: it exists before the step, and does not count as an activation.

    ```mlir
    %c = rk.constant dense<[1, 2]> : tensor<2xi64>
    ```

    Two equal constants are not merged, because an in-place operator may write to one of them.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyStaticShapeTensor:$output);
  let assemblyFormat = "$value attr-dict";
}

def Rk_WriteOp : Rk_Op<"write", [Rk_Effects, Rk_ResultNames, IsolatedFromAbove, SingleBlock]> {
  let summary = "a new version of a value";
  let description = [{
    Operand 0 is the old version. The body receives the operands, mutates its first argument in place, possibly through
    views, and yields it. As a value operation it leaves the old version intact; whether the storage is really reused is
    the schedule's decision.

    What else the body makes may be yielded behind it: an operator that writes to two values works on the first, and on a
    copy of the second that it yields.

    ```mlir
    %y1 = rk.write(%y0, %src) {
    ^bb0(%y: tensor<4x2xf32>, %s: tensor<4x1xf32>):
      %v = rk.aten "aten.slice.Tensor"(%y, 1, 0, 1, 1) aliases(0) : (tensor<4x2xf32>) -> tensor<4x1xf32, #rk.strided<[2, 1], storage 32>>
      %w = rk.aten "aten.copy_.default"(%v, %s, false) writes(0) aliases(0) : (tensor<4x1xf32, #rk.strided<[2, 1], storage 32>>, tensor<4x1xf32>) -> tensor<4x1xf32, #rk.strided<[2, 1], storage 32>>
      rk.yield %y : tensor<4x2xf32>
    } : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Variadic<Rk_Tensor>:$inputs);
  let results = (outs Variadic<Rk_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Rk_NodeOp : Rk_Op<"node", [Symbol, IsolatedFromAbove, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one real computation, written once and run by name";
  let description = [{
    A node is written once; a recomputation is a second `rk.run` of it. The order of the nodes in the module is the
    original order of execution.

    ```mlir
    rk.node @layer1.0.relu overwrites(0) cost <310 ns, workspace 0 B> {
    ^bb0(%x: tensor<8x16xf32>):
      %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      rk.yield %x : tensor<8x16xf32>
    }
    ```

    - `overwrites(i)`: the body mutates argument i and yields it as its first result
    - `random`: draws from the device's default generator
    - `once`: has a side effect that cannot be left out on a second run, so there is none
    - `backward`: belongs to the backward pass
    - `cost <...>`: what one run takes
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<I64Attr>:$overwrites, UnitAttr:$random, UnitAttr:$once, UnitAttr:$backward,
                       OptionalAttr<Rk_CostAttr>:$cost);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Rk_RunOp : Rk_Op<"run", [Rk_Effects, Rk_ResultNames, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one execution of a node";
  let description = [{
    `again` marks every run but the first; what the node made is dropped or overwritten before (law S3). `overwrite` hands
    the storage of the node's `overwrites` operand over to the first result: that operand is dead afterwards, without a
    drop. Without it, a node that overwrites works on a copy.

    ```mlir
    %conv1 = rk.run @conv1(%x, %w) : (tensor<8x3xf32>, tensor<4x3xf32>) -> tensor<8x4xf32>
    %relu = rk.run overwrite @relu(%conv1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %conv1_0 = rk.run again @conv1(%x, %w) : (tensor<8x3xf32>, tensor<4x3xf32>) -> tensor<8x4xf32>
    ```

    The first run of a `random` node that is run again has one more result, the generator state it started from; each
    `again` takes it as one more operand.

    Effects: never erased, never merged, never moved across another run, because a schedule is exact.
  }];
  let arguments = (ins Variadic<Rk_Value>:$inputs, FlatSymbolRefAttr:$node, UnitAttr:$again, UnitAttr:$overwrite);
  let results = (outs Variadic<Rk_Value>:$outputs);
  let hasCustomAssemblyFormat = 1;
}

def Rk_DropOp : Rk_Op<"drop"> {
  let summary = "frees a value";
  let description = [{
    The value is dead afterwards (laws S1 to S3).

    ```mlir
    rk.drop %conv1 : tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Arg<Rk_Owned, "the value that is freed", [MemFree]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

// Transfers between device and host memory: two starts and their ends.

class Rk_TransferOp<string mnemonic, list<Trait> traits = []> : Rk_Op<mnemonic, !listconcat([
    Rk_Effects, Rk_ResultNames,
    TypesMatchWith<"the copy in host memory is one of the value", "value", "copy",
                   "::rk::HostType::get($_self.getContext(), $_self)">], traits)>;

def Rk_OffloadOp : Rk_TransferOp<"offload"> {
  let summary = "starts to copy a value to host memory";
  let description = [{
    The copy engine from device to host gets the value here, and works while the runs go on. The transfer has ended at the `rk.wait`
    of the copy. From there on the value is away (law S11) and its storage is dropped.

    ```mlir
    %norm.host = rk.offload %norm : tensor<8x16xf32>
    %up = rk.run @up(%norm) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    rk.wait %norm.host : !rk.host<tensor<8x16xf32>>
    rk.drop %norm : tensor<8x16xf32>
    ```

    Between two runs, waits stand first, then drops, then starts of transfers.
  }];
  let arguments = (ins AnyStaticShapeTensor:$value);
  let results = (outs Rk_Host:$copy);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Rk_FetchOp : Rk_TransferOp<"fetch"> {
  let summary = "starts to copy a value from host memory back to the device";
  let description = [{
    The copy engine from host to device gets the copy here, and the new value counts on the device. It can be read from its `rk.wait`
    on. The copy in host memory stays good, for further fetches, until it is dropped.

    ```mlir
    %norm_0 = rk.fetch %norm.host : tensor<8x16xf32>
    %down = rk.run @down(%up) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    rk.wait %norm_0 : tensor<8x16xf32>
    rk.drop %norm.host : !rk.host<tensor<8x16xf32>>
    %add = rk.run @add(%norm_0, %down) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Rk_Host:$copy);
  let results = (outs AnyStaticShapeTensor:$value);
  let assemblyFormat = "$copy attr-dict `:` type($value)";
}

def Rk_WaitOp : Rk_Op<"wait", [Rk_Effects]> {
  let summary = "the point at which a transfer must have ended";
  let description = [{
    The operand is what an `rk.offload` or an `rk.fetch` makes. The runs behind wait until that transfer has ended. Every transfer is
    waited for once, and a run stands between its start and its end (law S10).

    ```mlir
    rk.wait %norm.host : !rk.host<tensor<8x16xf32>>
    rk.wait %norm_0 : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Rk_Moved:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

// Stage lowered: places in spaces of bytes, and launches that read and write them.

def Rk_BufferOp : Rk_Op<"buffer", [Rk_ResultNames]> {
  let summary = "a place for one value";
  let description = [{
    The value lies at a byte offset of a space. Spaces are `arena` (all that the step allocates; `rk.arena` bytes),
    `gradients` (the gradient buffers, which outlive the step; `rk.gradients` bytes) and `parking` (the generator's own
    state, while a random kernel runs again). A buffer is written by one op and dead after its last use; the same bytes may
    serve another buffer then (law S7).

    ```mlir
    %conv1 = rk.buffer arena[8192] : tensor<8x4xf32>
    %fc.backward = rk.buffer gradients[0] : tensor<4x3xf32>
    ```
  }];
  let arguments = (ins StrAttr:$space, I64Attr:$offset);
  let results = (outs Res<Rk_Value, "a place", [MemAlloc]>:$place);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Rk_LaunchOp : Rk_Op<"launch", [Rk_Effects, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one kernel launch";
  let description = [{
    Launches a kernel (a node of the module) on values at fixed places. The operands behind `into` are written. The kernel may
    use `workspace [offset, bytes]` of the arena while it runs, and nothing else.

    ```mlir
    %conv1 = rk.buffer arena[0] : tensor<8x4xf32>
    rk.launch @conv1(%x, %w) into(%conv1) workspace [8192, 64] stream(0) : (tensor<8x3xf32>, tensor<4x3xf32>) -> tensor<8x4xf32>
    %relu = rk.buffer arena[0] : tensor<8x4xf32>
    rk.launch overwrite @relu(%conv1) into(%relu) stream(0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    ```

    `again` marks every launch of a kernel but the first: state of the model is not updated again. With `overwrite` the
    first written buffer is the storage of the operand that the node overwrites, at the same place; without it, a kernel
    that overwrites copies that operand there first.
  }];
  let arguments = (ins Variadic<Rk_Value>:$places, FlatSymbolRefAttr:$kernel, I64Attr:$writes, UnitAttr:$again,
                       UnitAttr:$overwrite, OptionalAttr<DenseI64ArrayAttr>:$workspace, I64Attr:$stream);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Rk_SaveStateOp : Rk_Op<"save_state", [Rk_Effects]> {
  let summary = "copies the generator's state into a buffer";
  let description = [{
    ```mlir
    rk.save_state %state : !rk.generator
    ```
  }];
  let arguments = (ins Rk_Value:$state);
  let assemblyFormat = "$state attr-dict `:` type($state)";
}

def Rk_LoadStateOp : Rk_Op<"load_state", [Rk_Effects]> {
  let summary = "sets the generator to the state in a buffer";
  let description = [{
    A random kernel runs again between two of them (law S4):

    ```mlir
    rk.save_state %parked : !rk.generator
    rk.load_state %state : !rk.generator
    rk.launch again @drop(%x) into(%drop_0) stream(0) : (tensor<8xf32>) -> tensor<8xf32>
    rk.load_state %parked : !rk.generator
    ```
  }];
  let arguments = (ins Rk_Value:$state);
  let assemblyFormat = "$state attr-dict `:` type($state)";
}

def Rk_YieldOp : Rk_Op<"yield", [Terminator, Pure, ParentOneOf<["NodeOp", "WriteOp"]>]> {
  let summary = "ends a body with its results";
  let description = [{
    ```mlir
    rk.yield %y, %mask : tensor<8xf32>, tensor<8xi1>
    ```
  }];
  let arguments = (ins Variadic<Rk_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif // RK_OPS_TD
