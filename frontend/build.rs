//! An rpath for our tests: one set by rk-torch does not reach them.

fn main() {
    if let Ok(lib) = std::env::var("DEP_RK_TORCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{lib}");
    }
}
