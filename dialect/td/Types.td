// Types of the dialect rk. Tensors are the builtin ones, with the encoding of Attributes.td.

#ifndef RK_TYPES_TD
#define RK_TYPES_TD

include "Dialect.td"
include "mlir/IR/AttrTypeBase.td"

def Rk_Generator : TypeDef<Rk_Dialect, "Generator"> {
  let mnemonic = "generator";
  let summary = "the saved state of a random generator";
  let description = [{
    The state of the device's default generator just before a random node ran for the first time. A second run takes it
    as its last operand, draws the same numbers, and puts the generator back (law S4). It has bytes like any value (5056
    on the CPU) and is dropped like any value.

    ```mlir
    %drop, %drop.state = rk.run @drop(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
    %drop_0 = rk.run again @drop(%x, %drop.state) : (tensor<8xf32>, !rk.generator) -> tensor<8xf32>
    ```
  }];
}

def Rk_Host : TypeDef<Rk_Dialect, "Host"> {
  let mnemonic = "host";
  let summary = "a copy of a value in host memory";
  let description = [{
    What `rk.offload` makes, and `rk.fetch` brings back to the device. No run reads it. It counts in host memory until it is dropped
    (law S12).

    ```mlir
    %norm.host = rk.offload %norm : tensor<8x16xf32>
    rk.wait %norm.host : !rk.host<tensor<8x16xf32>>
    ```
  }];
  let parameters = (ins "::mlir::Type":$held);
  let assemblyFormat = "`<` $held `>`";
  let genVerifyDecl = 1;
}

// What a value of a step may be: a tensor of static shape, an undefined tensor (`none`), or a generator state.
def Rk_Tensor : AnyTypeOf<[AnyStaticShapeTensor, NoneType], "a tensor of static shape or none">;
def Rk_Value : AnyTypeOf<[AnyStaticShapeTensor, NoneType, Rk_Generator],
                         "a tensor of static shape, none or !rk.generator">;
def Rk_Moved : AnyTypeOf<[AnyStaticShapeTensor, Rk_Host], "a tensor of static shape or !rk.host">;
def Rk_Owned : AnyTypeOf<[AnyStaticShapeTensor, NoneType, Rk_Generator, Rk_Host],
                         "a tensor of static shape, none, !rk.generator or !rk.host">;

#endif // RK_TYPES_TD
