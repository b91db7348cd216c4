// The laws hold inside stock mlir-opt too: a verifier in Rust, called by a plugin.
// REQUIRES: plugin
// RUN: mlir-opt %s --load-dialect-plugin=%plugin -verify-diagnostics

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}

func.func @s3_never_dropped(%x: tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S3: 'fc' is neither dropped nor returned}}
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{the step ends here}}
  return
}
