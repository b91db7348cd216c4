//! Which of several streams that could go on does: a real GPU may choose any.

#[derive(Clone, Copy)]
pub enum Order {
    /// What was queued first.
    Program,
    /// The stream that was made first, until it has to wait.
    FirstStream,
    /// The stream that was made last.
    LastStream,
    /// Any.
    Random(u64),
}

impl Order {
    /// 0: program, 1: first stream, 2: last stream, others: random with this seed.
    pub fn numbered(number: u64) -> Self {
        match number {
            0 => Self::Program,
            1 => Self::FirstStream,
            2 => Self::LastStream,
            seed => Self::Random(seed.wrapping_mul(2).wrapping_add(1)),
        }
    }

    /// The position of the one that goes on. `of` gives stream and time of queueing; there is at least one.
    pub fn choose<T>(&mut self, ready: &[T], of: impl Fn(&T) -> (usize, u64)) -> usize {
        let keys = || ready.iter().map(&of).enumerate();
        let chosen = match self {
            Self::Program => keys().min_by_key(|(_, (_, time))| *time),
            Self::FirstStream => keys().min_by_key(|(_, key)| *key),
            Self::LastStream => keys().min_by_key(|(_, (stream, time))| (std::cmp::Reverse(*stream), *time)),
            Self::Random(state) => {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                return (*state >> 33) as usize % ready.len();
            }
        };
        chosen.map_or(0, |(at, _)| at)
    }
}
