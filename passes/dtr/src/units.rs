//! Indices and quantities. A storage is never mistaken for a tensor, nor a byte for a nanosecond.
//!
//! Idea: numbers cross public functions only inside one of these wrappers; inside the hot loops they are plain
//! integers. The ids are dense and count from 0 in order of creation, so tables are vectors.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The id with this index. Ids beyond `u32::MAX` do not exist; the log reader refuses such programs.
            pub const fn new(index: u32) -> Self {
                Self(index)
            }

            /// The position in creation order, from 0.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

ids! {
    /// A buffer. Several tensors (views) may share it.
    StorageId,
    /// One result of one operator call: a storage as seen through one view.
    TensorId,
    /// One operator call.
    CallId,
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Bytes {
    /// No limit at all: more than any program that [`crate::Builder`] accepts can use.
    pub const UNLIMITED: Self = Self(u64::MAX);
}

impl Nanos {
    /// No limit at all.
    pub const UNLIMITED: Self = Self(u64::MAX);
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}
