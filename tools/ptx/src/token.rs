//! Words and punctuation of PTX, with their lines.
//!
//! Source: PTX ISA chapter 4 (syntax). Names, numbers, directives and mnemonics with all their modifiers are words.

use crate::Error;

/// A word or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// Cuts the text; comments are dropped.
///
/// # Errors
/// [`Error::Text`] for characters that PTX has not. A string is one word.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Error> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    let part_of_word = |at: usize| {
        let byte = bytes[at];
        // `::` joins the parts of a modifier, one colon ends a label.
        byte.is_ascii_alphanumeric()
            || b"_$%.".contains(&byte)
            || byte == b':' && (bytes.get(at + 1) == Some(&b':') || at > 0 && bytes[at - 1] == b':')
    };
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\n' => {
                line += 1;
                at += 1;
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            b'/' if bytes[at..].starts_with(b"//") => {
                at += bytes[at..].iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len() - at);
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                let length = text[at..].find("*/").map_or(bytes.len() - at, |end| end + 2);
                line += text[at..at + length].matches('\n').count();
                at += length;
            }
            _ if part_of_word(at) => {
                while at < bytes.len() && part_of_word(at) {
                    at += 1;
                }
                found.push(Token { text: &text[start..at], line });
            }
            b'"' => {
                at += text[at + 1..].find(['"', '\n']).map_or(bytes.len() - at, |end| end + 2);
                found.push(Token { text: &text[start..at], line });
            }
            byte if b",;:{}()[]<>+-|@!=".contains(&byte) => {
                at += 1;
                found.push(Token { text: &text[start..at], line });
            }
            _ => {
                let character = text[at..].chars().next().unwrap_or_default();
                return Err(Error::Text { line, message: format!("{character:?} is not understood") });
            }
        }
    }
    Ok(found)
}
