//! Compiles the device for torch, and gives the library the name under which rk looks for libtorch_cuda.

use std::path::PathBuf;

const SOURCES: &[&str] =
    &["cc/allocator.cpp", "cc/device.cpp", "cc/fallback.cpp", "cc/metadata.cpp", "cc/operators.cpp"];

fn main() {
    let Some(lib) = std::env::var_os("DEP_RK_TORCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!("cargo:warning=rk-torch did not say where libtorch is; see `cargo xtask setup`");
        std::process::exit(1);
    };
    let include = lib.parent().unwrap_or(&lib).join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        .flag("-isystem")
        .flag(include.display().to_string())
        .flag("-Wno-unused-parameter")
        .flag("-fvisibility=hidden")
        .opt_level(1)
        .debug(false)
        .files(SOURCES)
        // Its parts register themselves when they are loaded; nobody calls them.
        .link_lib_modifier("+whole-archive")
        .compile("rk_emulated_torch");
    println!("cargo:rerun-if-changed=cc");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
    println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{}", lib.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtorch_cuda.so");
}
