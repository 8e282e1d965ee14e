//! The members of one object, which may be cut off.

use super::parse::{Fault, Parser, MAX_DEPTH};
use super::strings::unescape;
use crate::records::Policy;

/// Returns each name of the object that `head` begins with and the first byte of its value; and whether the object is
/// complete, with nothing after it. The list ends where the object is broken or cut off, but an array or a string that
/// is cut off is still listed.
pub fn members(head: &[u8]) -> (Vec<(String, u8)>, bool) {
    let mut found = Vec::new();
    let mut parser = Parser::new(head, MAX_DEPTH);
    let walked: Result<(), Fault> = parser.members(|parser, key| {
        let first = parser.peek();
        let value = parser.skip(1);
        if let Some(first) = first.filter(|first| value.is_ok() || b"[\"".contains(first)) {
            let mut name = Vec::new();
            let _ = unescape(key, Policy::Replace, &mut name);
            found.push((String::from_utf8_lossy(&name).into_owned(), first));
        }
        value.map(drop)
    });
    (found, walked.and_then(|()| parser.end()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::members;

    #[test]
    fn members_go_as_far_as_the_head_does() {
        let json = r#" {"a": "x\"}", "\u00e9" : [1, {"b": 2}], "c":{"d":1}, "e":null} "#;
        let names = |end: usize| -> (String, bool) {
            let (found, whole) = members(&json.as_bytes()[..end]);
            let each = |(name, first): (String, u8)| name + &char::from(first).to_string();
            (found.into_iter().map(each).collect(), whole)
        };
        for (end, expected) in [(6, ""), (9, "a\""), (30, "a\"é["), (45, "a\"é["), (54, "a\"é[c{")]
        {
            assert_eq!(names(end), (expected.into(), false), "up to {end}");
        }
        assert_eq!(names(json.len()), ("a\"é[c{en".into(), true));
        for json in ["", "[1]", "x", "{", "{1:2}", "{} 1"] {
            assert_eq!(members(json.as_bytes()), (vec![], false));
        }
    }
}
