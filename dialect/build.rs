//! Generates the C++ of the dialect from `td/`, compiles it with the shim, and lets the linker find MLIR's C API.
//!
//! LLVM is looked for in `MLIR_SYS_220_PREFIX` (set in `.cargo/config.toml`), else in Debian's place.
//! Not here: the search for another LLVM version. MLIR 22 or an error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What mlir-tblgen makes: output file, generator, extra argument.
const GENERATED: [(&str, &str, &str); 10] = [
    ("Dialect.h.inc", "-gen-dialect-decls", "-dialect=rk"),
    ("Dialect.cpp.inc", "-gen-dialect-defs", "-dialect=rk"),
    ("Enums.h.inc", "-gen-enum-decls", ""),
    ("Enums.cpp.inc", "-gen-enum-defs", ""),
    ("Attributes.h.inc", "-gen-attrdef-decls", "-attrdefs-dialect=rk"),
    ("Attributes.cpp.inc", "-gen-attrdef-defs", "-attrdefs-dialect=rk"),
    ("Types.h.inc", "-gen-typedef-decls", "-typedefs-dialect=rk"),
    ("Types.cpp.inc", "-gen-typedef-defs", "-typedefs-dialect=rk"),
    ("Ops.h.inc", "-gen-op-decls", ""),
    ("Ops.cpp.inc", "-gen-op-defs", ""),
];

/// The C++ files of the shim, each with its reason in its first lines.
const SOURCES: [&str; 11] = [
    "Dialect.cpp",
    "Assembly.cpp",
    "Lowered.cpp",
    "Effects.cpp",
    "Hooks.cpp",
    "Access.cpp",
    "Pass.cpp",
    "Lines.cpp",
    "Kernels.cpp",
    "Tools.cpp",
    "Older.cpp",
];

fn main() {
    println!("cargo:rerun-if-changed=td");
    println!("cargo:rerun-if-changed=cc");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_LINK_SHARED");
    let prefix =
        PathBuf::from(env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned()));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    generate(&prefix, &out);
    compile(&prefix, &out);
    // Otherwise mlir-sys links the archives of MLIR and LLVM, C API and all: what leaves this machine as one file.
    if is_shared() {
        link(&prefix, &out);
    }
}

/// Whether MLIR and LLVM are linked as shared libraries.
fn is_shared() -> bool {
    env::var("MLIR_SYS_LINK_SHARED").is_ok_and(|shared| shared == "1")
}

/// Runs mlir-tblgen once per generated file.
fn generate(prefix: &Path, out: &Path) {
    let tblgen = prefix.join("bin/mlir-tblgen");
    for (file, generator, extra) in GENERATED {
        let mut command = Command::new(&tblgen);
        command.arg(format!("-I{}", prefix.join("include").display())).arg("-Itd").arg(generator);
        if !extra.is_empty() {
            command.arg(extra);
        }
        command.arg("td/Ops.td").arg("-o").arg(out.join(file));
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => fail(&format!("{} {generator} ended with {status}", tblgen.display())),
            Err(error) => fail(&format!(
                "cannot run {}: {error}. Install libmlir-22-dev and mlir-22-tools, or run `cargo xtask setup`",
                tblgen.display()
            )),
        }
    }
}

/// Compiles the shim.
fn compile(prefix: &Path, out: &Path) {
    // The compiler that built Debian's libMLIR. MLIR knows a trait by the name that the compiler spells for it: with g++ it
    // would not recognize a symbol table or a terminator across the border, nor could a plugin share the symbols.
    let clang = prefix.join("bin/clang++");
    if !clang.exists() {
        fail(&format!("{} is missing. Install clang-22, or run `cargo xtask setup`", clang.display()));
    }
    let mut build = cc::Build::new();
    build
        .compiler(clang)
        .cpp(true)
        .std("c++17")
        .flag("-fno-exceptions")
        .flag("-fvisibility=hidden")
        .flag("-isystem")
        .flag(prefix.join("include").to_str().expect("the LLVM prefix is UTF-8"))
        // The generated files too: their warnings are not ours.
        .flag("-isystem")
        .flag(out.to_str().expect("OUT_DIR is UTF-8"))
        .include("cc")
        .opt_level(2)
        .debug(false)
        // Debian's libMLIR is a release build: without NDEBUG some classes have another layout here than there.
        .define("NDEBUG", None);
    if !is_shared() {
        build.define("RK_STANDALONE", None);
    }
    for source in SOURCES {
        build.file(Path::new("cc").join(source));
    }
    build.compile("rkshim");
}

/// Debian ships no libMLIR-C.so, which mlir-sys asks for: an ld script of that name stands in for it.
fn link(prefix: &Path, out: &Path) {
    let lib = prefix.join("lib");
    let entries =
        fs::read_dir(&lib).unwrap_or_else(|error| fail(&format!("cannot read {}: {error}", lib.display())));
    let mut archives: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("libMLIRCAPI") && name.ends_with(".a")
        })
        .map(|path| path.display().to_string())
        .collect();
    archives.sort();
    let script = format!("GROUP ( {} {} )\n", archives.join(" "), lib.join("libMLIR.so").display());
    let path = out.join("libMLIR-C.so");
    fs::write(&path, script)
        .unwrap_or_else(|error| fail(&format!("cannot write {}: {error}", path.display())));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=MLIR");
    println!("cargo:rustc-link-lib=dylib=LLVM-22");
}

fn fail(message: &str) -> ! {
    eprintln!("rk-dialect: {message}");
    std::process::exit(1)
}
