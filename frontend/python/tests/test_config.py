"""``rk.config``: options for everything that does not say otherwise."""

import dataclasses
import typing

import pytest
import torch

import rk
from rk._plan.options import Options


@pytest.fixture(autouse=True)
def _nothing_set():
    rk.config.reset()
    yield
    rk.config.reset()


def test_what_is_set_holds_until_it_is_said_otherwise():
    rk.config.time_limit, rk.config.budget = "2s", "50 %"
    assert (rk.config.time_limit, rk.config.budget) == (2.0, "50%")
    options = Options.parse({"budget": "4MiB"})
    assert (options.time_limit, options.budget) == (2.0, str(4 << 20))
    rk.config.reset()
    assert Options.parse({}) == Options()


def test_a_patch_ends_with_its_block_also_when_that_fails():
    rk.config.scope = "total"
    with pytest.raises(ZeroDivisionError), rk.config.patch(scope="device", group="mine"):
        assert (rk.config.scope, rk.config.group) == ("device", "mine")
        raise ZeroDivisionError
    assert (rk.config.scope, rk.config.group) == ("total", "")


def test_a_patch_decorates_functions():
    @rk.config.patch(codegen="inductor")
    def inside():
        return Options.parse(None).codegen

    assert (inside(), inside(), Options.parse(None).codegen) == ("inductor", "inductor", "fx")


@pytest.mark.parametrize("name, value", [("bugdet", "1GiB"), ("budget", "1 gallon"), ("verify", "yes")])
def test_what_is_no_option_is_refused_at_once(name, value):
    with pytest.raises(rk.OptionError, match=name):
        setattr(rk.config, name, value)
    with pytest.raises(rk.OptionError, match=name), rk.config.patch(**{name: value}):
        pass
    assert Options.parse({}) == Options()


def test_every_option_is_there_with_its_default_and_a_type():
    fields = {field.name: field.default for field in dataclasses.fields(Options)}
    assert {name: getattr(rk.config, name) for name in fields} == fields
    assert set(typing.get_type_hints(rk.config)) == set(fields) <= set(dir(rk.config))
    with pytest.raises(AttributeError, match="bugdet"):
        _ = rk.config.bugdet


def test_a_model_is_compiled_as_it_says():
    model = torch.compile(torch.nn.Linear(4, 4), backend="rk", options={"group": "config"})
    with rk.config.patch(budget="1B", on_infeasible="error"), pytest.raises(Exception, match="smallest"):
        model(torch.randn(2, 4)).sum().backward()
