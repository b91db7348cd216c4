//! `rk-import`: a `torch.jit.trace` archive to stage `raw`.
//!
//! Progress goes to standard error. The output appears whole or not at all: it is written beside its place and
//! moved there at the end. Exit codes are listed in `--help`.

use clap::Parser;
use rk_frontend::{
    Device, Error, ErrorKind, ImportOptions, InputSource, InputSpec, LossSpec, Timing, import,
};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  rk-import resnet.pt -o step.mlir
      inputs as the model was traced, the loss is the sum of all outputs
  rk-import resnet.pt --input f32[8,3,224,224] --loss mean --measure 5 -o step.mlir
      another batch size, times measured on this machine
  rk-import gpt2.pt --input i64[2,64]:0..50257 --seed 7 -o step.mlir
      integers from a range
  rk-import model.pt --inputs batch.pt --loss output:0 -o step.mlir
      real inputs from torch.save, a model that returns its own loss first

Exit codes:
  0  the step is in the output file
  1  anything not listed here
  2  the command line is wrong
  3  the archive cannot be read, or is not made by torch.jit
  4  the trace does not accept the inputs
  5  an operator of the step cannot be imported
  6  the output cannot be written";

// Not a doc comment: rustdoc would take the brackets for links.
const INPUT_HELP: &str =
    "One per input: type and shape, and for integers a range: f32[8,3,224,224], i64[2,64]:0..50257";

/// Turns an archive of torch.jit.trace into one training step in rk's IR, stage raw.
///
/// The step is run once, forward, loss and backward, and every operator that ran is written down. Without
/// --measure, times come from a roofline model; workspaces are always counted.
#[derive(Debug, Parser)]
#[command(name = "rk-import", version = version(), after_help = EXAMPLES)]
struct Arguments {
    /// The archive, from torch.jit.trace(model, sample).save(...); `-` is standard input, and `rk-run --check --model` then says where it is.
    #[arg(value_name = "MODEL.pt")]
    model: PathBuf,
    #[arg(long, value_name = "TYPE[SHAPE]", conflicts_with = "inputs", help = INPUT_HELP)]
    input: Vec<InputSpec>,
    /// A file of torch.save with the inputs: a tensor, a tuple, a list, or a dict by argument name.
    #[arg(long, value_name = "FILE.pt")]
    inputs: Option<PathBuf>,
    /// What is differentiated: sum, mean (over all floating outputs), output:N, or none (forward only).
    #[arg(long, default_value = "sum")]
    loss: LossSpec,
    /// cpu, cuda or cuda:N.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Time one of each class of equal calls N times on the spot, and take the median for all of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    measure: u16,
    /// Time every call: with --measure N, in N runs of the whole step after a warm-up.
    #[arg(long, requires = "measure")]
    measure_all: bool,
    /// Take kernels that give the same bits every time, and refuse operators without such. On a GPU some attention adds up in any order
    /// without it: no two of its steps have equal bits, eager or not.
    #[arg(long)]
    deterministic: bool,
    /// Seed of the inputs and of the random generator.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the step is written; - is standard output.
    #[arg(short, long, value_name = "STEP.mlir")]
    output: PathBuf,
}

/// With the libtorch that it is linked to.
fn version() -> &'static str {
    format!("{} (torch {})", env!("CARGO_PKG_VERSION"), rk_torch::torch_version()).leak()
}

/// The archive in a file; of standard input it is a copy, which is there as long as this value.
enum Archive {
    File(PathBuf),
    Copy(tempfile::NamedTempFile),
}

impl Archive {
    fn open(path: &Path) -> std::io::Result<Self> {
        if path != Path::new("-") {
            return Ok(Self::File(path.to_path_buf()));
        }
        let mut copy = tempfile::Builder::new().prefix("rk-import-").suffix(".pt").tempfile()?;
        std::io::copy(&mut std::io::stdin().lock(), &mut copy)?;
        Ok(Self::Copy(copy))
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Copy(copy) => copy.path(),
        }
    }
}

/// Not writable: an exit code of its own.
struct Unwritable(String);

enum Output {
    Standard,
    File { temporary: tempfile::NamedTempFile, path: PathBuf },
}

impl Output {
    /// Opened before the import, so that a typing error does not cost an import.
    fn open(path: &Path) -> Result<Self, Unwritable> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        let fail =
            |error: &dyn std::fmt::Display| Unwritable(format!("cannot write {}: {error}", path.display()));
        if path.is_dir() {
            return Err(fail(&"it is a folder"));
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        // The usual permissions of a new file rather than those of a secret.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.prefix(".rk-import-").tempfile_in(folder).map_err(|error| fail(&error))?;
        Ok(Self::File { temporary, path: path.to_path_buf() })
    }

    fn finish(self, text: &str) -> Result<(), Unwritable> {
        match self {
            Self::Standard => std::io::stdout()
                .lock()
                .write_all(text.as_bytes())
                .map_err(|error| Unwritable(format!("cannot write to standard output: {error}"))),
            Self::File { mut temporary, path } => {
                let fail = |error: &dyn std::fmt::Display| {
                    Unwritable(format!("cannot write {}: {error}", path.display()))
                };
                temporary.write_all(text.as_bytes()).map_err(|error| fail(&error))?;
                temporary.persist(&path).map(|_| ()).map_err(|error| fail(&error.error))
            }
        }
    }
}

fn exit_code(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Loss => 2,
        ErrorKind::Archive => 3,
        ErrorKind::Inputs => 4,
        ErrorKind::Refused => 5,
        ErrorKind::Other => 1,
    }
}

fn main() -> ExitCode {
    let arguments: Arguments = rk_cli::parse();
    let fail = |text: &str, code: u8| {
        // One line, whatever libtorch wrote.
        let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        eprintln!("rk-import: error: {line}");
        ExitCode::from(code)
    };
    let output = match Output::open(&arguments.output) {
        Ok(output) => output,
        Err(Unwritable(why)) => return fail(&why, 6),
    };
    let inputs = match (arguments.inputs, arguments.input) {
        (Some(file), _) => InputSource::File(file),
        (None, specs) if specs.is_empty() => InputSource::Traced,
        (None, specs) => InputSource::Specs(specs),
    };
    let archive = match Archive::open(&arguments.model) {
        Ok(archive) => archive,
        Err(error) => return fail(&format!("standard input cannot be read: {error}"), 3),
    };
    let options = ImportOptions {
        archive: archive.path().to_path_buf(),
        archive_name: arguments.model.display().to_string(),
        inputs,
        loss: arguments.loss,
        device: arguments.device,
        measure: match arguments.measure {
            0 => Timing::None,
            repeats if arguments.measure_all => Timing::Calls(repeats),
            repeats => Timing::Classes(repeats),
        },
        deterministic: arguments.deterministic,
        seed: arguments.seed,
    };
    let start = Instant::now();
    let talk = std::io::stderr().is_terminal();
    let imported = import(&options, &mut |what| {
        if talk {
            eprintln!("rk-import: {what}");
        }
    });
    let imported = match imported {
        Ok(imported) => imported,
        // The name of a copy says nothing.
        Err(error) => {
            let message = match &archive {
                Archive::File(_) => error.message().to_owned(),
                Archive::Copy(copy) => {
                    error.message().replace(&copy.path().display().to_string(), "standard input")
                }
            };
            return fail(&message, exit_code(&error));
        }
    };
    if let Err(Unwritable(why)) = output.finish(&imported.text) {
        return fail(&why, 6);
    }
    let (ops, backward) = (imported.ops, imported.backward_ops);
    eprintln!(
        "rk-import: {ops} operators, {backward} of them backward, in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let (timed, time) = imported.timed;
    if timed > 0 {
        eprintln!("rk-import: measured {timed} of them in {:.3} s", time.as_secs_f64());
    }
    ExitCode::SUCCESS
}
