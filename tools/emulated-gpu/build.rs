//! Compiles the device for torch, and gives the library the name under which rk looks for libtorch_cuda.

#[path = "../../codegen/torch/build/libtorch.rs"]
mod libtorch;

const SOURCES: &[&str] = &[
    "cc/allocator.cpp",
    "cc/attention.cpp",
    "cc/device.cpp",
    "cc/fallback.cpp",
    "cc/metadata.cpp",
    "cc/operators.cpp",
];

fn main() {
    let lib = libtorch::folder("DEP_RK_TORCH_LIBTORCH_LIB", "rk-torch");
    libtorch::compiler(&lib)
        .opt_level(1)
        .files(SOURCES)
        // Its parts register themselves when they are loaded; nobody calls them.
        .link_lib_modifier("+whole-archive")
        .compile("rk_emulated_torch");
    libtorch::link(&lib);
    println!("cargo:rerun-if-changed=../../codegen/torch/build");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtorch_cuda.so");
}
