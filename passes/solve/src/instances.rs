//! Which plan each call of a compiled graph runs, so that a whole training step keeps one budget at the least time.
//!
//! A compiled graph is a class with a few plans ([`Variant`]), each call of it an instance, held from its forward to its last
//! backward half. At every event of the step, what lies beside, what open instances hold and what the running half takes
//! must be within the budget:
//!
//! ```text
//! minimise   sum over instances i of time(v_i)
//! such that  beside(e) + sum over open i, not running, of held(v_i) + half(v_running, e) <= budget      for every event e
//! ```
//!
//! Where instances nest (last in, first out: layers of a model, graph breaks, accumulation), what is open outside of an
//! instance matters to it by its sum alone. So the least time of an instance with all inside of it is a step function of
//! that sum, made from those of the instances inside: an exact dynamic program, whose labels are pairs of bytes and time of
//! which none is better in both. Equal instances have few different sums, so many layers have few labels. Beyond [`MOST`]
//! labels it keeps some of them; the answer is then a choice that fits, with a bound. Other orders are [`interleaved`]'s.
//!
//! Source: Zhao, Le Hellard, Eyraud-Dubois, Gusak, Beaumont, "Rockmate" (ICML 2023), rk-Rotor, whose blocks have several
//! options each; the multiple-choice knapsack along a stack (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 11.5).

pub(crate) mod interleaved;

/// Labels of one step function at most.
const MOST: usize = 4096;

/// One plan of a class; bytes, and ticks of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Held between forward and backward.
    pub held: u64,
    /// The most during forward.
    pub forward: u64,
    /// The most during backward, with what was held.
    pub backward: u64,
    /// Both halves.
    pub time: u64,
}

/// One call of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Of which class.
    pub class: usize,
    /// The event of its forward half.
    pub from: usize,
    /// The last event at which it holds something: its last backward half, or whatever is the last before it is let go.
    pub to: usize,
}

/// Something that happens in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instance that runs a half; `None` when the caller is busy.
    pub runs: Option<usize>,
    /// Bytes that are there and belong to no instance.
    pub beside: u64,
}

/// A step: classes with their variants, instances in the order of their forward halves, events in order.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Per class, its plans.
    pub classes: Vec<Vec<Variant>>,
    /// All calls.
    pub instances: Vec<Instance>,
    /// All that happens.
    pub events: Vec<Event>,
}

/// A choice that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Per instance, the variant.
    pub variants: Vec<usize>,
    /// Of all instances.
    pub time: u64,
    /// The most bytes at any event.
    pub peak: u64,
    /// The first event that takes them.
    pub event: usize,
    /// No choice that fits takes less time.
    pub lower_bound: u64,
}

/// No choice fits, or none was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The smallest budget known to do.
    pub smallest: u64,
    /// The event that holds the peak then.
    pub event: usize,
}

impl Run {
    pub(crate) fn variants(&self, instance: usize) -> &[Variant] {
        &self.classes[self.instances[instance].class]
    }

    /// What a variant of an instance takes at an event while it is open. A backward half frees what it has read, but not
    /// where the instance is open afterwards: then nothing of what is held goes, and the half comes on top.
    pub fn takes(&self, instance: usize, variant: &Variant, event: usize) -> u64 {
        if self.events[event].runs != Some(instance) {
            variant.held
        } else if event == self.instances[instance].from {
            variant.forward
        } else if event == self.instances[instance].to {
            variant.backward
        } else {
            variant.held.saturating_add(variant.backward)
        }
    }

    /// Bytes at every event under a choice.
    pub(crate) fn loads(&self, choice: &[usize]) -> Vec<u64> {
        let mut loads: Vec<u64> = self.events.iter().map(|event| event.beside).collect();
        for (instance, (about, &chosen)) in self.instances.iter().zip(choice).enumerate() {
            let variant = &self.variants(instance)[chosen];
            for (event, load) in loads.iter_mut().enumerate().take(about.to + 1).skip(about.from) {
                *load = load.saturating_add(self.takes(instance, variant, event));
            }
        }
        loads
    }

    pub(crate) fn time(&self, choice: &[usize]) -> u64 {
        let times = choice.iter().enumerate().map(|(instance, &chosen)| self.variants(instance)[chosen].time);
        times.fold(0, u64::saturating_add)
    }

    pub(crate) fn chosen(&self, variants: Vec<usize>, lower_bound: u64) -> Choice {
        let (event, peak) = highest(&self.loads(&variants));
        Choice { time: self.time(&variants), peak, event, lower_bound, variants }
    }
}

/// The first event with the most bytes, and those.
pub(crate) fn highest(loads: &[u64]) -> (usize, u64) {
    let most = loads.iter().copied().max().unwrap_or(0);
    (loads.iter().position(|&load| load == most).unwrap_or(0), most)
}

/// Chooses a variant for every instance. Every class has at least one, events of an instance lie between its ends.
///
/// # Errors
/// [`Unmet`] when nothing fits: proven where instances nest, else none was found.
pub fn choose(run: &Run, budget: u64) -> Result<Choice, Unmet> {
    match Nest::of(run) {
        Some(nest) => nest.choose(run, budget),
        None => interleaved::choose(run, budget),
    }
}

/// Instances inside of each other.
struct Nest {
    /// Per instance, those directly inside.
    inside: Vec<Vec<usize>>,
    /// Those inside of none.
    roots: Vec<usize>,
    /// Per instance, the events in its life that are in no life inside.
    own: Vec<Vec<usize>>,
    /// Events in no life.
    outside: Vec<usize>,
}

/// Up to `limit` bytes outside, the least time is `time`. Both grow along a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    limit: u64,
    time: u64,
}

impl Nest {
    /// `None` when two lives overlap and neither contains the other, or a half runs while an instance inside of its own is
    /// open (a graph that is kept for a second backward pass).
    fn of(run: &Run) -> Option<Self> {
        let count = run.instances.len();
        let mut nest = Self {
            inside: vec![Vec::new(); count],
            roots: Vec::new(),
            own: vec![Vec::new(); count],
            outside: Vec::new(),
        };
        let mut innermost: Vec<Option<usize>> = vec![None; run.events.len()];
        let mut open: Vec<usize> = Vec::new();
        for (instance, life) in run.instances.iter().enumerate() {
            while open.last().is_some_and(|&outer| run.instances[outer].to < life.from) {
                open.pop();
            }
            match open.last() {
                Some(&outer) if run.instances[outer].to < life.to => return None,
                Some(&outer) => nest.inside[outer].push(instance),
                None => nest.roots.push(instance),
            }
            open.push(instance);
            innermost[life.from..=life.to].fill(Some(instance));
        }
        let is_outer =
            |(event, inner): (&Event, &Option<usize>)| event.runs.is_some() && event.runs != *inner;
        if run.events.iter().zip(&innermost).any(is_outer) {
            return None;
        }
        for (event, instance) in innermost.into_iter().enumerate() {
            match instance {
                Some(instance) => nest.own[instance].push(event),
                None => nest.outside.push(event),
            }
        }
        Some(nest)
    }

    fn choose(&self, run: &Run, budget: u64) -> Result<Choice, Unmet> {
        let mut least: Vec<Vec<Label>> = vec![Vec::new(); run.instances.len()];
        let mut exact = true;
        // Whoever is inside of another began later.
        for instance in (0..run.instances.len()).rev() {
            let mut labels = Vec::new();
            for variant in run.variants(instance) {
                let Some(cap) = self.cap(run, instance, variant, budget) else { continue };
                let inside = self.together(instance, &least, variant.held, cap);
                labels.extend(
                    inside
                        .into_iter()
                        .map(|one| Label { time: one.time.saturating_add(variant.time), ..one }),
                );
            }
            least[instance] = undominated(labels);
            exact &= !thin(&mut least[instance]);
        }
        let fits = self.outside.iter().all(|&event| run.events[event].beside <= budget);
        if !fits || self.roots.iter().any(|&root| least[root].is_empty()) {
            return Err(self.smallest(run));
        }
        let mut variants = vec![0; run.instances.len()];
        let mut waiting: Vec<(usize, u64)> = self.roots.iter().map(|&root| (root, 0)).collect();
        while let Some((instance, outside)) = waiting.pop() {
            let best = |(_, variant): &(usize, &Variant)| {
                let cap = self.cap(run, instance, variant, budget).filter(|&cap| outside <= cap)?;
                debug_assert!(outside <= cap);
                let below = outside + variant.held;
                let inside = self.inside[instance].iter().map(|&one| at(&least[one], below));
                inside.sum::<Option<u64>>().map(|time| time.saturating_add(variant.time))
            };
            let options = run.variants(instance).iter().enumerate();
            let timed = options.filter_map(|option| Some((best(&option)?, option.0)));
            // The label says that there is one.
            let (_, chosen) = timed.min().unwrap_or((0, 0));
            variants[instance] = chosen;
            let below = outside + run.variants(instance)[chosen].held;
            waiting.extend(self.inside[instance].iter().map(|&one| (one, below)));
        }
        let time = run.time(&variants);
        let bound = if exact { time } else { interleaved::bound(run, budget) };
        Ok(run.chosen(variants, bound))
    }

    /// The most that may be open outside of an instance that runs a variant; `None` if nothing helps.
    fn cap(&self, run: &Run, instance: usize, variant: &Variant, budget: u64) -> Option<u64> {
        let mut cap = budget;
        for &event in &self.own[instance] {
            let taken = run.events[event].beside.saturating_add(run.takes(instance, variant, event));
            cap = cap.min(budget.checked_sub(taken)?);
        }
        Some(cap)
    }

    /// The least time of all directly inside of an instance that holds `held`, by what is open outside of it.
    fn together(&self, instance: usize, least: &[Vec<Label>], held: u64, cap: u64) -> Vec<Label> {
        let mut sum = vec![Label { limit: cap, time: 0 }];
        for &one in &self.inside[instance] {
            let shifted = least[one].iter().filter(|label| label.limit >= held);
            let shifted: Vec<Label> =
                shifted.map(|label| Label { limit: label.limit - held, ..*label }).collect();
            sum = added(&sum, &shifted);
        }
        sum
    }

    /// Every instance takes the variant with the least need, which what is outside only shifts.
    fn smallest(&self, run: &Run) -> Unmet {
        let mut needs: Vec<(u64, usize)> = vec![(0, 0); run.instances.len()];
        for instance in (0..run.instances.len()).rev() {
            let need = |variant: &Variant| {
                let own = self.own[instance].iter().map(|&event| {
                    (run.events[event].beside.saturating_add(run.takes(instance, variant, event)), event)
                });
                let inside = self.inside[instance].iter().map(|&one| {
                    let (need, event) = needs[one];
                    (need.saturating_add(variant.held), event)
                });
                own.chain(inside).max_by_key(|&(need, event)| (need, std::cmp::Reverse(event)))
            };
            needs[instance] = run.variants(instance).iter().filter_map(need).min().unwrap_or((0, 0));
        }
        let outside = self.outside.iter().map(|&event| (run.events[event].beside, event));
        let all = self.roots.iter().map(|&root| needs[root]).chain(outside);
        let (smallest, event) =
            all.max_by_key(|&(need, event)| (need, std::cmp::Reverse(event))).unwrap_or((0, 0));
        Unmet { smallest, event }
    }
}

/// The time at so many bytes outside.
fn at(labels: &[Label], outside: u64) -> Option<u64> {
    labels.get(labels.partition_point(|label| label.limit < outside)).map(|label| label.time)
}

/// The sum of two step functions.
fn added(left: &[Label], right: &[Label]) -> Vec<Label> {
    let (mut sum, mut i, mut j) = (Vec::with_capacity(left.len() + right.len()), 0, 0);
    while let (Some(one), Some(other)) = (left.get(i), right.get(j)) {
        let limit = one.limit.min(other.limit);
        sum.push(Label { limit, time: one.time.saturating_add(other.time) });
        i += usize::from(one.limit == limit);
        j += usize::from(other.limit == limit);
    }
    sum
}

/// The labels than which none has a larger limit and no more time, by limit.
fn undominated(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort_unstable_by_key(|label| (std::cmp::Reverse(label.limit), label.time));
    let mut best = u64::MAX;
    labels.retain(|label| {
        label.time < best && {
            best = label.time;
            true
        }
    });
    labels.reverse();
    labels
}

/// Keeps [`MOST`] labels, the loosest among them; whether any went. What a label that went allowed, a slower one allows.
fn thin(labels: &mut Vec<Label>) -> bool {
    let count = labels.len();
    if count <= MOST {
        return false;
    }
    *labels = (0..MOST).map(|place| labels[place * (count - 1) / (MOST - 1)]).collect();
    true
}
