//! A recording as the text of a module at stage raw (`docs/ir.md`).

use crate::literal;
use crate::roofline;
use crate::spelling::{self, Names};
use rk_torch::{
    ArgumentRole, Device, RecordedOp, Recording, Result, ResultRole, Settings, ValueNumber, threads,
    torch_version,
};
use std::fmt::Write;

/// Where the step came from: enough to run it again.
pub struct Source {
    /// Path of the archive, as given.
    pub archive: String,
    /// SHA-256 of the archive, hex.
    pub sha256: String,
    /// The loss specification.
    pub loss: String,
    /// Seed of inputs and generator.
    pub seed: u64,
    /// Input specifications.
    pub inputs: Vec<String>,
    /// Path and SHA-256 of the file of inputs, if one was given.
    pub inputs_file: Option<(String, String)>,
    /// Where it ran.
    pub device: Device,
    /// Whether times were measured.
    pub measured: bool,
    /// Under which settings of libtorch.
    pub settings: Settings,
}

/// Bytes to which values are rounded up: libtorch aligns CPU tensors to 64, the CUDA caching allocator to 512.
const fn alignment(device: Device) -> u64 {
    match device {
        Device::Cpu => 64,
        Device::Cuda(_) => 512,
    }
}

/// Prints the whole module.
///
/// # Errors
/// When a constant cannot be spelled.
pub fn print_module(recording: &Recording, source: &Source) -> Result<String> {
    let mut printer =
        Printer { recording, source, names: vec![String::new(); recording.values.len()], out: String::new() };
    printer.header()?;
    printer.signature();
    printer.constants()?;
    for op in &recording.ops {
        printer.op(op);
    }
    printer.results();
    Ok(printer.out)
}

struct Printer<'a> {
    recording: &'a Recording,
    source: &'a Source,
    names: Vec<String>,
    out: String,
}

impl Printer<'_> {
    fn name(&self, value: ValueNumber) -> String {
        self.names[value.0 as usize].clone()
    }

    fn spelled(&self, value: ValueNumber) -> String {
        spelling::tensor_type(self.recording.type_of(value))
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn header(&mut self) -> Result<()> {
        let source = self.source;
        let quote = literal::string;
        let inputs: Vec<String> = source.inputs.iter().map(|spec| quote(spec)).collect();
        let file = match &source.inputs_file {
            None => String::new(),
            Some((path, digest)) => {
                format!(", inputs_file = {}, inputs_sha256 = {}", quote(path), quote(digest))
            }
        };
        let entries = [
            format!("archive = {}", quote(&source.archive)),
            format!("sha256 = {}", quote(&source.sha256)),
            format!("loss = {}", quote(&source.loss)),
            // As the bits of an i64: MLIR has no literal for the upper half of u64.
            format!("seed = {} : i64", source.seed as i64),
            format!("inputs = [{}]{file}", inputs.join(", ")),
            format!("threads = {} : i64", threads()?),
        ];
        let importer = format!("rk-import {} torch {}", env!("CARGO_PKG_VERSION"), torch_version());
        let model = if source.measured { "measured" } else { "roofline" };
        let attributes = [
            format!("rk.source = {{{}}}", entries.join(", ")),
            format!("rk.device = {}", quote(&source.device.to_string())),
            format!("rk.settings = {}", quote(&source.settings.to_string())),
            format!("rk.alignment = {} : i64", alignment(source.device)),
            format!("rk.importer = {}", quote(&importer)),
            format!("rk.cost_model = {}", quote(model)),
        ];
        self.line(&format!("module attributes {{{}}} {{", attributes.join(", ")));
        Ok(())
    }

    fn signature(&mut self) {
        let mut names = Names::default();
        let mut arguments = Vec::new();
        for argument in &self.recording.arguments {
            let role = match argument.role {
                ArgumentRole::Input => "input",
                ArgumentRole::Parameter => "parameter",
                ArgumentRole::Buffer => "buffer",
            };
            let mut attributes =
                format!("rk.role = \"{role}\", rk.name = {}", literal::string(&argument.name));
            if argument.trainable {
                attributes.push_str(", rk.trainable");
            }
            if !argument.aliases.is_empty() {
                let aliases: Vec<String> = argument.aliases.iter().map(|a| literal::string(a)).collect();
                let _ = write!(attributes, ", rk.aliases = [{}]", aliases.join(", "));
            }
            let name = names.of(&argument.name);
            arguments.push(format!("{name}: {} {{{attributes}}}", self.spelled(argument.value)));
            self.names[argument.value.0 as usize] = name;
        }
        for constant in &self.recording.constants {
            self.names[constant.value.0 as usize] = names.of("constant");
        }
        for op in &self.recording.ops {
            let base = op.name.split('.').nth(1).unwrap_or("op").trim_matches('_');
            let name = names.of(base);
            for (i, result) in op.results.iter().enumerate() {
                let result = &mut self.names[result.0 as usize];
                *result = if op.results.len() == 1 { name.clone() } else { format!("{name}#{i}") };
            }
        }
        let mut results = Vec::new();
        for result in &self.recording.results {
            let role = match result.role {
                ResultRole::Loss => "loss",
                ResultRole::Output => "output",
                ResultRole::Gradient => "gradient",
            };
            let name = literal::string(&result.name);
            results
                .push(format!("{} {{rk.role = \"{role}\", rk.name = {name}}}", self.spelled(result.value)));
        }
        let (arguments, results) = (arguments.join(",\n                  "), results.join(",\n          "));
        self.line(&format!("  func.func @step({arguments})"));
        self.line(&format!("      -> ({results}) attributes {{rk.stage = #rk.stage<raw>}} {{"));
    }

    fn constants(&mut self) -> Result<()> {
        for constant in &self.recording.constants {
            let Some(value) = self.recording.type_of(constant.value) else { continue };
            let dense = literal::dense(value.dtype, &value.sizes, &constant.bytes)?;
            let (name, spelled) = (self.name(constant.value), self.spelled(constant.value));
            self.line(&format!("    {name} = rk.constant dense<{dense}> : {spelled}"));
        }
        Ok(())
    }

    fn op(&mut self, op: &RecordedOp) {
        let mut text = String::from("    ");
        if let Some(first) = op.results.first() {
            let name = self.name(*first);
            match name.strip_suffix("#0") {
                Some(name) if op.results.len() > 1 => {
                    let _ = write!(text, "{name}:{} = ", op.results.len());
                }
                _ => {
                    let _ = write!(text, "{name} = ");
                }
            }
        }
        let arguments: Vec<String> =
            op.args.iter().map(|arg| spelling::argument(arg, &|v| self.name(v))).collect();
        let _ = write!(text, "rk.aten {}({})", literal::string(&op.name), arguments.join(", "));
        text.push_str(&self.clauses(op));
        let join = |values: &[ValueNumber]| {
            let types: Vec<String> = values.iter().map(|&value| self.spelled(value)).collect();
            types.join(", ")
        };
        let results = match op.results.as_slice() {
            [one] if self.recording.type_of(*one).is_some() => join(&[*one]),
            many => format!("({})", join(many)),
        };
        let path = if op.path.is_empty() { "<root>" } else { &op.path };
        let _ = write!(text, " : ({}) -> {results} loc({})", join(&op.operands), literal::string(path));
        self.line(&text);
    }

    fn clauses(&self, op: &RecordedOp) -> String {
        let mut text = String::new();
        if !op.writes.is_empty() {
            let writes: Vec<String> = op.writes.iter().map(u32::to_string).collect();
            let _ = write!(text, " writes({})", writes.join(", "));
        }
        if op.aliases.iter().any(Option::is_some) {
            let aliases: Vec<String> =
                op.aliases.iter().map(|alias| alias.map_or("-1".to_owned(), |a| a.to_string())).collect();
            let _ = write!(text, " aliases({})", aliases.join(", "));
        }
        if op.random {
            text.push_str(" random");
        }
        if op.backward {
            text.push_str(" backward");
        }
        let nanos = op.nanos.unwrap_or_else(|| roofline::nanos(op, self.recording, self.source.device));
        let _ = write!(text, " cost <{nanos} ns, workspace {} B>", op.workspace);
        text
    }

    fn results(&mut self) {
        let values: Vec<ValueNumber> = self.recording.results.iter().map(|result| result.value).collect();
        let names: Vec<String> = values.iter().map(|&value| self.name(value)).collect();
        let types: Vec<String> = values.iter().map(|&value| self.spelled(value)).collect();
        let text = if values.is_empty() {
            "    return".to_owned()
        } else {
            format!("    return {} : {}", names.join(", "), types.join(", "))
        };
        self.line(&text);
        self.line("  }");
        self.line("}");
    }
}
