//! Compiles the counter against c10's headers and links c10 alone: the Python package brings its own libtorch, of any version.

#[expect(dead_code, reason = "what links all of libtorch is for the others")]
#[path = "../../../codegen/torch/build/libtorch.rs"]
mod libtorch;

fn main() {
    let lib = libtorch::folder("DEP_RK_TORCH_LIBTORCH_LIB", "rk-torch");
    libtorch::compiler(&lib)
        .opt_level(2)
        .include("../../../codegen/torch/cc")
        .file("cc/counter.cpp")
        .compile("rk_counter");
    println!("cargo:rerun-if-changed=../../../codegen/torch/cc/counting.h");
    println!("cargo:rerun-if-changed=../../../codegen/torch/build");
    // No run path: torch is imported first, and the loader takes its c10.
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=c10");
}
