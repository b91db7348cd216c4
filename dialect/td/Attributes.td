// Attributes of the dialect rk: stage, cost, strided layout, and the absent argument.

#ifndef RK_ATTRIBUTES_TD
#define RK_ATTRIBUTES_TD

include "Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class Rk_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<Rk_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Rk_Stage : I32EnumAttr<"Stage", "the contract that a step satisfies", [
  I32EnumAttrCase<"Raw", 0, "raw">,
  I32EnumAttrCase<"Dataflow", 1, "dataflow">,
  I32EnumAttrCase<"Simplified", 2, "simplified">,
  I32EnumAttrCase<"Blocks", 3, "blocks">,
  I32EnumAttrCase<"Costed", 4, "costed">,
  I32EnumAttrCase<"Scheduled", 5, "scheduled">,
  I32EnumAttrCase<"Lowered", 6, "lowered">,
]> {
  let cppNamespace = "::rk";
  let genSpecializedAttr = 0;
}

def Rk_StageAttr : EnumAttr<Rk_Dialect, Rk_Stage, "stage"> {
  let summary = "the contract that a step satisfies";
  let description = [{
    Stands on a `func.func` as `rk.stage`. docs/ir.md has the contracts.

    ```mlir
    func.func @step(...) attributes {rk.stage = #rk.stage<scheduled>} { ... }
    ```
  }];
  let assemblyFormat = "`<` $value `>`";
}

def Rk_CostAttr : Rk_Attr<"Cost", "cost"> {
  let summary = "what one run takes";
  let description = [{
    The time of one run in nanoseconds, and the bytes that it needs only while it runs (its workspace). The bytes of the
    results are not repeated: they follow from the types.

    ```mlir
    #rk.cost<1200 ns, workspace 8192 B>
    ```
  }];
  let parameters = (ins "int64_t":$time, "int64_t":$workspace);
  let assemblyFormat = "`<` $time `ns` `,` `workspace` $workspace `B` `>`";
  let genVerifyDecl = 1;
}

def Rk_StridedAttr : Rk_Attr<"Strided", "strided", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "element strides of a tensor, and the bytes of its storage";
  let description = [{
    The encoding of a tensor type whose elements do not lie row-major and contiguous, or whose storage is longer than its
    elements. Without it, strides are row-major contiguous and the storage is exactly as long as the tensor.

    ```mlir
    tensor<8x16xf32, #rk.strided<[1, 8]>>             // transposed
    tensor<4xf32, #rk.strided<[2], storage 64>>       // every other element of a storage of 64 bytes
    ```

    Strides count elements, not bytes. Bytes of a value: the storage if given, else
    (1 + Σ (size - 1) · stride) · element size, and 0 when a size is 0.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$strides, "std::optional<int64_t>":$storage);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Rk_NoneAttr : Rk_Attr<"None", "none"> {
  let summary = "an argument that is not given";
  let description = [{
    Stands in the `args` of `rk.aten` for Python's `None`. Printed as `none` there.
  }];
}

#endif // RK_ATTRIBUTES_TD
