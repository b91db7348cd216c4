//! An rpath to libtorch: one set by a library crate does not reach the binary.

fn main() {
    if let Ok(lib) = std::env::var("DEP_RK_TORCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{lib}");
    }
}
