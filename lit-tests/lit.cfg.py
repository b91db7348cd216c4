# The golden tests: one IR in, one IR or one diagnostic out.
#
# `cargo xtask lit [PATHS]` runs them; so does `/usr/lib/llvm-22/bin/lit -v lit-tests`. The tools under test are those of
# $RK_TOOLS, else $CARGO_TARGET_DIR/release, else target/release of this checkout. They must be built already.
# A RUN line without its colon runs nothing: watch each new test fail once.

import os
import sys

import lit.formats

checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(checkout, "target")
tools = os.environ.get("RK_TOOLS") or os.path.join(target, "release")
llvm = os.path.join(os.environ.get("MLIR_SYS_220_PREFIX") or "/usr/lib/llvm-22", "bin")

config.name = "rk"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
# What tests write lies with the build, not with the sources.
config.test_exec_root = os.path.join(os.path.dirname(tools), "lit-tests")

# rk-opt, rk-translate, ... and FileCheck, not, split-file, mlir-opt are found by name.
config.environment["PATH"] = os.pathsep.join([tools, llvm, os.environ.get("PATH", "")])

plugin = os.path.join(tools, "librk.so")
config.substitutions.append(("%rk-opt", os.path.join(tools, "rk-opt")))
config.substitutions.append(("%plugin", plugin))
config.substitutions.append(("%shared", os.environ.get("RK_SHARED") or os.path.join(os.path.dirname(checkout), "shared")))

if not os.path.exists(os.path.join(tools, "rk-opt")):
    sys.exit("lit: %s/rk-opt is missing; build it first: cargo build --release -p rk-opt -p rk-plugin" % tools)
# Tests that need the plugin, rk-translate or the language server say REQUIRES.
if os.path.exists(plugin):
    config.available_features.add("plugin")
if os.path.exists(os.path.join(tools, "rk-translate")):
    config.available_features.add("rk-translate")
if os.path.exists(os.path.join(tools, "rk-plan")):
    config.available_features.add("rk-plan")
if os.path.exists(os.path.join(tools, "rk-run")):
    config.available_features.add("rk-run")
if os.path.exists(os.path.join(tools, "rk-lsp-server")):
    config.available_features.add("lsp")
