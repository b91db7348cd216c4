// One case per refusal of the verifiers: each law under its label, then each op by itself.
// RUN: rk-opt %s -split-input-file -verify-diagnostics -o /dev/null

// S1: every operand of a step is live.

rk.node @layer1.0.conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s1_used_after_drop(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'layer1.0.conv1' is produced here}}
  %a = rk.run @layer1.0.conv1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{dropped here}}
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S1: 'layer1.0.conv1' is used by 'relu' after its drop}}
  %b = rk.run @relu(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s1_returned_after_drop(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'fc' is produced here}}
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{dropped here}}
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S1: 'fc' is used by the return after its drop}}
  return %a : tensor<8xf32>
}

// -----

// S2: a drop names a live value, once per production.

rk.node @layer1.0.conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x, %x : tensor<8xf32>, tensor<8xf32>
}
func.func @s2_dropped_twice(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a, %b = rk.run @layer1.0.conv1(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // expected-note @+1 {{dropped here first}}
  rk.drop %b : tensor<8xf32>
  // expected-error @+1 {{S2: 'layer1.0.conv1.1' is dropped a second time}}
  rk.drop %b : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

func.func @s2_resident(%x: tensor<8xf32> {rk.name = "fc.weight"}) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S2: 'fc.weight' is resident, not produced by the step, and cannot be dropped}}
  rk.drop %x : tensor<8xf32>
  return
}

// -----

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s2_view(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %v = rk.aten "aten.view.default"(%a, [8]) aliases(0) : (tensor<8xf32>) -> tensor<8xf32> loc("head")
  // expected-error @+1 {{S2: 'head.view' is a view of 'fc' and owns no storage to drop}}
  rk.drop %v : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %x : tensor<8xf32>
}
func.func @s2_overwritten(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{overwritten here}}
  %b = rk.run overwrite @relu(%a) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S2: 'fc' is dropped, but 'relu' has taken over its storage}}
  rk.drop %a : tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// S3: what is not an output is dropped by the end, and before it is produced again.

rk.node @gelu {
^bb0(%x: tensor<8xf32>):
  rk.yield %x, %x : tensor<8xf32>, tensor<8xf32>
}
func.func @s3_saved_value_never_dropped(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S3: 'gelu.1' is neither dropped nor returned}}
  %a, %saved = rk.run @gelu(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // expected-note @+1 {{the step ends here}}
  return %a : tensor<8xf32>
}

// -----

rk.node @drop random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s3_generator_never_dropped(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S3: 'drop.state' is neither dropped nor returned}}
  %a, %state = rk.run @drop(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  // expected-note @+1 {{the step ends here}}
  return %a : tensor<8xf32>
}

// -----

rk.node @relu {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @add {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s3_produced_again_while_live(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'relu' is produced here}}
  %a = rk.run @relu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S3: 'relu' is produced again before its drop}}
  %a_0 = rk.run again @relu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rk.run @add(%a, %a_0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %a_0 : tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x, %x : tensor<8xf32>, tensor<8xf32>
}
func.func @s3_one_of_two_results_is_still_live(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'fc.1' is produced here}}
  %a, %saved = rk.run @fc(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S3: 'fc.1' is produced again before its drop}}
  %a_0, %saved_0 = rk.run again @fc(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  rk.drop %saved : tensor<8xf32>
  rk.drop %saved_0 : tensor<8xf32>
  return %a_0 : tensor<8xf32>
}

// -----

// An overwrite ends the life of what it overwrites, as a drop does.
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s3_produced_again_after_an_overwrite_is_legal(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rk.run overwrite @relu(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %a_0 = rk.run again @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %a_0, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// A chain of views that is returned keeps its base; an undefined tensor has no storage.
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  %y, %u = rk.aten "ns.both.default"(%x) : (tensor<8xf32>) -> (tensor<8xf32>, none)
  rk.yield %y, %u : tensor<8xf32>, none
}
func.func @s3_base_of_a_returned_view_is_legal(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a, %u = rk.run @fc(%x) : (tensor<8xf32>) -> (tensor<8xf32>, none)
  %v = rk.aten "aten.view.default"(%a, [2, 4]) aliases(0) : (tensor<8xf32>) -> tensor<2x4xf32>
  %w = rk.aten "aten.view.default"(%v, [8]) aliases(0) : (tensor<2x4xf32>) -> tensor<8xf32>
  return %w : tensor<8xf32>
}

// -----

// S4: `again` comes after a first run and reproduces it.

rk.node @layer1.0.conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_again_without_a_first_run(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S4: 'layer1.0.conv1' runs again before its first run}}
  %a = rk.run again @layer1.0.conv1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_second_run_without_again(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{its first run is here}}
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S4: 'fc' runs a second time without 'again'}}
  %b = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_other_operand(%x: tensor<8xf32> {rk.name = "input"}, %y: tensor<8xf32> {rk.name = "target"}) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{its first run is here}}
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S4: 'fc' runs again on 'target' as operand 0, its first run on 'input'}}
  %b = rk.run again @fc(%y) : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// Another production of the same value, or the same view of it, is the same operand.
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu {
^bb0(%x: tensor<2x4xf32>):
  rk.yield %x : tensor<2x4xf32>
}
func.func @s4_reproduced_operand_is_legal(%x: tensor<8xf32>) -> tensor<2x4xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %v = rk.aten "aten.view.default"(%a, [2, 4]) aliases(0) : (tensor<8xf32>) -> tensor<2x4xf32>
  %r = rk.run @relu(%v) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %r : tensor<2x4xf32>
  %b = rk.run again @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %w = rk.aten "aten.view.default"(%b, [2, 4]) aliases(0) : (tensor<8xf32>) -> tensor<2x4xf32>
  %s = rk.run again @relu(%w) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  rk.drop %b : tensor<8xf32>
  return %s : tensor<2x4xf32>
}

// -----

rk.node @drop random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @other random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_generator_of_another_run(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{its first run is here}}
  %a, %state = rk.run @drop(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  %b, %wrong = rk.run @other(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S4: 'drop' runs again from 'other.state', not from the generator state of its first run}}
  %c = rk.run again @drop(%x, %wrong) : (tensor<8xf32>, !rk.generator) -> tensor<8xf32>
  rk.drop %state : !rk.generator
  rk.drop %wrong : !rk.generator
  return %b, %c : tensor<8xf32>, tensor<8xf32>
}

// -----

rk.node @drop random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @other random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_generator_not_saved(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{its first run is here}}
  %a = rk.run @drop(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b, %wrong = rk.run @other(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S4: 'drop' is random and runs again, but its first run saves no generator state}}
  %c = rk.run again @drop(%x, %wrong) : (tensor<8xf32>, !rk.generator) -> tensor<8xf32>
  rk.drop %wrong : !rk.generator
  return %b, %c : tensor<8xf32>, tensor<8xf32>
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @drop random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_again_without_generator(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a, %state = rk.run @drop(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  rk.drop %state : !rk.generator
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S4: 'drop' is random: 'again' takes the generator state of its first run as its last operand}}
  %b = rk.run again @drop(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// S5: a side effect happens exactly once per step, in its original order.

rk.node @bn1.count once {
^bb0(%n: tensor<i64>):
  %y = rk.aten "aten.add_.Scalar"(%n, 1, 1) writes(0) aliases(0) : (tensor<i64>) -> tensor<i64>
  rk.yield
}
func.func @s5_once_runs_again(%n: tensor<i64>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{its first run is here}}
  rk.run @bn1.count(%n) : (tensor<i64>) -> ()
  // expected-error @+1 {{S5: 'bn1.count' has a side effect that must happen once, but runs again}}
  rk.run again @bn1.count(%n) : (tensor<i64>) -> ()
  return
}

// -----

rk.node @drop1 random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @drop2 random {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s5_draws_out_of_order(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'drop2' runs here}}
  %b = rk.run @drop2(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S5: the side effect of 'drop1' comes after that of 'drop2', originally before it}}
  %a = rk.run @drop1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @bn1 {
^bb0(%x: tensor<8xf32>, %m: tensor<8xf32>):
  %y = rk.aten "aten.native_batch_norm.default"(%x, none, none, %m, none, true, 0.1, 1.0e-05) effects(1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
// expected-error @+1 {{S5: the side effect of 'bn1' never happens in 's5_left_out'}}
func.func @s5_left_out(%x: tensor<8xf32>, %m: tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  return
}

// -----

// S6: nothing overwrites storage that a later step reads in its old value; a view keeps its base alive.

rk.node @conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %x : tensor<8xf32>
}
rk.node @add {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s6_read_after_overwrite(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'conv1' is produced here}}
  %a = rk.run @conv1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{overwritten here}}
  %b = rk.run overwrite @relu(%a) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S6: 'conv1' is used by 'add' after 'relu' overwrote it}}
  %c = rk.run @add(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.drop %b : tensor<8xf32>
  return %c : tensor<8xf32>
}

// -----

rk.node @conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %x : tensor<8xf32>
}
func.func @s6_view_of_overwritten(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<2x4xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'conv1' is produced here}}
  %a = rk.run @conv1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %v = rk.aten "aten.view.default"(%a, [2, 4]) aliases(0) : (tensor<8xf32>) -> tensor<2x4xf32>
  // expected-note @+1 {{overwritten here}}
  %b = rk.run overwrite @relu(%a) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S6: 'view', a view of 'conv1', is used by the return after 'relu' overwrote it}}
  return %b, %v : tensor<8xf32>, tensor<2x4xf32>
}

// -----

rk.node @conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s6_view_outlives_base(%x: tensor<8xf32>) -> tensor<2x4xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'conv1' is produced here}}
  %a = rk.run @conv1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %v = rk.aten "aten.view.default"(%a, [2, 4]) aliases(0) : (tensor<8xf32>) -> tensor<2x4xf32>
  // expected-note @+1 {{dropped here}}
  rk.drop %a : tensor<8xf32>
  // expected-error @+1 {{S6: 'view' is used by the return after the drop of 'conv1', whose storage it shares}}
  return %v : tensor<2x4xf32>
}

// -----

rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %x : tensor<8xf32>
}
func.func @s6_overwrites_resident(%x: tensor<8xf32> {rk.name = "fc.bias"}) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S6: 'relu' overwrites 'fc.bias', which is resident}}
  %b = rk.run overwrite @relu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

rk.node @conv1 {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @add overwrites(0) {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  %z = rk.aten "aten.add_.Tensor"(%x, %y, 1) writes(0) aliases(0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %x : tensor<8xf32>
}
func.func @s6_overwrites_what_it_reads(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'conv1' is produced here}}
  %a = rk.run @conv1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S6: 'add' overwrites 'conv1' and reads it as another operand}}
  %b = rk.run overwrite @add(%a, %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// The laws speak of scheduled steps only.
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @costed_is_not_scheduled(%x: tensor<8xf32>) attributes {rk.stage = #rk.stage<costed>} {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-error @+1 {{a scheduled step is one block of code, 'two_blocks' has 2}}
func.func @two_blocks() attributes {rk.stage = #rk.stage<scheduled>} {
  cf.br ^bb1
^bb1:
  return
}

// -----

// rk.run and the node that it names.

func.func @no_such_node(%x: tensor<8xf32>) attributes {rk.stage = #rk.stage<simplified>} {
  // expected-error @+1 {{there is no rk.node 'layer1.0.conv1' in this module}}
  rk.run @layer1.0.conv1(%x) : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @a_function_is_no_node() {
  // expected-error @+1 {{there is no rk.node 'a_function_is_no_node' in this module}}
  rk.run @a_function_is_no_node() : () -> ()
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @add {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @operand_count(%x: tensor<8xf32>) {
  // expected-error @+1 {{'add' has 2 operands, this run 1}}
  %a = rk.run @add(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @operand_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{operand 0 of 'fc' is tensor<8xf32>, here 'argument 0' is tensor<4xf32>}}
  %a = rk.run @fc(%x) : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @result_count(%x: tensor<8xf32>) {
  // expected-error @+1 {{'fc' has 1 results, this run 0}}
  rk.run @fc(%x) : (tensor<8xf32>) -> ()
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @result_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{result 0 of 'fc' is tensor<8xf32>, here 'fc' is tensor<8xf32, #rk.strided<[2]>>}}
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32, #rk.strided<[2]>>
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @overwrite_of_a_pure_node(%x: tensor<8xf32>) {
  // expected-error @+1 {{'fc' does not overwrite an operand}}
  %a = rk.run overwrite @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @generator_for_a_node_that_draws_nothing(%x: tensor<8xf32>, %g: !rk.generator) {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{'fc' takes no generator state here: only 'again' of a random node does}}
  %b = rk.run again @fc(%x, %g) : (tensor<8xf32>, !rk.generator) -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the node is defined here}}
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @generator_of_a_node_that_draws_nothing(%x: tensor<8xf32>) {
  // expected-error @+1 {{'fc' saves no generator state here: only the first run of a random node does}}
  %a, %g = rk.run @fc(%x) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  return
}

// -----

// rk.node: its clauses say what the body does.

// expected-error @+1 {{'relu': overwrites(1), but the body takes 1 arguments}}
rk.node @relu overwrites(1) {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{'relu': overwrites(0), but the body does not yield that argument as its first result}}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}

// -----

// expected-error @+1 {{'set' mutates argument 1 of its body, so it needs overwrites(1), or once}}
rk.node @set {
^bb0(%s: tensor<4xf32>, %x: tensor<8xf32>):
  %v = rk.aten "aten.slice.Tensor"(%x, 0, 0, 4, 1) aliases(0) : (tensor<8xf32>) -> tensor<4xf32, #rk.strided<[1], storage 32>>
  // expected-note @+1 {{mutated here}}
  %y = rk.aten "aten.copy_.default"(%v, %s, false) writes(0) aliases(0) : (tensor<4xf32, #rk.strided<[1], storage 32>>, tensor<4xf32>) -> tensor<4xf32, #rk.strided<[1], storage 32>>
  rk.yield %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{'drop' draws random numbers, so it needs random}}
rk.node @drop {
^bb0(%x: tensor<8xf32>):
  // expected-note @+1 {{drawn here}}
  %y = rk.aten "aten.rand_like.default"(%x) random : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}

// -----

func.func @node_in_a_function() {
  // expected-error @+1 {{'rk.node' op expects parent op 'builtin.module'}}
  rk.node @inside {
    rk.yield
  }
  return
}

// -----

rk.node @twice {
  rk.yield
}
// expected-note @-3 {{see existing symbol definition here}}
// expected-error @+1 {{redefinition of symbol named 'twice'}}
rk.node @twice {
  rk.yield
}

// -----

// rk.write: a new version of its first operand.

func.func @write_of_nothing() {
  // expected-error @+1 {{'rk.write' needs the old version as operand 0}}
  %y = rk.write() {
    rk.yield
  } : () -> tensor<8xf32>
  return
}

// -----

func.func @write_with_another_body(%x: tensor<8xf32>) {
  // expected-error @+1 {{the body of 'rk.write' takes (tensor<4xf32>), its operands are (tensor<8xf32>)}}
  %y = rk.write(%x) {
  ^bb0(%a: tensor<4xf32>):
    rk.yield %a : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @write_of_another_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{the new version has another type than the old one, tensor<8xf32>}}
  %y = rk.write(%x) {
  ^bb0(%a: tensor<8xf32>):
    rk.yield %a : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @write_yields_something_else(%x: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{the body of 'rk.write' yields its first argument, which it mutates in place}}
  %y = rk.write(%x, %s) {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    rk.yield %b : tensor<8xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @write_to_the_source(%x: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{the body of 'rk.write' mutates argument 1, not only its first}}
  %y = rk.write(%x, %s) {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    // expected-note @+1 {{here}}
    %c = rk.aten "aten.relu_.default"(%b) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
    rk.yield %a : tensor<8xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// rk.aten: name, arguments, clauses.

func.func @operator_name(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.relu' is not an operator's name; that is namespace.name.overload}}
  %y = rk.aten "aten.relu"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @too_few_values(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.relu.default': 0 arguments are values, but there are 1 operands}}
  %y = "rk.aten"(%x) {op_name = "aten.relu.default", args = []} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @argument_kind(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.add.Scalar': 1 : i32 is no argument}}
  %y = "rk.aten"(%x) {op_name = "aten.add.Scalar", args = [unit, [1 : i32]]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @writes_out_of_range(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.relu_.default': writes(1), but there are 1 operands}}
  %y = rk.aten "aten.relu_.default"(%x) writes(1) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @effects_out_of_range(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.relu_.default': effects(-1), but there are 1 operands}}
  %y = rk.aten "aten.relu_.default"(%x) effects(-1) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @written_twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.relu_.default': operand 0 is named twice in writes and effects}}
  %y = rk.aten "aten.relu_.default"(%x) writes(0) effects(0) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @aliases_count(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.view.default': aliases has 2 entries for 1 results}}
  %y = rk.aten "aten.view.default"(%x, [8]) aliases(0, -1) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @aliases_out_of_range(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.view.default': aliases(1), but there are 1 operands (-1 is fresh storage)}}
  %y = rk.aten "aten.view.default"(%x, [8]) aliases(1) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @clause_twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{'random' stands here twice}}
  %y = rk.aten "aten.relu.default"(%x) random random : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_argument(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected a value, none, a number, true, false, a string, or a list of these}}
  %y = rk.aten "aten.relu.default"(%x, @symbol) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @dynamic_shape(%x: tensor<?xf32>) {
  // expected-error @+1 {{operand #0 must be variadic of a tensor of static shape or none, but got 'tensor<?xf32>'}}
  %y = rk.aten "aten.relu.default"(%x) : (tensor<?xf32>) -> tensor<8xf32>
  return
}

// -----

// Types and attributes.

// expected-error @+1 {{the tensor has 2 dimensions and 1 strides}}
func.func private @strides_count(tensor<8x4xf32, #rk.strided<[1]>>)

// -----

// expected-error @+1 {{shape and strides span 32 B, the storage has only 16}}
func.func private @storage_too_short(tensor<8xf32, #rk.strided<[1], storage 16>>)

// -----

// expected-error @+1 {{a stride is not negative: -1}}
func.func private @negative_stride(tensor<8xf32, #rk.strided<[-1]>>)

// -----

// expected-error @+1 {{a cost is not negative: -1 ns, workspace 0 B}}
rk.node @negative_cost cost <-1 ns, workspace 0 B> {
  rk.yield
}

// -----

// expected-error @+1 {{'rk.stage' is a #rk.stage<...>, not "raw"}}
func.func @stage_is_no_string() attributes {rk.stage = "raw"} {
  return
}

// -----

// expected-error @+1 {{'rk.stage' stands on a func.func, not on 'builtin.module'}}
module attributes {rk.stage = #rk.stage<raw>} {}

// -----

// expected-error @+2 {{expected ::rk::Stage to be one of: raw, dataflow, simplified, blocks, costed, scheduled, lowered}}
// expected-error @+1 {{failed to parse Rk_StageAttr parameter 'value'}}
func.func @stage_unknown() attributes {rk.stage = #rk.stage<planned>} {
  return
}

// -----

// expected-error @+1 {{'rk.budget' is a number of bytes (i64, not negative), not "2GiB"}}
func.func @budget_is_a_number() attributes {rk.stage = #rk.stage<scheduled>, rk.budget = "2GiB"} {
  return
}

// -----

// expected-error @+1 {{'rk.time' is a number of nanoseconds (i64, not negative), not -1 : i64}}
func.func @time() attributes {rk.stage = #rk.stage<scheduled>, rk.time = -1 : i64} {
  return
}

// -----

// expected-error @+1 {{'rk.status' is a string, not 1 : i64}}
func.func @status() attributes {rk.stage = #rk.stage<scheduled>, rk.status = 1 : i64} {
  return
}

// -----

// expected-error @+1 {{'rk.device' is a string, not 0 : i64}}
module attributes {rk.device = 0 : i64} {
}

// -----

// expected-error @+1 {{'rk.alignment' is a number of bytes (i64, not negative), not "64"}}
module attributes {rk.alignment = "64"} {
}

// -----

// expected-error @+1 {{'rk.offsets' is an array<i64: ...> of places in the arena, not [0, 64]}}
func.func @offsets_are_i64() attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = [0, 64]} {
  return
}

// -----

// expected-error @+1 {{'rk.offsets' holds places in the arena, number 1 is -64}}
func.func @offsets_are_not_negative() attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = array<i64: 0, -64>} {
  return
}

// -----

// expected-error @+1 {{'rk.offsets' stands on a step at stage scheduled}}
func.func @offsets_are_of_a_schedule() attributes {rk.stage = #rk.stage<costed>, rk.offsets = array<i64>} {
  return
}

// -----

// expected-error @+1 {{argument 0: 'rk.role' is one of input, parameter, buffer, not "weight"}}
func.func @argument_role(%x: tensor<8xf32> {rk.role = "weight"}) attributes {rk.stage = #rk.stage<raw>} {
  return
}

// -----

// expected-error @+1 {{result 0: 'rk.role' is one of loss, output, gradient, not "input"}}
func.func @result_role(%x: tensor<8xf32>) -> (tensor<8xf32> {rk.role = "input"}) attributes {rk.stage = #rk.stage<raw>} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{argument 0: 'rk.name' is a string, not 1 : i64}}
func.func @argument_name(%x: tensor<8xf32> {rk.name = 1 : i64}) {
  return
}

// -----

// expected-error @+1 {{argument 0: 'rk.aliases' is a list of strings, not ["a", 1]}}
func.func @argument_aliases(%x: tensor<8xf32> {rk.aliases = ["a", 1]}) {
  return
}

// -----

// expected-error @+1 {{argument 0: 'rk.trainable' has no value}}
func.func @argument_trainable(%x: tensor<8xf32> {rk.trainable = true}) {
  return
}

// -----

// expected-error @below {{'rk.kernel' has no value and stands on an rk.node}}
rk.node @kernel_with_a_value attributes {rk.kernel = "gelu"} {
^bb0(%x: tensor<2xf32>):
  %r = rk.aten "aten.relu.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  rk.yield %r : tensor<2xf32>
}

// -----

// S9: what the caller may change once the outputs are handed over is read on the same side of the hand-over as before the rewrite.

rk.node @scale {
^bb0(%x: tensor<8xf32>, %c: tensor<8xf32>):
  %y = rk.aten "aten.mul.Tensor"(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @tangents once {
^bb0(%o: tensor<0xi8>, %y: tensor<8xf32>):
  %t = rk.aten "rk.tangents.default"(%o, %y) writes(0) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %t : tensor<8xf32>
}
rk.node @back backward {
^bb0(%t: tensor<8xf32>, %s: tensor<8xf32>):
  %y = rk.aten "aten.mul.Tensor"(%t, %s) backward : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
func.func @s9_read_after_the_hand_over(%x: tensor<8xf32>, %c: tensor<8xf32> {rk.role = "buffer", rk.name = "c", rk.lent}, %y: tensor<8xf32>, %outside: tensor<0xi8>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %s = rk.run @scale(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.drop %s : tensor<8xf32>
  // expected-note @+1 {{handed over here}}
  %t = rk.run @tangents(%outside, %y) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S9: 'scale' reads 'c' after the hand-over, until which it is lent}}
  %s_0 = rk.run again @scale(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = rk.run @back(%t, %s_0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.drop %t : tensor<8xf32>
  rk.drop %s_0 : tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

rk.node @scale {
^bb0(%x: tensor<8xf32>, %c: tensor<8xf32>):
  %v = rk.aten "aten.view.default"(%c, [8]) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  %y = rk.aten "aten.mul.Tensor"(%x, %v) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @tangents once {
^bb0(%o: tensor<0xi8>, %y: tensor<8xf32>):
  %t = rk.aten "rk.tangents.default"(%o, %y) writes(0) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %t : tensor<8xf32>
}
func.func @s9_first_run_after_the_hand_over(%x: tensor<8xf32>, %c: tensor<8xf32> {rk.role = "buffer", rk.name = "c", rk.lent}, %y: tensor<8xf32>, %outside: tensor<0xi8>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{handed over here}}
  %t = rk.run @tangents(%outside, %y) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S9: 'scale' reads 'c' after the hand-over, until which it is lent}}
  %s = rk.run @scale(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s, %t : tensor<8xf32>, tensor<8xf32>
}

// -----

rk.node @scale {
^bb0(%x: tensor<8xf32>, %c: tensor<8xf32>):
  %y = rk.aten "aten.mul.Tensor"(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @tangents once {
^bb0(%o: tensor<0xi8>, %y: tensor<8xf32>):
  %t = rk.aten "rk.tangents.default"(%o, %y) writes(0) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %t : tensor<8xf32>
}
func.func @s9_runs_again(%x: tensor<8xf32>, %c: tensor<8xf32> {rk.role = "buffer", rk.name = "c", rk.lent}, %outside: tensor<0xi8>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{its first run is here}}
  %s = rk.run @scale(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.drop %s : tensor<8xf32>
  // expected-error @+1 {{S9: 'scale' runs again, and reads 'c', which is lent}}
  %s_0 = rk.run again @scale(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %t = rk.run @tangents(%outside, %s_0) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  return %s_0, %t : tensor<8xf32>, tensor<8xf32>
}

// -----

rk.node @scale {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @tangents once {
^bb0(%o: tensor<0xi8>, %y: tensor<8xf32>):
  %t = rk.aten "rk.tangents.default"(%o, %y) writes(0) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %t : tensor<8xf32>
}
rk.node @back backward {
^bb0(%c: tensor<8xf32>):
  %y = rk.aten "aten.cos.default"(%c) backward : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
func.func @s9_read_before_the_hand_over(%x: tensor<8xf32>, %c: tensor<8xf32> {rk.role = "buffer", rk.name = "c", rk.lent}, %outside: tensor<0xi8>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  %s = rk.run @scale(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S9: 'back' reads 'c' before the hand-over, and must see it as the caller leaves it}}
  %b = rk.run @back(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %t = rk.run @tangents(%outside, %s) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  return %s, %t, %b : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A result may be lent, too: it is the caller's from the hand-over on, though the step still holds it.

rk.node @act {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @next {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.cos.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @tangents once {
^bb0(%o: tensor<0xi8>, %y: tensor<8xf32>):
  %t = rk.aten "rk.tangents.default"(%o, %y) writes(0) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %t : tensor<8xf32>
}
func.func @s9_lent_result(%x: tensor<8xf32>, %outside: tensor<0xi8>) -> (tensor<8xf32> {rk.role = "output", rk.lent}, tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  %s = rk.run @act(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{handed over here}}
  %t = rk.run @tangents(%outside, %s) : (tensor<0xi8>, tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S9: 'next' reads 'act' after the hand-over, until which it is lent}}
  %n = rk.run @next(%s) : (tensor<8xf32>) -> tensor<8xf32>
  return %s, %t, %n : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// expected-error @below {{argument 0: 'rk.lent' has no value}}
func.func @lent_has_no_value(%x: tensor<8xf32> {rk.lent = true}) attributes {rk.stage = #rk.stage<raw>} {
  return
}
