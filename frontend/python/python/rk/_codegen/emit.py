"""A schedule as two graphs of PyTorch, forward and backward, that run it exactly.

A recomputation is the node written a second time. Views are written where they are first read, once per run
of what they show and per pass. What forward hands to backward is one tensor for each storage, the one that
owns it, and backward writes the views that it reads again: AOTAutograd and Inductor take two saved tensors
for two storages, and would overwrite one while the other is still needed. Nothing is freed explicitly: the
code of a graph forgets each value after its last reader, which is where the schedule drops it.

What waits in host memory is a value of its own there, made by a call (:mod:`rk._graph.transfers`), and so
is what comes back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from rk._graph import joint, loans, random_state, switches, transfers
from rk._graph.repetition import Manner, manner_of
from rk._graph.step import Step

Move = tuple[int, str, int, int]
"""How many runs come before it; ``offload``, ``fetch``, ``wait`` (for a fetch) or ``host_wait``; the line of
the call that makes the value, and the number of its result.
"""
BATCH_NORM = torch.ops.aten.native_batch_norm.default
DETACH = torch.ops.aten.detach.default


class Emitter:
    """Writes one schedule; read ``forward`` and ``backward`` afterwards."""

    def __init__(
        self,
        step: Step,
        runs: Sequence[tuple[int, bool]],
        *,
        moves: Sequence[Move] = (),
        switched: bool = False,
        remembered: Collection[str] = (),
    ) -> None:
        """``runs`` are line numbers of the step in order of execution, each with whether it is a second
        run. ``moves`` are what begins and ends between them on the way to host memory and back.
        ``switched``: backward runs what is forward's with the switches of the forward pass
        (:mod:`rk._graph.switches`). ``remembered`` are the random nodes that run once, and for which the
        generator is remembered.
        """
        self.step, self.remembered = step, remembered
        self.switched, self.forwards = switched, set(step.lines[: step.boundary])
        self.replays = False
        """Whether backward runs what is forward's."""
        self.forward = self.graph = fx.Graph()
        self.backward: fx.Graph | None = None
        self.now: dict[fx.Node, fx.Node] = {}
        """Per node of the joint graph, its newest instance."""
        self.views: dict[fx.Node, list[fx.Node]] = {}
        """Per instance, the nodes of the joint graph that were written as views of it."""
        self.aliases: set[fx.Node] = set()
        """The instances that were written as views."""
        self.carried: dict[fx.Node, fx.Node] = {}
        """Per forward instance that owns what backward reads, the input of the backward graph."""
        self.shown: dict[fx.Node, fx.Node] = {}
        """Per view in forward that backward reads, the same view in backward."""
        self.callers = self._callers_storages()
        """Whose views are carried as they are."""
        self.unchecked = self.opaque = 0
        """How many of the carried tensors, the last ones, may be changed by the caller unnoticed; how many
        objects come after the tensors.
        """
        self.objects: list[fx.Node] = []
        """What forward has of values that are objects."""
        self.states: dict[fx.Node, fx.Node] = {}
        """Per random node that runs again, the generator state of its first run."""
        self.origins: dict[fx.Node, fx.Node] = {}
        """Per instance, what it is an instance of: a node of the joint graph; the random node of a state."""
        self.state_instances: set[fx.Node] = set()
        self.hosts: dict[fx.Node, fx.Node] = {}
        """Per node of the joint graph, the newest copy in host memory."""
        self.host_instances: set[fx.Node] = set()
        self.fetched: dict[fx.Node, fx.Node] = {}
        """Per node of the joint graph, what is on its way back."""
        for node in step.placeholders:
            if not joint.is_backward_only(node):
                self._input(node)
        self.unread = self._unread_copies([step.lines[line - 1] for line, _ in runs])
        """The copies of arguments that only forward reads: it reads the arguments themselves."""
        again = {line for line, second in runs if second}
        between: list[list[Move]] = [[] for _ in range(len(runs) + 1)]
        for move in moves:
            between[move[0]].append(move)
        for place, (line, second) in enumerate(runs):
            for move in between[place]:
                self._move(*move)
            node = step.lines[line - 1]
            if node is None:
                self._hand_over()
            else:
                self._run(node, second, line in again)
        for move in between[-1]:
            self._move(*move)
        self._finish()

    def modules(self) -> tuple[fx.GraphModule, fx.GraphModule | None]:
        """The graphs as modules."""
        make = functools.partial(fx._lazy_graph_module._make_graph_module, self.step.gm)
        return make(self.forward), make(self.backward) if self.backward is not None else None

    def first_activation(self) -> int | None:
        """Which result of forward shows, as long as it lives, that backward has not run; None if nothing is
        saved.
        """
        for place, instance in enumerate(self.carried):
            if instance.op == "call_function":
                return len(self.handed_out) + place
        return None

    def _input(self, node: fx.Node) -> None:
        self.now[node] = self._copy(node, "placeholder", node.target, (), {})

    def _copy(self, node: fx.Node, op: str, target: Any, args: Any, kwargs: Any) -> fx.Node:
        made = self.graph.create_node(op, target, args, kwargs, name=node.name)
        self.origins[made] = self.origins.get(node, node)
        # An update in place: setting `meta` would look the node up in the graph's tables twice.
        made.meta.update(node.meta)
        return made

    def _hand_over(self) -> None:
        """The end of the forward pass: from here on nodes go into the other graph."""
        self.handed_out = [self._value(node, as_output=True) for node in self.step.outputs]
        # In every plan, also where only backward reads them: so all plans of a step save the same objects.
        self.objects = [self._value(node) for node in self.step.objects]
        self.graph = self.backward = fx.Graph()
        for node in self.step.placeholders:
            if joint.is_backward_only(node):
                self._input(node)

    def _unread_copies(self, order: Sequence[fx.Node | None]) -> set[fx.Node]:
        updated = {self.step.placeholders[index] for index in self.step.updated()}
        copies = [node for node in order if node is not None and node.meta.get(loans.COPY)]
        copies = [node for node in copies if node.args[0] not in updated]
        late = order[order.index(None) :] if None in order else ()
        shown = (joint.tensor_of(source) for node in late if node for source in node.all_input_nodes)
        read = {joint.storage_of(one) for one in shown if one is not None}
        return {node for node in copies if joint.storage_of(joint.tensor_of(node)) not in read}

    def _run(self, node: fx.Node, second: bool, runs_again: bool) -> None:
        if node in self.unread:
            self.now[node] = self.now[node.args[0]]
            return
        target, args = node.target, node.args
        if second and target is BATCH_NORM:
            args = (*args[:3], None, None, *args[5:])
        args, kwargs = map_arg(args, self._value), map_arg(node.kwargs, self._value)
        if self.backward is not None and node in self.forwards:
            self.replays = True
            target, args = (switches.replay, (target, *args)) if self.switched else (target, args)
        if runs_again and manner_of(node) is Manner.RANDOM:
            device = device_of(node)
            if second:
                switched = target is switches.replay
                operator = args if switched else (target, *args)
                args = (self._here(self.states[node]), device, *operator)
                target = switches.replay_random if switched else random_state.replay
            else:
                self.states[node] = self._state(node, device)
        if node.name in self.remembered and self.backward is None:
            about = (device_of(node), node.name)
            self.graph.create_node("call_function", random_state.remember, about, {})
        self._forget_views(node)
        made = self._copy(node, "call_function", target, args, kwargs)
        self.now[node] = made
        self._pick_results(node, made)

    def _move(self, _: int, what: str, line: int, result: int) -> None:
        node = self.step.lines[line - 1]
        if joint.has_results(node):
            node = next(user for user in node.users if user.args[1] == result)
        if what == "offload":
            made = self.hosts[node] = self._call(transfers.offload, self._value(node))
            made.meta.update(host_meta(node))
            self.origins[made] = node
            self.host_instances.add(made)
        elif what == "host_wait":
            self._call(transfers.host_wait, self._here(self.hosts[node]), self._value(node))
            self._forget_views(node)
            del self.now[node]
        elif what == "fetch":
            made = self.fetched[node] = self._call(
                transfers.fetch, self._here(self.hosts[node]), *_outline(node)
            )
            made.meta.update(node.meta)
            self.origins[made] = node
        else:
            self.now[node] = self._here(self.fetched[node])
            self._call(transfers.wait, self.now[node])

    def _call(self, target: Callable[..., Any], *args: Any) -> fx.Node:
        return self.graph.create_node("call_function", target, args, {})

    def _state(self, node: fx.Node, device: torch.device) -> fx.Node:
        state = self.graph.create_node("call_function", random_state.save, (device,), {})
        state.meta.update(state_meta(node))
        self.origins[state] = node
        self.state_instances.add(state)
        return state

    def _pick_results(self, node: fx.Node, made: fx.Node) -> None:
        """Results of a call with several are picked at once, so that the tuple itself keeps nothing alive."""
        if joint.has_results(node):
            for user in node.users:
                self._forget_views(user)
                picked = self._copy(user, "call_function", user.target, (made, *user.args[1:]), {})
                self.now[user] = picked
                # Of a view with several results (split, unbind) they are forgotten with it.
                self.views.setdefault(made, []).append(user)
                if made in self.aliases:
                    self.aliases.add(picked)
                self._pick_results(user, picked)

    def _forget_views(self, node: fx.Node) -> None:
        for view in self.views.pop(self.now.get(node), ()):
            self._forget_views(view)
            self.now.pop(view, None)

    def _value(self, node: fx.Node, as_output: bool = False) -> Any:
        """The newest instance of a node, in the graph that is being written; a view is written when it is
        first read.
        """
        known = self.now.get(node)
        if known is not None:
            return known if known.graph is self.graph else self._here(known)
        if not isinstance(node, fx.Node):
            return node
        value = node.meta.get("val")
        if isinstance(value, (int, float, bool)) or (value is None and joint.is_getitem(node)):
            return value
        if node.op == "get_attr":
            made = self._copy(node, "get_attr", node.target, (), {})
        elif joint.is_getitem(node):
            self._value(node.args[0])
            return self._here(self.now[node])
        elif node.target is DETACH and not as_output:
            return self._value(node.args[0])
        else:
            args, kwargs = map_arg(node.args, self._value), map_arg(node.kwargs, self._value)
            made = self._copy(node, "call_function", node.target, args, kwargs)
            for shown in node.all_input_nodes:
                base = self._base(shown)
                self.views.setdefault(base, []).append(node)
            if _is_view(made):
                self.aliases.add(made)
        self.now[node] = made
        self._pick_results(node, made)
        return made

    def _base(self, node: fx.Node) -> fx.Node:
        """The instance that a view of ``node`` shows; detached values are their sources."""
        while node not in self.now and node.target is DETACH:
            node = node.args[0]
        return self.now[node]

    def _here(self, instance: fx.Node) -> fx.Node:
        """An instance in the graph that is being written; what is only in the other one is carried over."""
        if instance.graph is self.graph:
            return instance
        if instance.op == "get_attr":
            return self._copy(instance, "get_attr", instance.target, (), {})
        if instance in self.aliases and not self._is_callers(instance):
            return self._shown_again(instance)
        carried = self.carried.get(instance)
        if carried is None:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                carried = self._copy(instance, "placeholder", instance.name, (), {})
            # The graphs that AOTAutograd reads name an argument by its target, and no two may be the same.
            carried.target = carried.name
            for instances in (self.state_instances, self.host_instances):
                if instance in instances:
                    instances.add(carried)
            self.carried[instance] = carried
        return carried

    def _callers_storages(self) -> set[int]:
        """The storages of the arguments. A view of one still shows the old values when the caller gives the
        argument other data, as it does where PyTorch saves that view. Inductor's kernels hand views out
        without the version counter of the argument, so with them PyTorch saves the argument itself.
        """
        tensors = map(joint.tensor_of, self.step.placeholders if self.step.replays else ())
        return {joint.storage_of(one) for one in tensors if one is not None}

    def _is_callers(self, view: fx.Node) -> bool:
        tensor = joint.tensor_of(view)
        return tensor is not None and joint.storage_of(tensor) in self.callers

    def _shown_again(self, view: fx.Node) -> fx.Node:
        """A view of forward, written in backward of what owns the storage."""
        made = self.shown.get(view)
        if made is None:
            args, kwargs = map_arg(view.args, self._here), map_arg(view.kwargs, self._here)
            made = self.shown[view] = self._copy(view, view.op, view.target, args, kwargs)
            self.aliases.add(made)
        return made

    def _finish(self) -> None:
        if self.backward is None:
            self.forward.output(tuple(self._value(node, as_output=True) for node in self.step.outputs))
            _erase_unread(self.forward)
            return
        self.backward.output(tuple(self._value(node) for node in self.step.gradients))
        _erase_unread(self.backward)
        for instance in self.objects:
            self._here(instance)
        for instance, carried in list(self.carried.items()):
            if not carried.users and not joint.is_opaque(instance):
                self.backward.erase_node(carried)
                del self.carried[instance]
        self._sort_carried()
        self.forward.output((*self.handed_out, *self.carried))
        _erase_unread(self.forward)

    def _sort_carried(self) -> None:
        """Inputs of the backward graph in the order of the forward's outputs, which is AOTAutograd's: tensors
        with version check, those without, objects.
        """
        opaque = {one for one in self.carried if joint.is_opaque(one)}
        shown = self.carried.items()
        unchecked = {one for one, carried in shown if one not in opaque and not self._is_checked(carried)}
        self.carried = dict(sorted(shown, key=lambda pair: (pair[0] in opaque, pair[0] in unchecked)))
        self.unchecked, self.opaque = len(unchecked), len(opaque)
        for instance in self.carried:
            instance.meta[loans.UNCHECKED] = instance in unchecked
        for carried in reversed(self.carried.values()):
            next(iter(self.backward.nodes)).prepend(carried)

    def _is_checked(self, shown: fx.Node) -> bool:
        """Whether backward reads a value, or a view of it, that autograd would find changed."""
        if shown.meta.get(loans.UNCHECKED):
            return False
        return any(user not in self.aliases or self._is_checked(user) for user in shown.users)


def device_of(node: fx.Node) -> torch.device:
    """Whose generator a random node draws from."""
    return next(one.device for one in joint.results_of(node) if one is not None)


def state_meta(node: fx.Node) -> dict[str, Any]:
    """What is known of the generator state that a random node starts from."""
    size = random_state.save(device_of(node)).shape
    with next(one for one in joint.results_of(node) if one is not None).fake_mode:
        return {"val": torch.empty(size, dtype=torch.uint8, device="cpu")}


def host_meta(node: fx.Node) -> dict[str, Any]:
    """What is known of the copy of a node's value in host memory: the bytes of its storage."""
    fake = joint.tensor_of(node)
    with fake.fake_mode:
        return {"val": torch.empty(fake.untyped_storage().nbytes(), dtype=torch.uint8, device="cpu")}


def meta_of(kind: str, node: fx.Node) -> dict[str, Any]:
    """What is known of what is saved: the value of a node (``node``), its copy in host memory (``host``), or
    the generator ``state`` that it starts from.
    """
    return {"state": state_meta, "host": host_meta}.get(kind, lambda node: node.meta)(node)


def _outline(node: fx.Node) -> tuple[Any, ...]:
    """Where in a storage a value lies, as :func:`rk._graph.transfers.fetch` takes it."""
    fake = joint.tensor_of(node)
    size, stride = tuple(map(int, fake.shape)), tuple(map(int, fake.stride()))
    return fake.device, fake.dtype, size, stride, int(fake.storage_offset())


def _is_view(instance: fx.Node) -> bool:
    """Whether all results of a call lie in the storages of its operands."""
    storages = {
        joint.storage_of(one) for one in map(joint.tensor_of, instance.all_input_nodes) if one is not None
    }
    results = joint.results_of(instance)
    return all(one is not None and joint.storage_of(one) in storages for one in results)


def _erase_unread(graph: fx.Graph) -> None:
    """Results that were picked, and views that were written, for nobody."""
    for node in reversed(graph.nodes):
        if joint.is_getitem(node) and not node.users:
            graph.erase_node(node)
