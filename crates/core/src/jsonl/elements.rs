//! One JSON value that holds many records: an array, or an object whose values are records (or hold
//! an array of them). Read a window at a time, so that its size does not matter.

use super::fields::Fields;
use super::lines::read_record;
use super::strings::{count_spaces, find_special};
use crate::records::Batch;

/// Where in the value the next window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Before the value.
    Start,
    /// In a top-level array, before an element.
    Array,
    /// In a top-level object, before a key.
    Object,
    /// In an array that is a value of the top-level object, before an element.
    Inner,
    /// After the value.
    End,
}

impl State {
    /// All states, so that one can be handed out as a number and taken back.
    pub const ALL: [State; 5] =
        [State::Start, State::Array, State::Object, State::Inner, State::End];
}

/// The result of one window.
#[derive(Debug)]
pub struct Elements {
    /// The records of the window.
    pub batch: Batch,
    /// Bytes used; the next window begins after them.
    pub used: usize,
    /// Where the next window begins.
    pub state: State,
    /// Set if the value itself is broken at `used`: nothing after it can be trusted.
    pub broken: bool,
}

/// Reads as many whole elements as `block` has. `last` says that nothing follows the block.
pub fn read_elements(block: &[u8], fields: &Fields, state: State, last: bool) -> Elements {
    let mut found = Elements {
        batch: Batch::with_capacity(fields.column_count(), block.len()),
        used: 0,
        state,
        broken: false,
    };
    while found.step(block, fields, last) {}
    found
}

enum Next {
    At(usize),
    More,
    Broken,
}

impl Elements {
    /// Reads one key, element or bracket; returns false when the window has no more.
    fn step(&mut self, block: &[u8], fields: &Fields, last: bool) -> bool {
        let at = self.used + count_spaces(&block[self.used..]);
        let Some(&byte) = block.get(at) else {
            self.used = at;
            return false;
        };
        let next = match (self.state, byte) {
            (State::Start, b'[') => self.enter(State::Array, at),
            (State::Start, b'{') => self.enter(State::Object, at),
            (State::Array, b']') | (State::Object, b'}') => self.enter(State::End, at),
            (State::Inner, b']') => self.leave(block, at),
            (State::Array | State::Inner, _) => self.element(block, fields, at),
            (State::Object, b'"') => self.member(block, fields, at),
            _ => Next::Broken,
        };
        match next {
            Next::At(used) => {
                self.used = used;
                true
            }
            Next::More => {
                self.broken = last;
                false
            }
            Next::Broken => {
                self.used = at;
                self.broken = true;
                false
            }
        }
    }

    fn enter(&mut self, state: State, at: usize) -> Next {
        self.state = state;
        Next::At(at + 1)
    }

    /// After the bracket of an inner array: a comma or the end of the object.
    fn leave(&mut self, block: &[u8], at: usize) -> Next {
        let next = after(block, at + 1, b'}');
        if let Next::At(_) = next {
            self.state = State::Object;
        }
        next
    }

    fn element(&mut self, block: &[u8], fields: &Fields, at: usize) -> Next {
        let Some(length) = value_length(&block[at..]) else {
            return Next::More;
        };
        let end = at + length;
        let closing = if self.state == State::Object { b'}' } else { b']' };
        let next = after(block, end, closing);
        if let Next::At(_) = next {
            read_record(&mut self.batch, fields, &block[at..end], at);
        }
        next
    }

    /// Reads a key of the top-level object and its value: a record, an array of records, or neither.
    fn member(&mut self, block: &[u8], fields: &Fields, at: usize) -> Next {
        let Some(key) = value_length(&block[at..]) else {
            return Next::More;
        };
        let colon = at + key + count_spaces(&block[at + key..]);
        let Some(&byte) = block.get(colon) else {
            return Next::More;
        };
        let value = colon + 1 + count_spaces(block.get(colon + 1..).unwrap_or_default());
        match (byte, block.get(value)) {
            (b':', Some(b'[')) => self.enter(State::Inner, value),
            (b':', Some(b'{')) => self.element(block, fields, value),
            (b':', Some(_)) => match value_length(&block[value..]) {
                Some(length) => after(block, value + length, b'}'),
                None => Next::More,
            },
            (b':', None) => Next::More,
            _ => Next::Broken,
        }
    }
}

/// Returns the position after a value: after the comma, or at the closing bracket.
fn after(block: &[u8], end: usize, closing: u8) -> Next {
    let at = end + count_spaces(&block[end..]);
    match block.get(at) {
        Some(b',') => Next::At(at + 1),
        Some(&byte) if byte == closing => Next::At(at),
        Some(_) => Next::Broken,
        None => Next::More,
    }
}

/// Returns the length of the value at the start of `s`, judged by its brackets and quotes alone; `None` if `s` ends
/// before it does. The record parser checks whether it is JSON.
fn value_length(s: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        match *s.get(at)? {
            b'"' => {
                at = string_end(s, at + 1)?;
                if depth == 0 {
                    return Some(at);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return Some(at + depth),
            b'}' | b']' => depth -= 1,
            b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

fn string_end(s: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += find_special(s.get(at..)?);
        match *s.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Policy;

    fn fields() -> Fields {
        Fields::new(vec![Err(vec!["t".into()])], vec![], Policy::Refuse, 1 << 20)
    }

    /// Returns all texts, reading in windows that grow only when nothing fits.
    fn texts(json: &str, window: usize) -> (String, usize, bool) {
        let (mut start, mut state, mut out, mut refused) = (0, State::Start, String::new(), 0);
        let mut size = window;
        loop {
            let end = (start + size).min(json.len());
            let found =
                read_elements(&json.as_bytes()[start..end], &fields(), state, end == json.len());
            out += &String::from_utf8_lossy(&found.batch.texts.bytes);
            refused += found.batch.rejects.len();
            (start, state) = (start + found.used, found.state);
            if found.broken || end == json.len() {
                return (out, refused, found.broken || state != State::End);
            }
            size = if found.used == 0 { size * 2 } else { window };
        }
    }

    #[test]
    fn every_shape_in_every_window() {
        for json in [
            r#" [ {"t":"a,]}\""} , {"t":"b"},5, {"t":"c","x":[{"t":0}]} ] "#,
            r#"{"k":{"t":"a,]}\""},"l":{"t":"b"},"m":{}, "n":{"t":"c"}}"#,
            r#"{"version":1.5,"data":[{"t":"a,]}\""},{"t":"b"}, [], {"t":"c"}],"end":null}"#,
        ] {
            for window in 1..json.len() {
                let expected = ("a,]}\"bc".to_string(), 1, false);
                assert_eq!(texts(json, window), expected, "{json} in {window}");
            }
        }
    }

    #[test]
    fn a_broken_value_is_said_to_be_broken() {
        for json in
            [r#"[{"t":"a"} {"t":"b"}]"#, r#"[{"t":"a"},"#, r#"[{"t":"a"}"#, "x", r#"{"a" 1}"#]
        {
            assert!(texts(json, 100).2, "{json}");
        }
    }
}
