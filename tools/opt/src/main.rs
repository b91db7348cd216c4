//! `rk-opt`: `mlir-opt` with the dialect rk and its passes. Every option of mlir-opt works.
//!
//! `rk-opt STEP.mlir --rematerialize --budget=2GiB -o OUT.mlir`. The command line is MLIR's own (`MlirOptMain`), so there is
//! nothing to parse here.

fn main() {
    rk_rewrite::register_all();
    std::process::exit(rk_dialect::opt_main(concat!("rk ", env!("CARGO_PKG_VERSION"))));
}
