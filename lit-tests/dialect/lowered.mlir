// Ops of stage lowered, read and printed; and the laws on addresses, one violation each.
// RUN: rk-opt %s -split-input-file -verify-diagnostics

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %x : tensor<16xf32>
}
// In place, with a workspace, and the bytes of a dead value used again: legal.
func.func @legal(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @a(%x) into(%0) workspace [64, 128] stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch overwrite @relu(%0) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %2 = rk.buffer arena[128] : tensor<16xf32>
  rk.launch again @a(%x) into(%2) stream(1) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s7_two_values_share_bytes(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-note @below {{'a' lies at 0 and takes 64 bytes}}
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @below {{S7: 'a' and 'a' share bytes while both are needed}}
  %1 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch again @a(%x) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0, %1 : tensor<16xf32>, tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s7_a_workspace_on_its_result(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-error @below {{S7: the workspace of 'a' and 'a' share bytes while both are needed}}
  %0 = rk.buffer arena[64] : tensor<16xf32>
  // expected-note @below {{the workspace of 'a' lies at 0 and takes 128 bytes}}
  rk.launch @a(%x) into(%0) workspace [0, 128] stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s7_outside(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-error @below {{S7: 'a' ends 64 bytes behind 192, outside of arena with its 192 bytes}}
  %0 = rk.buffer arena[192] : tensor<16xf32>
  rk.launch @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s7_off_the_alignment(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-error @below {{S7: 'a' lies at 32, off the alignment of 64 bytes}}
  %0 = rk.buffer arena[32] : tensor<16xf32>
  rk.launch @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s1_read_before_written(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-note @below {{the buffer is here}}
  %0 = rk.buffer arena[0] : tensor<16xf32>
  %1 = rk.buffer arena[64] : tensor<16xf32>
  // expected-error @below {{S1: 'rk.buffer' is read by 'a' before anything is written there}}
  rk.launch @a(%0) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s6_written_twice(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-note @below {{the buffer is here}}
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @below {{S6: 'a' writes 'a' a second time}}
  rk.launch again @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %x : tensor<16xf32>
}
func.func @s6_overwrites_elsewhere(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  // expected-note @below {{the buffer is here}}
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = rk.buffer arena[64] : tensor<16xf32>
  // expected-error @below {{S6: 'relu' overwrites 'a', but writes into another place}}
  rk.launch overwrite @relu(%0) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %x : tensor<16xf32>
}
func.func @s6_read_after_overwrite(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = rk.buffer arena[0] : tensor<16xf32>
  // expected-error @below {{S6: 'a' is read by the return after 'relu' overwrote it}}
  rk.launch overwrite @relu(%0) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0, %1 : tensor<16xf32>, tensor<16xf32>
}

// -----

rk.node @a {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s4_again_first(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  // expected-error @below {{S4: 'a' runs again before its first run}}
  rk.launch again @a(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

rk.node @drop random {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.dropout.default"(%x, 0.5, true) random : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s4_the_generator_is_put_back(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 5248 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  %s = rk.buffer arena[64] : !rk.generator
  rk.save_state %s : !rk.generator
  rk.launch @drop(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = rk.buffer arena[5120] : tensor<16xf32>
  rk.load_state %s : !rk.generator
  // expected-error @below {{S4: the generator is not put back after 'drop' ran again}}
  rk.launch again @drop(%x) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @drop random {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.dropout.default"(%x, 0.5, true) random : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @s4_no_state(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 128 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @drop(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = rk.buffer arena[64] : tensor<16xf32>
  // expected-error @below {{S4: 'drop' is random and runs again, but no state was saved right before its first launch}}
  rk.launch again @drop(%x) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @count once {
^bb0(%n: tensor<i64>):
  %y = rk.aten "aten.add_.Scalar"(%n, 1, 1) writes(0) aliases(0) : (tensor<i64>) -> tensor<i64>
  rk.yield
}
func.func @s5_once(%n: tensor<i64>) attributes {rk.stage = #rk.stage<lowered>, rk.arena = 0 : i64} {
  // expected-note @below {{its first run is here}}
  rk.launch @count(%n) stream(0) : (tensor<i64>) -> ()
  // expected-error @below {{S5: 'count' has a side effect that must happen once, but runs again}}
  rk.launch again @count(%n) stream(0) : (tensor<i64>) -> ()
  return
}

// -----

func.func @no_such_kernel() attributes {rk.stage = #rk.stage<lowered>, rk.arena = 0 : i64} {
  // expected-error @below {{there is no rk.node 'gone' in this module}}
  rk.launch @gone() stream(0) : () -> ()
  return
}

// -----

// expected-error @below {{a buffer lies in one of arena, gradients, parking}}
%0 = rk.buffer attic[0] : tensor<16xf32>

// -----

// expected-error @below {{an offset is not negative}}
%0 = rk.buffer arena[-64] : tensor<16xf32>
