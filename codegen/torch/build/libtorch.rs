//! Compiling C++ against the headers inside the torch wheel, and linking libtorch: for every build script that does so.

use std::path::{Path, PathBuf};

/// The folder of libtorch's libraries, by the variable in which cargo hands it on from the crate that knows.
pub fn folder(variable: &str, crate_name: &str) -> PathBuf {
    std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| {
        println!("cargo:warning={crate_name} did not say where libtorch is; see `cargo xtask setup`");
        std::process::exit(1);
    })
}

/// A compiler that finds the headers of the libtorch in this folder.
pub fn compiler(lib: &Path) -> cc::Build {
    let include = lib.parent().unwrap_or(lib).join("include");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        // Headers of torch are full of unused parameters and sign comparisons; ours stay checked.
        .flag("-isystem")
        .flag(include.display().to_string())
        .flag("-isystem")
        .flag(include.join("torch/csrc/api/include").display().to_string())
        .flag("-Wno-unused-parameter")
        .flag("-fvisibility=hidden")
        // Debug information of the torch headers makes the archive ten times larger and serves nobody.
        .debug(false);
    println!("cargo:rerun-if-changed=cc");
    build
}

/// Links libtorch, and lets what this crate makes find it when it runs.
pub fn link(lib: &Path) {
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
    println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{}", lib.display());
}
