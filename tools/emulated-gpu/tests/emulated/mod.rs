//! A process in which the emulated GPU is loaded before anything asks for a real one.

use std::path::{Path, PathBuf};
use std::process::Command;

const CHILD: &str = "RK_EMULATED_CHILD";

/// The folder of this test's binary, which has the library too.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// A tool of the workspace.
#[allow(dead_code)]
pub fn tool(name: &str) -> PathBuf {
    let tool = built().parent().unwrap().join(name);
    assert!(tool.exists(), "no {}; `cargo build --release --workspace` makes it", tool.display());
    tool
}

/// A folder with the archives of these models (`models.py`); none without Python.
#[allow(dead_code)]
pub fn archives(models: &[&str]) -> Option<tempfile::TempDir> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("../../.venv/bin/python");
    if !python.exists() {
        eprintln!("skipped: no {}; `cargo xtask setup` makes it", python.display());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(python)
        .arg(here.join("tests/models.py"))
        .arg(folder.path())
        .args(models)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(folder)
}

/// Two names for the library, as the two that it stands in for are looked up: one is loaded ahead of all others, and the file under the
/// other name is the same, so that the loader gives it for both.
pub struct Gpu(tempfile::TempDir);

impl Gpu {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = built().join("librk_emulated_gpu.so");
        assert!(library.exists(), "no {}", library.display());
        for name in ["libcuda.so", "libtorch_cuda.so"] {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    /// A command that has the GPU.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let known = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        command
            .env("LD_PRELOAD", self.0.path().join("libtorch_cuda.so"))
            .env("LD_LIBRARY_PATH", format!("{}:{known}", self.0.path().display()))
            .env("OMP_NUM_THREADS", "1")
            .env_remove("RK_LOG");
        command
    }
}

/// Runs `body` of the test of this name in a process of its own.
#[allow(dead_code)]
pub fn on_gpu(test: &str, body: impl FnOnce()) {
    on_gpu_with(test, &[], body);
}

/// The same with variables.
#[allow(dead_code)]
pub fn on_gpu_with(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return body();
    }
    let gpu = Gpu::new();
    let mut command = gpu.command(&std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, test);
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
}

/// How often things happened since the last call.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Kernels that were launched through the driver, captured ones among them.
    pub kernels: u64,
    /// Operators of torch that were queued.
    pub operators: u64,
    /// Graphs that were launched.
    pub graphs: u64,
    /// What was captured.
    pub captured: u64,
    /// What the device did.
    pub done: u64,
    /// Times that were asked of two events.
    pub elapsed: u64,
}

/// What the library offers to tests.
#[allow(dead_code)]
pub struct Controls(libloading::Library);

#[allow(dead_code)]
impl Controls {
    pub fn new() -> Self {
        // SAFETY: it is loaded already.
        Self(unsafe { libloading::Library::new("libcuda.so") }.unwrap())
    }

    /// 0: as queued, 1: first stream first, 2: last stream first, others: random with this seed.
    pub fn order(&self, order: u64) {
        // SAFETY: a function of this type.
        unsafe { self.0.get::<extern "C" fn(u64)>(b"rk_emulated_order").unwrap()(order) }
    }

    /// 1: a wait is dropped, 2: a parameter of a kernel is shifted, 3: two change places, 4: a graph is lost, 0: none of these.
    pub fn fault(&self, kind: u64, skip: u64) {
        // SAFETY: a function of this type.
        unsafe { self.0.get::<extern "C" fn(u64, u64)>(b"rk_emulated_fault").unwrap()(kind, skip) }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: a function of this type.
        unsafe { self.0.get::<extern "C" fn(*mut Counts)>(b"rk_emulated_counts").unwrap()(&mut counts) };
        counts
    }
}
