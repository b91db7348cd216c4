//! Compiles the C++ shim against the headers inside the torch wheel and links libtorch.
//!
//! torch-sys has already found libtorch and tells where (its `links` key is "tch"). We pass the folder on to
//! the crates that depend on us, because an rpath set by a library crate does not reach their binaries.

use std::path::PathBuf;

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
    "cc/archive.cpp",
    "cc/interpret.cpp",
    "cc/record.cpp",
    "cc/record_values.cpp",
    "cc/measure.cpp",
    "cc/probe.cpp",
    "cc/encode.cpp",
    "cc/step.cpp",
    "cc/launch.cpp",
];

fn main() {
    let Some(lib) = std::env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!("cargo:warning=torch-sys did not say where libtorch is; see `cargo xtask setup`");
        std::process::exit(1);
    };
    let include = lib.parent().unwrap_or(&lib).join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        // Headers of torch are full of unused parameters and sign comparisons; ours stay checked.
        .flag("-isystem")
        .flag(include.display().to_string())
        .flag("-isystem")
        .flag(include.join("torch/csrc/api/include").display().to_string())
        .flag("-Wno-unused-parameter")
        // g++ 12 invents an overflow in intrusive_ptr.
        .flag("-Wno-stringop-overflow")
        .flag("-fvisibility=hidden")
        .opt_level(2)
        // Debug information of the torch headers makes the archive ten times larger and serves nobody.
        .debug(false)
        .files(SOURCES)
        .compile("rk_torch_shim");
    println!("cargo:rerun-if-changed=cc");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
    println!("cargo:libtorch_lib={}", lib.display());
    // For our own tests.
    println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{}", lib.display());
}
