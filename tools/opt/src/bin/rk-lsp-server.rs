//! `rk-lsp-server`: the language server of MLIR with the dialect rk: names, definitions, and the laws of a schedule as
//! live errors in an editor.

fn main() {
    std::process::exit(rk_dialect::lsp_server_main());
}
