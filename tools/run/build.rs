//! The binary finds libtorch where rk-torch found it: an rpath set by a library crate does not reach it.

fn main() {
    if let Ok(lib) = std::env::var("DEP_RK_TORCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{lib}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
