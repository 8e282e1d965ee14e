//! A pattern as a nondeterministic automaton over characters, built from fancy-regex's own parse tree.
//!
//! Look-ahead of one character stays in the automaton: when the deterministic one is made, the next character of a
//! place is known. A possessive repetition of one class is spelled out with it: `C++` is `C+(?!C)`, `C?+` is
//! `C|(?!C)`. Whatever has no exact counterpart (back-references, look-behind, longer look-ahead, other atomic groups, a
//! repetition of something that may be empty) is not compiled.

use fancy_regex::{Assertion, Expr, LookAround};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The number of nodes above which a pattern is not compiled.
const MAX_NODES: usize = 20_000;

/// Characters, and perhaps the edge of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The characters.
    pub chars: ClassUnicode,
    /// Whether the end of the text counts as well.
    pub edge: bool,
}

impl Set {
    /// The characters of a class.
    pub fn of(chars: ClassUnicode) -> Self {
        Self { chars, edge: false }
    }

    /// Whether a character is in the set.
    pub fn has(&self, c: char) -> bool {
        let mut ranges = self.chars.ranges().iter();
        ranges.any(|range| (range.start()..=range.end()).contains(&c))
    }

    /// The characters of a range, and perhaps the edge.
    fn range(first: char, last: char, edge: bool) -> Self {
        let chars = ClassUnicode::new([ClassUnicodeRange::new(first, last)]);
        Self { chars, edge }
    }

    fn negated(mut self) -> Self {
        self.chars.negate();
        self.edge = !self.edge;
        self
    }
}

/// Where a set is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The next character, which is consumed.
    Take,
    /// The next character, or the end of the text.
    Ahead,
}

/// A node: what must hold, and where to continue.
#[derive(Clone, Copy, Debug)]
pub enum Node {
    /// A test of a set, by its number.
    If(Test, usize, u32),
    /// Two ways, the preferred one first.
    Either(u32, u32),
    /// The match is complete.
    Match,
}

/// The automata of one or several patterns.
#[derive(Debug)]
pub struct Nfa {
    /// The nodes; the first is [`Node::Match`].
    pub nodes: Vec<Node>,
    /// The distinct sets that nodes refer to.
    pub sets: Vec<Set>,
}

impl Nfa {
    /// No pattern.
    pub fn new() -> Self {
        Self { nodes: vec![Node::Match], sets: Vec::new() }
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    fn test(&mut self, test: Test, set: Set, next: u32) -> u32 {
        let known = self.sets.iter().position(|other| *other == set);
        let number = known.unwrap_or(self.sets.len());
        if known.is_none() {
            self.sets.push(set);
        }
        self.push(Node::If(test, number, next))
    }

    /// Adds an expression before `next` and returns its first node; None if it cannot be expressed.
    pub fn add(&mut self, expr: &Expr, next: u32) -> Option<u32> {
        if self.nodes.len() > MAX_NODES {
            return None;
        }
        match expr {
            Expr::Empty => Some(next),
            Expr::Group(child) => self.add(child, next),
            Expr::Concat(parts) => {
                let mut parts = parts.iter().rev();
                parts.try_fold(next, |next, part| self.add(part, next))
            }
            Expr::Alt(ways) => {
                let ways = ways.iter().map(|way| self.add(way, next));
                let ways = ways.collect::<Option<Vec<_>>>()?;
                let join = |rest, way| self.push(Node::Either(way, rest));
                ways.into_iter().rev().reduce(join)
            }
            Expr::Literal { val, casei } => {
                let mut chars = val.chars().rev();
                chars.try_fold(next, |next, character| {
                    let set = literal(character, *casei)?;
                    Some(self.test(Test::Take, set, next))
                })
            }
            Expr::Repeat { .. } => self.repeat(expr, next, next),
            Expr::AtomicGroup(child) => match &**child {
                Expr::Repeat { child: one, .. } if set_of(one, false).is_some() => {
                    let rest = set_of(one, false)?.negated();
                    let stop = self.test(Test::Ahead, rest, next);
                    self.repeat(child, next, stop)
                }
                // At the end of the pattern nothing could make it give back.
                _ => (next == 0).then(|| self.add(child, next)).flatten(),
            },
            Expr::LookAround(child, LookAround::LookAhead) => {
                let set = set_of(child, true)?;
                Some(self.test(Test::Ahead, set, next))
            }
            Expr::LookAround(child, LookAround::LookAheadNeg) => {
                let set = set_of(child, true)?.negated();
                Some(self.test(Test::Ahead, set, next))
            }
            Expr::Assertion(_) => {
                let set = set_of(expr, true)?;
                Some(self.test(Test::Ahead, set, next))
            }
            _ => {
                let set = set_of(expr, false)?;
                Some(self.test(Test::Take, set, next))
            }
        }
    }

    /// Adds a repetition before `next`, which goes to `stop` instead if more would be allowed.
    fn repeat(&mut self, expr: &Expr, next: u32, stop: u32) -> Option<u32> {
        let Expr::Repeat { child, lo, hi, greedy } = expr else {
            return None;
        };
        if *hi > 1 && may_be_empty(child) {
            return None;
        }
        let either = |way| {
            if *greedy {
                Node::Either(way, stop)
            } else {
                Node::Either(stop, way)
            }
        };
        let mut first = next;
        if *hi == usize::MAX {
            first = self.push(Node::Match);
            self.nodes[first as usize] = either(self.add(child, first)?);
        } else {
            for _ in *lo..*hi {
                let way = self.add(child, first)?;
                first = self.push(either(way));
            }
        }
        (0..*lo).try_fold(first, |first, _| self.add(child, first))
    }
}

/// The set of an expression that matches one character; in look-ahead, the end of the text is one too.
fn set_of(expr: &Expr, ahead: bool) -> Option<Set> {
    match expr {
        Expr::Group(child) => set_of(child, ahead),
        // Where one is enough, more are.
        Expr::Repeat { child, lo: 1, .. } if ahead => set_of(child, ahead),
        Expr::Alt(ways) => {
            let mut all = Set::of(ClassUnicode::empty());
            for way in ways {
                let set = set_of(way, ahead)?;
                all.chars.union(&set.chars);
                all.edge |= set.edge;
            }
            Some(all)
        }
        Expr::Assertion(Assertion::EndText) if ahead => {
            Some(Set::range('\0', char::MAX, false).negated())
        }
        Expr::Assertion(Assertion::EndLine { crlf: false }) if ahead => {
            Some(Set::range('\n', '\n', true))
        }
        Expr::Any { newline: true, crlf: false } => Some(Set::range('\0', char::MAX, false)),
        Expr::Any { crlf: false, .. } => Some(Set::range('\n', '\n', true).negated()),
        Expr::Literal { val, casei } => {
            let mut chars = val.chars();
            let set = literal(chars.next()?, *casei)?;
            chars.next().is_none().then_some(set)
        }
        Expr::Delegate { inner, casei: true } => class(&format!("(?i:{inner})")),
        Expr::Delegate { inner, .. } => class(inner),
        _ => None,
    }
}

/// The characters of which one follows wherever the expression matches; None if that is unknown.
pub fn first_set(expr: &Expr) -> Option<Set> {
    match expr {
        Expr::Group(child) => first_set(child),
        Expr::LookAround(child, LookAround::LookAhead) | Expr::Repeat { child, lo: 1.., .. } => {
            first_set(child)
        }
        Expr::Concat(parts) => first_set(parts.first()?),
        _ => set_of(expr, false),
    }
}

fn literal(character: char, any_case: bool) -> Option<Set> {
    if any_case {
        let escaped = regex_syntax::escape(character.encode_utf8(&mut [0; 4]));
        return class(&format!("(?i:{escaped})"));
    }
    Some(Set::range(character, character, false))
}

/// The set of a class in regex syntax.
fn class(source: &str) -> Option<Set> {
    match regex_syntax::parse(source).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(chars)) => Some(Set::of(chars)),
        HirKind::Class(Class::Bytes(bytes)) => bytes.to_unicode_class().map(Set::of),
        HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            let only = chars.next().filter(|_| chars.next().is_none())?;
            Some(Set::range(only, only, false))
        }
        _ => None,
    }
}

fn may_be_empty(expr: &Expr) -> bool {
    match expr {
        Expr::Group(child) => may_be_empty(child),
        Expr::AtomicGroup(child) => may_be_empty(child),
        Expr::Concat(parts) => parts.iter().all(may_be_empty),
        Expr::Alt(ways) => ways.iter().any(may_be_empty),
        Expr::Repeat { child, lo, .. } => *lo == 0 || may_be_empty(child),
        Expr::Literal { val, .. } => val.is_empty(),
        Expr::Any { .. } | Expr::Delegate { .. } => false,
        _ => true,
    }
}
