//! Ops made from Rust: they print as docs/ir.md writes them, read back as they were made, and pass the verifier.

use rk_dialect::create::{self, AtenCall, NewNode, NewRun};
use rk_dialect::ops::{self, AtenOp, NodeOp, RunOp, StepOp};
use rk_dialect::{Arg, At, Attr, Context, Cost, Module, Op, PlanSummary, Stage, Tensor, Type, names};

/// A linear layer and a ReLU in place, run, run again, dropped.
fn step(context: &Context) -> Module<'_> {
    let cx = context.handle();
    let module = context.module(cx.unknown());
    let ty = Type::parse(cx, "tensor<2x2xf32>").expect("a type");
    let fc = NewNode {
        symbol: "fc".into(),
        inputs: vec![ty, ty],
        cost: Some(Cost { time: 5, workspace: 64 }),
        ..Default::default()
    }
    .insert(At::End(module.body()), cx.named("fc"));
    let body = fc.body().expect("a body");
    let arguments = body.arguments().into_iter().map(Arg::Value).collect();
    let call = AtenCall {
        operator: "aten.mm.default".into(),
        args: arguments,
        results: vec![ty],
        ..Default::default()
    }
    .insert(At::End(body), cx.named("fc"));
    create::yield_(&call.op().results(), At::End(body), cx.named("fc"));

    let relu = NewNode { symbol: "relu".into(), inputs: vec![ty], overwrites: Some(0), ..Default::default() }
        .insert(At::End(module.body()), cx.named(""));
    let body = relu.body().expect("a body");
    let x = body.arguments()[0];
    AtenCall {
        operator: "aten.relu_.default".into(),
        args: vec![Arg::Value(x)],
        results: vec![ty],
        writes: vec![0],
        aliases: vec![Some(0)],
        ..Default::default()
    }
    .insert(At::End(body), cx.named(""));
    create::yield_(&[x], At::End(body), cx.named(""));

    let name = |name| [("rk.role", Attr::string(cx, "parameter")), ("rk.name", Attr::string(cx, name))];
    let (x, w) = (name("x"), name("fc.weight"));
    let step =
        create::step(&module, "step", Stage::Scheduled, &[(ty, &x), (ty, &w)], &[(ty, &[])], cx.unknown());
    let at = At::End(step.body());
    let run = |symbol: &str, operands: &[_], again, overwrite| {
        NewRun { symbol: symbol.into(), operands: operands.to_vec(), results: vec![ty], again, overwrite }
            .insert(at, cx.named(symbol))
            .op()
            .results()[0]
    };
    let inputs = step.arguments();
    let first = run("fc", &inputs, false, false);
    let relu = run("relu", &[first], false, true);
    let second = run("fc", &inputs, true, false);
    create::drop(second, at, cx.unknown());
    create::return_(&[relu], at, cx.unknown());
    module
}

#[test]
fn what_is_made_prints_and_verifies() {
    let context = Context::new();
    let module = step(&context);
    assert!(module.op().verify());
    let expected = r#"module {
  rk.node @fc cost <5 ns, workspace 64 B> {
  ^bb0(%arg0: tensor<2x2xf32>, %arg1: tensor<2x2xf32>):
    %mm = rk.aten "aten.mm.default"(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    rk.yield %mm : tensor<2x2xf32>
  }
  rk.node @relu overwrites(0) {
  ^bb0(%arg0: tensor<2x2xf32>):
    %relu_ = rk.aten "aten.relu_.default"(%arg0) writes(0) aliases(0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    rk.yield %arg0 : tensor<2x2xf32>
  }
  func.func @step(%arg0: tensor<2x2xf32> {rk.name = "x", rk.role = "parameter"}, %arg1: tensor<2x2xf32> {rk.name = "fc.weight", rk.role = "parameter"}) -> tensor<2x2xf32> attributes {rk.stage = #rk.stage<scheduled>} {
    %fc = rk.run @fc(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %relu = rk.run overwrite @relu(%fc) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %fc_0 = rk.run again @fc(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    rk.drop %fc_0 : tensor<2x2xf32>
    return %relu : tensor<2x2xf32>
  }
}
"#;
    assert_eq!(module.op().to_string(), expected);
    let text = module.op().print(true);
    let again = context.parse(&text, "printed.mlir").expect("it reads back");
    assert_eq!(again.op().print(true), text);
    let nodes = ops::nodes(again.op());
    assert_eq!(nodes[0].calls()[0].module_path(), "fc");
    assert_eq!(nodes[1].calls()[0].module_path(), "");
}

#[test]
fn views_read_what_was_made() {
    let context = Context::new();
    let module = step(&context);
    let nodes = ops::nodes_by_symbol(module.op());
    let (place, relu) = nodes["relu"];
    assert_eq!((place, relu.overwrites(), relu.cost(), relu.has_side_effect()), (1, Some(0), None, false));
    assert_eq!(nodes["fc"].1.cost(), Some(Cost { time: 5, workspace: 64 }));
    let step = module.body().ops().into_iter().find_map(StepOp::of).expect("a step");
    assert_eq!((step.symbol(), step.stage()), ("step", Stage::Scheduled));
    assert_eq!(step.argument_name(1), Some("fc.weight"));
    let runs: Vec<RunOp<'_>> = step.body().ops().into_iter().filter_map(RunOp::of).collect();
    assert_eq!(
        runs.iter().map(|run| (run.is_again(), run.is_overwrite())).collect::<Vec<_>>(),
        [(false, false), (false, true), (true, false)]
    );
    assert_eq!(runs[1].node(), Some(relu));
    assert_eq!(names::of(runs[2].outputs()[0]), "fc");
    assert_eq!(names::of(step.arguments()[1]), "fc.weight");
    let uses = step.arguments()[1].uses();
    assert_eq!(uses.iter().map(|one| one.operand).collect::<Vec<_>>(), [1, 1]);
    step.set_stage(Stage::Lowered);
    assert_eq!(step.stage(), Stage::Lowered);
}

#[test]
fn every_argument_reads_back_as_it_was() {
    let context = Context::new();
    let cx = context.handle();
    let module = step(&context);
    let step = module.body().ops().into_iter().find_map(StepOp::of).expect("a step");
    let (x, w) = (step.arguments()[0], step.arguments()[1]);
    let args = vec![
        Arg::List(vec![Arg::Value(w), Arg::None, Arg::Value(x)]),
        Arg::List(vec![]),
        Arg::Int(i64::MIN),
        Arg::Float(-0.1),
        Arg::Float(f64::INFINITY),
        Arg::Bool(true),
        Arg::Str("a \"b\"\n".into()),
        Arg::Value(x),
    ];
    let call = AtenCall {
        operator: "ns.every.kind".into(),
        args: args.clone(),
        random: true,
        effects: vec![2],
        ..Default::default()
    }
    .insert(At::Start(step.body()), cx.named("m"));
    assert_eq!(call.args(), args);
    assert_eq!(call.op().operands(), [w, x, x]);
    let text = module.op().print(true);
    let read = context.parse(&text, "printed.mlir").expect("it reads back");
    let step = read.body().ops().into_iter().find_map(StepOp::of).expect("a step");
    let read = AtenOp::of(step.body().ops()[0]).expect("a call");
    assert_eq!(read.args()[1..7], args[1..7]);
    assert_eq!((read.operator(), read.is_random(), read.effects()), ("ns.every.kind", true, vec![2]));
    assert_eq!(read.operator_parts(), Some(("ns", "every", "kind")));
}

#[test]
fn a_body_is_inlined() {
    let context = Context::new();
    let module = step(&context);
    let step = module.body().ops().into_iter().find_map(StepOp::of).expect("a step");
    // With its first run gone, the step is no schedule.
    step.set_stage(Stage::Costed);
    let run = step.body().ops().into_iter().find_map(RunOp::of).expect("a run");
    let node = run.node().expect("its node");
    let ends = create::inline(node.body().expect("a body"), &run.inputs(), At::Before(run.op()));
    run.op().results()[0].replace_all_uses(ends[0]);
    for _ in 0..2 {
        module.eraser().erase(run.op());
    }
    module.eraser().erase(module.op());
    assert!(run.op().block().is_none(), "the handle is one to an op that no block holds");
    let first = step.body().ops()[0];
    assert_eq!(
        first.to_string(),
        "%mm = rk.aten \"aten.mm.default\"(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>"
    );
    assert!(node.op().block().is_some(), "the node keeps its body");
}

/// Bytes of a value by the rule of docs/ir.md.
#[test]
fn bytes_of_a_value() {
    let context = Context::new();
    let bytes = |ty: &str| Type::parse(context.handle(), ty).expect("a type").bytes();
    assert_eq!(bytes("tensor<8x16xf32>"), Some(512));
    assert_eq!(bytes("tensor<f32>"), Some(4));
    assert_eq!(bytes("tensor<0x16xf32>"), Some(0));
    assert_eq!(bytes("tensor<8x16xf32, #rk.strided<[1, 8]>>"), Some(512));
    assert_eq!(bytes("tensor<4xf32, #rk.strided<[2]>>"), Some(28));
    assert_eq!(bytes("tensor<4xf32, #rk.strided<[0]>>"), Some(4));
    assert_eq!(bytes("tensor<4xf32, #rk.strided<[2], storage 64>>"), Some(64));
    assert_eq!(bytes("tensor<3xi1>"), Some(3));
    assert_eq!(bytes("tensor<3xui8>"), Some(3));
    assert_eq!(bytes("tensor<3xbf16>"), Some(6));
    assert_eq!(bytes("tensor<3xcomplex<f64>>"), Some(48));
    assert_eq!(bytes("none"), Some(0));
    assert_eq!(bytes("!rk.generator"), Some(5056));
    assert_eq!(bytes("index"), None);
}

#[test]
fn a_type_is_written_the_short_way() {
    let context = Context::new();
    let short = |ty: &str| {
        let tensor = Tensor::of(Type::parse(context.handle(), ty).expect("a type")).expect("a tensor");
        tensor.ty().expect("a type").to_string()
    };
    assert_eq!(short("tensor<8x16xf32, #rk.strided<[16, 1], storage 512>>"), "tensor<8x16xf32>");
    assert_eq!(
        short("tensor<8x16xf32, #rk.strided<[1, 8], storage 512>>"),
        "tensor<8x16xf32, #rk.strided<[1, 8]>>"
    );
    assert_eq!(
        short("tensor<8xf32, #rk.strided<[1], storage 64>>"),
        "tensor<8xf32, #rk.strided<[1], storage 64>>"
    );
    assert_eq!(short("tensor<f32>"), "tensor<f32>");
    assert_eq!(short("tensor<0x3xf32>"), "tensor<0x3xf32>");
}

#[test]
fn constants_keep_their_bytes() {
    let context = Context::new();
    let cx = context.handle();
    let module = step(&context);
    let step = module.body().ops().into_iter().find_map(StepOp::of).expect("a step");
    let make = |ty: &str, bytes: &[u8]| {
        let value = Attr::dense(Type::parse(cx, ty).expect("a type"), bytes)?;
        let constant = create::constant(value, At::Start(step.body()), cx.unknown());
        assert!(constant.op().verify());
        constant.value()?.dense_bytes().map(|elements| (elements.splat, elements.bytes.to_vec()))
    };
    assert_eq!(
        make("tensor<2xi64>", &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])
            .map(|(splat, bytes)| (splat, bytes.len())),
        Some((false, 16))
    );
    assert_eq!(make("tensor<3xi1>", &[1, 0, 1]), Some((false, vec![1, 0, 1])));
    assert_eq!(make("tensor<4xi1>", &[1, 1, 1, 1]), Some((true, vec![1])));
    assert_eq!(make("tensor<2xui8>", &[7, 255]), Some((false, vec![7, 255])));
    assert_eq!(make("tensor<0xf32>", &[]).map(|(_, bytes)| bytes.len()), Some(0));
    assert_eq!(make("tensor<2xf32>", &[0; 7]), None);
    assert_eq!(
        make("tensor<2xcomplex<f32>>", &[0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0])
            .map(|(_, bytes)| bytes.len()),
        Some(16)
    );
}

#[test]
fn a_view_answers_for_its_own_kind_only() {
    let context = Context::new();
    let module = step(&context);
    let op: Op<'_> = module.op();
    assert!(NodeOp::of(op).is_none() && RunOp::of(op).is_none() && StepOp::of(op).is_none());
}

/// A plan that is written takes away what the step said of another one; what has no attribute of its own stays.
#[test]
fn what_a_step_says_of_its_plan_is_what_was_written() {
    let context = Context::new();
    let text = "func.func @step() attributes {rk.stage = #rk.stage<scheduled>, rk.peak = 8 : i64, rk.offsets = array<i64: 0, 64>,\n\
                rk.solver = \"cut\", rk.importer = \"ours\"} { return }\n";
    let module = context.parse(text, "step.mlir").expect("well-formed");
    let step = module.body().ops().into_iter().find_map(StepOp::of).expect("a step");
    let read = PlanSummary::of(step);
    let (peak, offsets, solver) = (Some(8), Some(vec![0, 64]), Some("cut".to_owned()));
    assert_eq!(read, PlanSummary { peak, offsets, solver, ..PlanSummary::default() });

    let written =
        PlanSummary { time: Some(u64::MAX), status: Some("optimal".into()), ..PlanSummary::default() };
    written.write(step);
    let most = Some(i64::MAX as u64);
    assert_eq!(PlanSummary::of(step), PlanSummary { time: most, ..written });
    let left = |name: &str| step.op().get(name).is_some();
    assert!(!left("rk.peak") && !left("rk.offsets") && !left("rk.solver") && left("rk.importer"));
}
