// One case per refusal of the laws of transfers, each under its label. `-split-input-file -verify-diagnostics` fails on any other.
// RUN: rk-opt %s -split-input-file -verify-diagnostics -o /dev/null

// S10: a transfer moves what is there.

func.func @s10_resident(%x: tensor<8xf32> {rk.name = "fc.weight"}) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S10: 'fc.weight' is resident, and is not offloaded}}
  %h = rk.offload %x : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %x : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_a_view(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %v = rk.aten "aten.view.default"(%a, [8]) aliases(0) : (tensor<8xf32>) -> tensor<8xf32> loc("head")
  // expected-error @+1 {{S10: 'head.view' is a view of 'norm' and owns no storage to offload}}
  %h = rk.offload %v : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %a : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_returned(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is returned by the step, and stays on the device}}
  %h = rk.offload %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %a : tensor<8xf32>
}

// -----

// What comes back is still what the step returns.

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_returned_after_its_fetch(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is returned by the step, and stays on the device}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %u : tensor<8xf32>
  %f = rk.fetch %h : tensor<8xf32>
  %v = rk.run again @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %f : tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %v : tensor<8xf32>
  return %f : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_offloaded_twice_at_once(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is offloaded while its offload is on its way}}
  %g = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %g : !rk.host<tensor<8xf32>>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_offloaded_when_it_is_away(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  // expected-error @+1 {{S10: 'norm' is offloaded, but is in host memory already}}
  %g = rk.offload %a : tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %g : !rk.host<tensor<8xf32>>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_offloaded_while_it_comes_back(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  // expected-note @+1 {{its fetch starts here}}
  %f = rk.fetch %h : tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is offloaded while its fetch is on its way}}
  %g = rk.offload %f : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %f : tensor<8xf32>
  rk.drop %g : !rk.host<tensor<8xf32>>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_fetched_too_early(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is fetched before its offload has ended}}
  %f = rk.fetch %h : tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %f : tensor<8xf32>
  return %u : tensor<8xf32>
}

// -----

func.func @s10_fetched_from_outside(%x: !rk.host<tensor<8xf32>>) attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-error @+1 {{S10: 'argument 0' is fetched, but was never offloaded}}
  %f = rk.fetch %x : tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  return
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_fetched_after_it_was_made_again(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  // expected-note @+1 {{made again here}}
  %b = rk.run again @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is fetched, but was made again since its offload}}
  %f = rk.fetch %h : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %b : tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_ends_where_it_starts(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  // expected-error @+1 {{S10: the offload of 'norm' ends where it starts: no run stands between them}}
  rk.wait %h : !rk.host<tensor<8xf32>>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_waited_for_twice(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{it has ended here}}
  rk.wait %h : !rk.host<tensor<8xf32>>
  // expected-error @+1 {{S10: the offload of 'norm' is waited for a second time}}
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_never_waited_for(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // Dropping it would be refused, too, so S3 is broken as well.
  // expected-error @+1 {{S3: 'norm' is neither dropped nor returned}}
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: nothing waits for the offload of 'norm'}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{the step ends here}}
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_nothing_to_wait_for(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: no transfer makes 'norm', so there is nothing to wait for}}
  rk.wait %a : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_dropped_while_it_leaves(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is dropped while its offload is on its way}}
  rk.drop %a : tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_dropped_while_it_comes_back(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  rk.drop %u : tensor<8xf32>
  // expected-note @+1 {{its fetch starts here}}
  %f = rk.fetch %h : tensor<8xf32>
  %v = rk.run again @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S10: 'norm' is dropped while its fetch is on its way}}
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.wait %f : tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  return %v : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s10_dropped_behind_a_start(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rk.run @up(%a) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{the transfer starts here}}
  %h = rk.offload %a : tensor<8xf32>
  // expected-error @+1 {{S10: the drop of 'up' stands behind a transfer that starts at the same point; between two runs, waits stand first, then drops, then starts}}
  rk.drop %b : tensor<8xf32>
  %c = rk.run again @up(%a) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  return %c : tensor<8xf32>
}

// -----

// S11: no run reads what is away, and none makes anew what is on its way.

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s11_read_in_host_memory(%x: tensor<8xf32>) -> !rk.host<tensor<8xf32>> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  rk.drop %u : tensor<8xf32>
  // expected-error @+1 {{S11: the return reads 'norm' in host memory; fetch it}}
  return %h : !rk.host<tensor<8xf32>>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s11_read_after_its_offload(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%a) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{it has ended here}}
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %u : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  // expected-error @+1 {{S11: 'up' reads 'norm', which is away since its offload ended}}
  %v = rk.run again @up(%a) : (tensor<8xf32>) -> tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  return %v : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s11_read_before_its_fetch_has_ended(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%a) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %u : tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  // expected-note @+1 {{its fetch starts here}}
  %f = rk.fetch %h : tensor<8xf32>
  // expected-error @+1 {{S11: 'up' reads 'norm' before its fetch has ended}}
  %v = rk.run again @up(%f) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %f : tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %v : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s11_made_again_on_its_way(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // expected-note @+1 {{'norm' is produced here}}
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  // It cannot be dropped on its way, so S3 is broken as well.
  // expected-error @+2 {{S11: 'norm' is made again while its offload is on its way}}
  // expected-error @+1 {{S3: 'norm' is produced again before its drop}}
  %b = rk.run again @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %u = rk.run @up(%b) : (tensor<8xf32>) -> tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  rk.drop %b : tensor<8xf32>
  return %u : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s3_made_again_while_its_copy_is_live(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  rk.drop %u : tensor<8xf32>
  // expected-note @+1 {{'norm' is produced here}}
  %f = rk.fetch %h : tensor<8xf32>
  %v = rk.run again @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %f : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  // expected-error @+1 {{S3: 'norm' is produced again before its drop}}
  %b = rk.run again @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  rk.drop %b : tensor<8xf32>
  return %v : tensor<8xf32>
}

// -----

// S6: an offload reads its buffer to the end.

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s6_overwritten_while_it_leaves(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{its offload starts here}}
  %h = rk.offload %a : tensor<8xf32>
  // expected-error @+1 {{S6: 'relu' overwrites 'norm', from which an offload still reads}}
  %r = rk.run overwrite @relu(%a) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %h : !rk.host<tensor<8xf32>>
  return %r : tensor<8xf32>
}

// -----

// S1 to S4 hold for every stay, and for every copy in host memory.

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s1_fetched_from_a_dropped_copy(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{'norm.host' is produced here}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  rk.drop %u : tensor<8xf32>
  // expected-note @+1 {{dropped here}}
  rk.drop %h : !rk.host<tensor<8xf32>>
  // expected-error @+1 {{S1: 'norm.host' is used by its fetch after its drop}}
  %f = rk.fetch %h : tensor<8xf32>
  %v = rk.run again @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %f : tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  return %v : tensor<8xf32>
}

// -----

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s3_a_copy_is_never_dropped(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{S3: 'norm.host' is neither dropped nor returned}}
  %h = rk.offload %a : tensor<8xf32>
  %u = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %a : tensor<8xf32>
  // expected-note @+1 {{the step ends here}}
  return %u : tensor<8xf32>
}

// -----

// What was fetched has the bits of the first run (S4).

rk.node @norm {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @up {
^bb0(%x: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
rk.node @add {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  rk.yield %x : tensor<8xf32>
}
func.func @s4_on_something_else(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rk.run @up(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %h = rk.offload %b : tensor<8xf32>
  // expected-note @+1 {{its first run is here}}
  %c = rk.run @add(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.wait %h : !rk.host<tensor<8xf32>>
  rk.drop %b : tensor<8xf32>
  rk.drop %c : tensor<8xf32>
  rk.drop %a : tensor<8xf32>
  %f = rk.fetch %h : tensor<8xf32>
  %d = rk.run again @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.wait %f : tensor<8xf32>
  rk.drop %h : !rk.host<tensor<8xf32>>
  // expected-error @+1 {{S4: 'add' runs again on 'up' as operand 0, its first run on 'norm'}}
  %e = rk.run again @add(%f, %f) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.drop %d : tensor<8xf32>
  rk.drop %f : tensor<8xf32>
  return %e : tensor<8xf32>
}

// -----

// Types and attributes.

func.func private @host_of_no_tensor() -> tensor<1xf32>
// expected-error @+1 {{host memory holds tensors of static shape, not 'f32'}}
func.func private @scalar(%x: !rk.host<f32>)

// -----

// expected-error @+1 {{'rk.bandwidth' is a number of bytes per second (i64, not negative), not -1 : i64}}
func.func @bandwidth() attributes {rk.bandwidth = -1 : i64, rk.stage = #rk.stage<scheduled>} {
  return
}
