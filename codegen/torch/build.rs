//! Compiles the C++ shim against the headers inside the torch wheel and links libtorch.
//!
//! torch-sys has already found libtorch and tells where (its `links` key is "tch"). We pass the folder on to
//! the crates that depend on us, because an rpath set by a library crate does not reach their binaries.

#[path = "build/libtorch.rs"]
mod libtorch;

const SOURCES: &[&str] = &[
    "cc/common.cpp",
    "cc/convert.cpp",
    "cc/dispatch.cpp",
    "cc/memory.cpp",
    "cc/arena.cpp",
    "cc/settle.cpp",
    "cc/watch.cpp",
    "cc/workspace.cpp",
    "cc/device.cpp",
    "cc/cuda.cpp",
    "cc/settings.cpp",
    "cc/archive.cpp",
    "cc/interpret.cpp",
    "cc/record.cpp",
    "cc/record_values.cpp",
    "cc/measure.cpp",
    "cc/timer.cpp",
    "cc/probe.cpp",
    "cc/encode.cpp",
    "cc/step.cpp",
    "cc/launch.cpp",
];

fn main() {
    let lib = libtorch::folder("DEP_TCH_LIBTORCH_LIB", "torch-sys");
    libtorch::compiler(&lib)
        // g++ 12 invents an overflow in intrusive_ptr.
        .flag("-Wno-stringop-overflow")
        .opt_level(2)
        .files(SOURCES)
        .compile("rk_torch_shim");
    // The path is for our own tests.
    libtorch::link(&lib);
    println!("cargo:libtorch_lib={}", lib.display());
    println!("cargo:rerun-if-changed=build");
}
