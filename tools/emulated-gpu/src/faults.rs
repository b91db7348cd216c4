//! Faults that a test asks for, to see that it would notice them.

/// Which fault happens, and how many chances are let go by before; each happens once.
#[derive(Default)]
pub struct Faults {
    wait: Option<u64>,
    shift: Option<u64>,
    swap: Option<u64>,
    graph: Option<u64>,
}

impl Faults {
    /// Those of `RK_EMULATED_FAULT`: kind and chances that are let go by, `2:0`.
    pub fn of_environment() -> Self {
        let mut faults = Self::default();
        let asked = std::env::var("RK_EMULATED_FAULT").unwrap_or_default();
        if let Some((Ok(kind), Ok(skip))) =
            asked.split_once(':').map(|(kind, skip)| (kind.parse(), skip.parse()))
        {
            faults.ask(kind, skip);
        }
        faults
    }

    /// 1: a stream does not wait for an event. 2: the last parameter of a kernel is shifted by 16 bytes. 3: the first and the last
    /// parameter change places. 4: a graph that is launched does nothing. 0: none any more.
    pub fn ask(&mut self, kind: u64, skip: u64) {
        match kind {
            1 => self.wait = Some(skip),
            2 => self.shift = Some(skip),
            3 => self.swap = Some(skip),
            4 => self.graph = Some(skip),
            _ => *self = Self::default(),
        }
    }

    pub fn drops_wait(&mut self) -> bool {
        due(&mut self.wait)
    }

    pub fn loses_graph(&mut self) -> bool {
        due(&mut self.graph)
    }

    pub fn spoil(&mut self, parameters: &mut [u64]) {
        let Some(last) = parameters.len().checked_sub(1) else { return };
        if due(&mut self.shift) {
            parameters[last] += 16;
        }
        if due(&mut self.swap) {
            parameters.swap(0, last);
        }
    }
}

fn due(fault: &mut Option<u64>) -> bool {
    match fault {
        Some(0) => {
            *fault = None;
            true
        }
        Some(skip) => {
            *skip -= 1;
            false
        }
        None => false,
    }
}
