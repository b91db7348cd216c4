//! The macro that declares a typed view of an op.

/// Declares a view over one kind of op.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident = $op:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name<'c>(crate::raw::Op<'c>);

        impl<'c> $name<'c> {
            /// The op's full name.
            pub const NAME: &'static str = $op;

            /// A view of the op, if it is of this kind.
            pub fn of(op: crate::raw::Op<'c>) -> Option<Self> {
                (op.name() == $op).then_some(Self(op))
            }

            /// The op itself.
            pub fn op(self) -> crate::raw::Op<'c> {
                self.0
            }
        }
    };
}

pub(crate) use view;
