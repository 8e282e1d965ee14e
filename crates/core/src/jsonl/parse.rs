//! One record: validated to its last byte, with the spans of the wanted fields remembered.
//!
//! What Python's `json` accepts is accepted (also `NaN` and `Infinity`), what it refuses is refused;
//! if a key occurs twice, the last one counts, as in Python.

use super::fields::Node;
use super::strings::{count_spaces, escape_width, find_special, unescape};
use crate::records::{Kind, Policy, Reason};

/// Deeper containers are refused; Python's own limit is its recursion limit, near this.
pub(super) const MAX_DEPTH: usize = 990;
/// Python refuses to convert integers with more digits.
const MAX_INTEGER_DIGITS: usize = 4300;

/// Why a record is bad, and the offset at which that was found.
pub(crate) type Fault = (Reason, usize);
type Parsed<T> = std::result::Result<T, Fault>;

/// The value of a wanted field, as a span of the record (without the quotes of a string).
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub kind: Kind,
    pub present: bool,
    pub start: usize,
    pub end: usize,
}

impl Value {
    pub const MISSING: Value = Value { kind: Kind::Null, present: false, start: 0, end: 0 };
}

/// Validates `record` and fills one value per slot.
pub(super) fn parse(record: &[u8], tree: &[Node], values: &mut [Value]) -> Parsed<()> {
    values.fill(Value::MISSING);
    let mut parser = Parser { s: record, at: 0, values, deepest: MAX_DEPTH };
    parser.space();
    if parser.peek() != Some(b'{') {
        parser.value(0)?;
        parser.end()?;
        return Err((Reason::NotAnObject, 0));
    }
    parser.object(tree, 1)?;
    parser.end()
}

/// A position in a JSON text, and the values found before it.
pub(crate) struct Parser<'a> {
    s: &'a [u8],
    at: usize,
    values: &'a mut [Value],
    deepest: usize,
}

/// For readers of other JSON than records, which go through an object or an array themselves.
impl<'a> Parser<'a> {
    /// Starts at the first value of a text, in which containers may be nested `deepest` deep.
    pub(crate) fn new(s: &'a [u8], deepest: usize) -> Self {
        let mut parser = Self { s, at: 0, values: &mut [], deepest };
        parser.space();
        parser
    }

    /// Returns the offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text from an offset to the current position.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.s[start..self.at]
    }

    /// Goes through an object; `member` gets each key, as written between the quotes, and must consume its value.
    #[inline(always)]
    pub(crate) fn members<E: From<Fault>>(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.expect(b'{')?;
        let mut more = !self.closes(b'}');
        while more {
            let (start, end) = self.string()?;
            self.space();
            self.expect(b':')?;
            self.space();
            let s = self.s;
            member(self, &s[start..end])?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    /// Goes through an array; `element` must consume each value.
    #[inline(always)]
    pub(crate) fn elements<E: From<Fault>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.expect(b'[')?;
        let mut more = !self.closes(b']');
        while more {
            element(self)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Skips a value inside `depth` containers and returns what is between the quotes, if it is a string.
    #[inline(always)]
    pub(crate) fn string_body(&mut self, depth: usize) -> Parsed<Option<&'a [u8]>> {
        if self.peek() != Some(b'"') {
            self.value(depth)?;
            return Ok(None);
        }
        let (start, end) = self.string()?;
        Ok(Some(&self.s[start..end]))
    }

    /// Skips a value inside `depth` containers and returns it as written.
    pub(crate) fn skip(&mut self, depth: usize) -> Parsed<&'a [u8]> {
        let start = self.at;
        self.value(depth)?;
        Ok(self.since(start))
    }
}

impl Parser<'_> {
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.s.get(self.at).copied()
    }

    fn broken<T>(&self) -> Parsed<T> {
        Err((Reason::BrokenJson, self.at.min(self.s.len())))
    }

    #[inline(always)]
    fn space(&mut self) {
        self.at += count_spaces(&self.s[self.at..]);
    }

    pub(crate) fn end(&mut self) -> Parsed<()> {
        self.space();
        if self.at == self.s.len() {
            Ok(())
        } else {
            self.broken()
        }
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            self.broken()
        }
    }

    /// Skips the `closing` bracket of an empty container, if this is one.
    #[inline(always)]
    fn closes(&mut self, closing: u8) -> bool {
        self.space();
        let closes = self.peek() == Some(closing);
        self.at += usize::from(closes);
        closes
    }

    /// After an element: `true` if a comma and another one follow, `false` past the `closing` bracket.
    #[inline(always)]
    fn more(&mut self, closing: u8) -> Parsed<bool> {
        self.space();
        let comma = match self.peek() {
            Some(b',') => true,
            Some(byte) if byte == closing => false,
            _ => return self.broken(),
        };
        self.at += 1;
        if comma {
            self.space();
        }
        Ok(comma)
    }

    /// Parses an object and records its `wanted` keys. `at` is on the opening brace.
    fn object(&mut self, wanted: &[Node], depth: usize) -> Parsed<()> {
        if depth > self.deepest {
            return Err((Reason::TooDeep, self.at));
        }
        self.members(|parser, key| match find(wanted, key) {
            Some(node) => parser.wanted_value(node, depth),
            None => parser.value(depth).map(drop),
        })
    }

    fn wanted_value(&mut self, node: &Node, depth: usize) -> Parsed<()> {
        forget(node, self.values);
        let from = self.at;
        let kind = if !node.children.is_empty() && self.peek() == Some(b'{') {
            self.object(&node.children, depth + 1)?;
            Kind::Container
        } else {
            self.value(depth)?
        };
        if let Some(slot) = node.slot {
            let quote = usize::from(kind == Kind::String);
            self.values[slot] =
                Value { kind, present: true, start: from + quote, end: self.at - quote };
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Parsed<Kind> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| Kind::String),
            Some(b'{') => self.object(&[], depth + 1).map(|()| Kind::Container),
            Some(b'[') => self.array(depth + 1).map(|()| Kind::Container),
            Some(b't') => self.word(b"true", Kind::True),
            Some(b'f') => self.word(b"false", Kind::False),
            Some(b'n') => self.word(b"null", Kind::Null),
            Some(b'N') => self.word(b"NaN", Kind::Number),
            Some(b'I') => self.word(b"Infinity", Kind::Number),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.broken(),
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<()> {
        if depth > self.deepest {
            return Err((Reason::TooDeep, self.at));
        }
        self.elements(|parser| parser.value(depth).map(drop))
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Parsed<Kind> {
        if self.s[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(kind)
        } else {
            self.broken()
        }
    }

    fn digits(&mut self) -> Parsed<usize> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == from {
            return self.broken();
        }
        Ok(self.at - from)
    }

    fn number(&mut self) -> Parsed<Kind> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
            if self.peek() == Some(b'I') {
                return self.word(b"Infinity", Kind::Number);
            }
        }
        let digits = if self.peek() == Some(b'0') {
            self.at += 1;
            1
        } else {
            self.digits()?
        };
        let integer = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if integer {
            if digits > MAX_INTEGER_DIGITS {
                return Err((Reason::BrokenJson, from));
            }
            return Ok(Kind::Number);
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    /// Parses a string and returns the span between its quotes.
    #[inline(always)]
    fn string(&mut self) -> Parsed<(usize, usize)> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            self.at += find_special(&self.s[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((start, self.at - 1));
                }
                Some(b'\\') => match escape_width(&self.s[self.at..]) {
                    Some(width) => self.at += width,
                    None => return self.broken(),
                },
                _ => return self.broken(),
            }
        }
    }
}

/// Returns the wanted node for a key as written in the record, with its escapes.
#[inline(always)]
fn find<'a>(wanted: &'a [Node], key: &[u8]) -> Option<&'a Node> {
    if wanted.is_empty() {
        return None;
    }
    if memchr::memchr(b'\\', key).is_none() {
        return wanted.iter().find(|node| node.key == key);
    }
    let mut plain = Vec::new();
    unescape(key, Policy::Refuse, &mut plain).ok()?;
    wanted.iter().find(|node| node.key == plain)
}

/// A key that occurs again hides everything in its first value.
fn forget(node: &Node, values: &mut [Value]) {
    if let Some(slot) = node.slot {
        values[slot] = Value::MISSING;
    }
    for child in &node.children {
        forget(child, values);
    }
}
