//! What each experiment looks at unless it is told otherwise: on a laptop, and at the sizes of the papers.

use std::time::Duration;

use rk_solve::{SaveBudgets, Solver};

use super::rows::Cell;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    Options,
    SolvingTime,
    Performance,
}

/// The lists of an experiment; cells are their product.
pub struct Defaults {
    pub experiment: Experiment,
    pub networks: Vec<String>,
    pub budgets: Vec<u32>,
    pub methods: Vec<Solver>,
    /// Save budgets per block, for `options`.
    pub counts: &'static [u32],
    pub limit: Duration,
    /// How long it takes to trace and import one of the networks, in words.
    tracing: &'static str,
}

impl Experiment {
    /// The name of the command, of its rows and of its table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::SolvingTime => "solving-time",
            Self::Performance => "performance",
        }
    }

    pub fn defaults(self, paper: bool) -> Defaults {
        use Solver::{Auto, Checkmate, Classes, Cut, Dtr, Greedy, Ilp, Local, Rockmate, Rotor, States};
        let (networks, budgets, seconds): (&str, &[u32], u64) = match (self, paper) {
            (Self::Options, false) => ("gpt2-4,resnet-29", &[70, 50], 5),
            (Self::Options, true) => {
                ("gpt2-24,gpt2-36,resnet101,regnet_x_32gf,mixer-12", &[70, 50, 30, 20], 60)
            }
            (Self::SolvingTime, false) => (
                "gpt2-1,gpt2-2,gpt2-4,gpt2-8,gpt2-16,made-up:residual-70-0,\
                 resnet-11,resnet-29,resnet-56,regnet-4,regnet-8,regnet-16",
                &[50],
                1,
            ),
            (Self::SolvingTime, true) => (
                "gpt2-1,gpt2-2,gpt2-4,gpt2-8,gpt2-16,gpt2-24,gpt2-36,gpt2-48,gpt2-96,\
                 made-up:residual-70-0,resnet-11,resnet-29,resnet-56,resnet-101,resnet-200,resnet-497,resnet-1001,\
                 regnet-4,regnet-8,regnet-16,regnet-32,regnet-64,regnet-128",
                &[70, 50, 30],
                600,
            ),
            (Self::Performance, false) => {
                ("gpt2-24,resnet101-128,regnet_x_32gf-128,mixer-12,transformer", &[70, 50, 33, 20], 1)
            }
            (Self::Performance, true) => (
                "gpt2-medium,gpt2-large,resnet101-224,regnet_x_32gf-224,mixer-b16,transformer-base",
                &[90, 80, 70, 60, 50, 40, 33, 25, 20],
                60,
            ),
        };
        let methods: &[Solver] = match self {
            Self::Options => &[Rockmate, Classes, Auto],
            Self::SolvingTime => &[Rockmate, Rotor, Checkmate, Auto],
            Self::Performance => {
                &[Auto, Classes, Rockmate, Rotor, Dtr, Greedy, Local, Cut, Ilp, Checkmate, States]
            }
        };
        Defaults {
            experiment: self,
            networks: networks.split(',').map(str::to_owned).collect(),
            budgets: budgets.to_vec(),
            methods: methods.to_vec(),
            counts: if paper { &[1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96] } else { &[2, 8, 24, 48] },
            limit: Duration::from_secs(seconds),
            tracing: if paper { "up to five minutes" } else { "half a minute" },
        }
    }
}

impl Defaults {
    /// Every cell, always in the same order: networks, budgets, methods, options.
    pub fn cells(&self, choices: impl Fn(Solver) -> Vec<Option<SaveBudgets>>) -> Vec<Cell> {
        let mut cells = Vec::new();
        for network in &self.networks {
            for &budget in &self.budgets {
                for &method in &self.methods {
                    cells.extend(choices(method).into_iter().map(|save| Cell {
                        network: network.clone(),
                        budget,
                        method,
                        save,
                    }));
                }
            }
        }
        cells
    }

    /// How long that many plans take, in words. Most plans are done before their limit, and in large graphs a second of work takes some
    /// seconds: in the mean it is about the limit.
    pub fn estimate(&self, plans: usize) -> String {
        let about = self.limit.as_secs_f64() * plans as f64;
        let span = if about < 90.0 { format!("{about:.0} s") } else { format!("{:.0} min", about / 60.0) };
        let tracing = self.tracing;
        format!("about {span} of one idle core, and {tracing} for each network that is not traced yet")
    }
}
