//! Tables of discardable attributes: each with one name and one type, which the verifier, readers and writers share.
//!
//! A table is a struct with a field for each attribute; `None` is what an op does not say.

use crate::raw::{Attr, Op};

/// Makes a table: the struct, how an op is read into it and written from it, and what is wrong with an attribute.
macro_rules! typed_attributes {
    ($(#[$about:meta])* $table:ident {
        $($name:literal $field:ident: $type:ty, $kind:expr, $what:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $table {
            $(#[doc = $what] pub $field: Option<$type>,)+
        }

        impl $table {
            /// The names of the attributes, in the order in which reports have them.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            fn of_op(op: $crate::raw::Op<'_>) -> Self {
                Self { $($field: op.get($name).and_then(<$type as $crate::typed::Datum>::read),)+ }
            }

            fn write_on(&self, op: $crate::raw::Op<'_>) {
                $(match &self.$field {
                    Some(value) => op.set($name, $crate::typed::Datum::attr(value, op)),
                    None => _ = op.unset($name),
                })+
            }

            /// What is wrong with an attribute, if it is one of these and has another type.
            pub(crate) fn wrong(name: &str, attribute: $crate::raw::Attr<'_>) -> Option<String> {
                let (kind, fits): (&str, bool) = match name {
                    $($name => ($kind, <$type as $crate::typed::Datum>::read(attribute).is_some()),)+
                    _ => return None,
                };
                (!fits).then(|| format!("'{name}' is {kind}, not {attribute}"))
            }
        }
    };
}
pub(crate) use typed_attributes;

/// Kinds of attributes, as errors name them.
pub(crate) const BYTES: &str = "a number of bytes (i64, not negative)";
pub(crate) const NANOSECONDS: &str = "a number of nanoseconds (i64, not negative)";
pub(crate) const RATE: &str = "a number of bytes per second (i64, not negative)";
pub(crate) const TEXT: &str = "a string";

/// How a value stands in the IR.
pub(crate) trait Datum: Sized {
    fn read(attribute: Attr<'_>) -> Option<Self>;

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c>;
}

/// Numbers beyond 2^63 - 1 become that.
impl Datum for u64 {
    fn read(attribute: Attr<'_>) -> Option<Self> {
        attribute.as_i64().and_then(|number| Self::try_from(number).ok())
    }

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c> {
        Attr::i64(op.context(), i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Datum for String {
    fn read(attribute: Attr<'_>) -> Option<Self> {
        attribute.as_str().map(str::to_owned)
    }

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c> {
        Attr::string(op.context(), self)
    }
}

impl Datum for Vec<i64> {
    fn read(attribute: Attr<'_>) -> Option<Self> {
        attribute.as_i64s()
    }

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c> {
        Attr::i64s(op.context(), self)
    }
}
