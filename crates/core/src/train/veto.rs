//! Which merges a continued training must not make: pairs that kept texts hold, tokens in other scripts.

use std::collections::HashSet;

use super::pairs::key;
use crate::{Error, Result};

/// What is left out, whatever its count.
#[derive(Default)]
pub struct Veto {
    pairs: HashSet<u64>,
    scripts: Option<Script>,
    /// Tokens are strings, so none may hold a part of a character.
    whole: bool,
}

impl Veto {
    /// Pairs of ids that stay apart, the scripts that a new token must be written in (none means any), and
    /// whether it must consist of whole characters.
    pub fn new(pairs: &[(u32, u32)], scripts: &[String], whole: bool) -> Result<Self> {
        Ok(Self {
            pairs: pairs
                .iter()
                .map(|&(left, right)| key(left, right))
                .collect(),
            scripts: (!scripts.is_empty())
                .then(|| Script::of(scripts))
                .transpose()?,
            whole,
        })
    }

    /// Whether the pair may become the token `spelled`.
    pub fn allows(&self, pair: u64, spelled: &[u8]) -> bool {
        !self.pairs.contains(&pair)
            && (!self.whole || std::str::from_utf8(spelled).is_ok())
            && self
                .scripts
                .as_ref()
                .is_none_or(|script| script.writes(spelled))
    }
}

/// The letters and marks of some scripts, and those of all, as ranges of code points in ascending order.
struct Script {
    own: Vec<(u32, u32)>,
    all: Vec<(u32, u32)>,
}

impl Script {
    fn of(names: &[String]) -> Result<Self> {
        let mut ranges = Vec::new();
        for name in names {
            ranges.extend(letters_of(name)?);
        }
        ranges.sort_unstable();
        // Neighbours are joined, so that a range is found by its start alone.
        let mut own: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match own.last_mut() {
                Some(open) if first <= open.1 + 1 => open.1 = open.1.max(last),
                _ => own.push((first, last)),
            }
        }
        Ok(Self {
            own,
            all: ranges_of(r"[\p{L}\p{M}]").unwrap_or_default(),
        })
    }

    /// Every letter is of these scripts, and there is one. The last character may be cut short where every
    /// way to complete it is in these scripts; a token may not begin inside a character.
    fn writes(&self, spelled: &[u8]) -> bool {
        let (whole, cut) = match std::str::from_utf8(spelled) {
            Ok(whole) => (whole, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (whole, cut) = spelled.split_at(error.valid_up_to());
                (std::str::from_utf8(whole).unwrap_or_default(), cut)
            }
            Err(_) => return false,
        };
        let mut letters = 0;
        for c in whole.chars().map(u32::from) {
            if holds(&self.own, c, c) {
                letters += 1;
            } else if holds(&self.all, c, c) {
                return false;
            }
        }
        match completions(cut) {
            Some((first, last)) => holds(&self.own, first, last),
            None => letters > 0,
        }
    }
}

fn holds(ranges: &[(u32, u32)], first: u32, last: u32) -> bool {
    let after = ranges.partition_point(|&(start, _)| start <= first);
    after > 0 && ranges[after - 1].1 >= last
}

/// The code points that a character cut short may turn out to be; None if nothing was cut.
fn completions(cut: &[u8]) -> Option<(u32, u32)> {
    let (length, lead) = match *cut.first()? {
        byte @ 0xF0.. => (4, u32::from(byte & 0x07)),
        byte @ 0xE0.. => (3, u32::from(byte & 0x0F)),
        byte => (2, u32::from(byte & 0x1F)),
    };
    let known = cut[1..]
        .iter()
        .fold(lead, |sum, &byte| sum << 6 | u32::from(byte & 0x3F));
    let open = 6 * (length - cut.len());
    Some((known << open, (known << open) + (1 << open) - 1))
}

/// `"Hangul"` -> the ranges of its letters and marks, those that it shares with other scripts included.
fn letters_of(name: &str) -> Result<Vec<(u32, u32)>> {
    let unknown = || {
        Error::Input(format!(
            "{name:?} is not a script; expected Unicode names such as Hangul, Han, Hiragana, Katakana, Latin, \
             Cyrillic, Arabic, Devanagari, Thai"
        ))
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
        return Err(unknown());
    }
    ranges_of(&format!(r"[\p{{scx={name}}}&&[\p{{L}}\p{{M}}]]")).ok_or_else(unknown)
}

/// The code points of a class of characters, as a regular expression writes it.
fn ranges_of(class: &str) -> Option<Vec<(u32, u32)>> {
    use regex_syntax::hir::{Class, HirKind};
    match regex_syntax::parse(class).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(found)) => Some(
            found
                .ranges()
                .iter()
                .map(|range| (u32::from(range.start()), u32::from(range.end())))
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn korean() -> Script {
        Script::of(&["Hangul".into()]).expect("a script")
    }

    #[test]
    fn a_token_has_letters_and_all_of_them_are_of_the_script() {
        let script = korean();
        for good in ["한국", " 한", "▁국어", ")를", "`와", "1월"] {
            assert!(script.writes(good.as_bytes()), "{good}");
        }
        for bad in ["", " ", "a", "한a", "a를", "漢", "한漢", "), ", "2026"] {
            assert!(!script.writes(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_character_cut_short_counts_where_all_its_completions_do() {
        let script = korean();
        assert!(script.writes(&"한".as_bytes()[..2]));
        assert!(script.writes(&[b" ", &"국한".as_bytes()[..5]].concat()));
        // U+D000 to U+D7FF holds code points that are not assigned.
        assert!(!script.writes(&"한".as_bytes()[..1]));
        assert!(!script.writes(&"한".as_bytes()[1..]));
        assert!(!script.writes(&"漢".as_bytes()[..2]));
    }

    #[test]
    fn several_scripts_are_one_alphabet() {
        let both = Script::of(&["Han".into(), "Hangul".into()]).expect("scripts");
        assert!(both.writes("한漢".as_bytes()));
        let kana = Script::of(&["Katakana".into()]).expect("a script");
        assert!(kana.writes("コーヒー".as_bytes()));
    }

    #[test]
    fn names_that_are_no_script_are_refused() {
        for name in ["Hangull", "", "L}]", "Any"] {
            assert!(letters_of(name).is_err(), "{name}");
        }
    }

    #[test]
    fn pairs_stay_apart() {
        let veto = Veto::new(&[(1, 2)], &[], false).expect("no script");
        assert!(!veto.allows(key(1, 2), b"ab"));
        assert!(veto.allows(key(2, 1), b"ba"));
        assert!(veto.allows(key(3, 4), b"\xED\x95"));
        let whole = Veto::new(&[], &[], true).expect("no script");
        assert!(!whole.allows(key(3, 4), b"\xED\x95"));
    }
}
