//! Arguments of an ATen call.
//!
//! In JSON: `null`, `true`, `7`, `"text"`, `[...]` stand for themselves; a value is `{"v": 3}` and a float is
//! `{"f": "0.1"}`. Floats are strings because they must come back with the same bits, infinities included: JSON
//! has no infinity, and serde_json's float parser may be one unit off in the last place.
//!
//! Not here: what an argument means to an operator; the schema in libtorch knows.

use serde::de::{Error as _, Unexpected};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

/// One argument of an ATen call.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgValue {
    /// A tensor: a local in a node, a slot in the epilogue.
    Value(u32),
    /// Nothing: an absent optional argument.
    None,
    /// An integer, also for enumerations (dtype, layout, memory format).
    Int(i64),
    /// A float, exactly.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// A list; nested lists do not occur in ATen schemas but are kept.
    List(Vec<ArgValue>),
}

impl ArgValue {
    /// Calls `f` with every value index inside, in order.
    pub fn for_each_value(&self, f: &mut impl FnMut(u32)) {
        match self {
            ArgValue::Value(v) => f(*v),
            ArgValue::List(items) => items.iter().for_each(|item| item.for_each_value(f)),
            _ => {}
        }
    }

    /// The same argument with every value index replaced by `f` of it.
    pub fn map_values(&self, f: &mut impl FnMut(u32) -> u32) -> ArgValue {
        match self {
            ArgValue::Value(v) => ArgValue::Value(f(*v)),
            ArgValue::List(items) => ArgValue::List(items.iter().map(|item| item.map_values(f)).collect()),
            other => other.clone(),
        }
    }
}

impl std::fmt::Display for ArgValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ArgValue::Value(v) => write!(f, "%{v}"),
            ArgValue::None => write!(f, "none"),
            ArgValue::Int(i) => write!(f, "{i}"),
            ArgValue::Float(x) => write!(f, "{x:?}"),
            ArgValue::Bool(b) => write!(f, "{b}"),
            ArgValue::Str(s) => write!(f, "{s:?}"),
            ArgValue::List(items) => {
                write!(f, "[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                write!(f, "]")
            }
        }
    }
}

impl Serialize for ArgValue {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            ArgValue::Value(v) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry("v", v)?;
                map.end()
            }
            ArgValue::Float(x) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry("f", &format!("{x:?}"))?;
                map.end()
            }
            ArgValue::None => s.serialize_none(),
            ArgValue::Int(i) => s.serialize_i64(*i),
            ArgValue::Bool(b) => s.serialize_bool(*b),
            ArgValue::Str(text) => s.serialize_str(text),
            ArgValue::List(items) => items.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for ArgValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_json(&Json::deserialize(d)?).map_err(D::Error::custom)
    }
}

fn from_json(json: &Json) -> Result<ArgValue, serde_json::Error> {
    let bad =
        |what: &str| serde_json::Error::invalid_value(Unexpected::Other(what), &"an argument of an operator");
    Ok(match json {
        Json::Null => ArgValue::None,
        Json::Bool(b) => ArgValue::Bool(*b),
        Json::String(s) => ArgValue::Str(s.clone()),
        Json::Number(n) => {
            ArgValue::Int(n.as_i64().ok_or_else(|| bad("a number that is not a 64-bit integer"))?)
        }
        Json::Array(items) => ArgValue::List(items.iter().map(from_json).collect::<Result<_, _>>()?),
        Json::Object(map) => match (map.get("v"), map.get("f")) {
            _ if map.len() != 1 => return Err(bad("an object with other keys than v or f")),
            (Some(v), _) => {
                let v = v.as_u64().and_then(|v| u32::try_from(v).ok());
                ArgValue::Value(v.ok_or_else(|| bad("a value index that is not a number"))?)
            }
            (_, Some(f)) => {
                let x = f.as_str().and_then(|f| f.parse::<f64>().ok());
                ArgValue::Float(x.ok_or_else(|| bad("a float that does not parse"))?)
            }
            _ => return Err(bad("an object with other keys than v or f")),
        },
    })
}
