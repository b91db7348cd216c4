//! Says of which LLVM the tools are: `LLVM_VERSION`, from the header of the LLVM that the dialect is compiled against.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix = std::env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned());
    let header = PathBuf::from(prefix).join("include/llvm/Config/llvm-config.h");
    println!("cargo:rerun-if-changed={}", header.display());
    let text = std::fs::read_to_string(&header)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", header.display()));
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("#define LLVM_VERSION_STRING "))
        .unwrap_or_else(|| panic!("{} does not say its version", header.display()));
    println!("cargo:rustc-env=LLVM_VERSION={}", version.trim().trim_matches('"'));
}
