//! Which merges continued training must not make: pairs that occur in texts to be kept, tokens in other scripts.

use std::collections::HashSet;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::pairs::key;
use crate::{Error, Result};

/// What is left out, whatever its count.
#[derive(Default)]
pub struct Veto {
    pairs: HashSet<u64>,
    scripts: Option<Script>,
    /// Whether a token must consist of whole characters.
    whole: bool,
}

impl Veto {
    /// Pairs of ids that stay apart, the scripts that a new token must be written in (none means any), and
    /// whether it must consist of whole characters.
    pub fn new(pairs: &[(u32, u32)], scripts: &[String], whole: bool) -> Result<Self> {
        Ok(Self {
            pairs: pairs.iter().map(|&(left, right)| key(left, right)).collect(),
            scripts: (!scripts.is_empty()).then(|| Script::of(scripts)).transpose()?,
            whole,
        })
    }

    /// Returns whether the pair may become the token `spelled`.
    pub fn allows(&self, pair: u64, spelled: &[u8]) -> bool {
        !self.pairs.contains(&pair)
            && (!self.whole || std::str::from_utf8(spelled).is_ok())
            && self.scripts.as_ref().is_none_or(|script| script.writes(spelled))
    }
}

/// Returns whether each token is written in these scripts: it has letters, and all of them are of these scripts.
pub fn in_scripts<T: AsRef<[u8]>>(tokens: &[T], scripts: &[String]) -> Result<Vec<bool>> {
    let script = Script::of(scripts)?;
    Ok(tokens.iter().map(|token| script.writes(token.as_ref())).collect())
}

/// The letters and marks of some scripts, and those of all others, as ranges of code points in ascending order.
struct Script {
    own: Vec<(u32, u32)>,
    foreign: Vec<(u32, u32)>,
}

impl Script {
    fn of(names: &[String]) -> Result<Self> {
        let mut own = ClassUnicode::empty();
        for name in names {
            own.union(&letters_of(name)?);
        }
        let mut foreign = class(r"[\p{L}\p{M}]").unwrap_or_else(ClassUnicode::empty);
        foreign.difference(&own);
        Ok(Self { own: ranges(&own), foreign: ranges(&foreign) })
    }

    /// Returns whether the token has letters, and all of them are of these scripts. The last character may be cut short if
    /// it can only be completed to one of these scripts, and the token may begin with the end of a character: the
    /// base vocabularies of such tokens are full of both, and longer tokens are made of them.
    fn writes(&self, spelled: &[u8]) -> bool {
        let begun = spelled.iter().take(3).take_while(|&byte| byte & 0xC0 == 0x80).count();
        let spelled = &spelled[begun..];
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
            if overlaps(&self.foreign, c, c) {
                return false;
            }
            letters += usize::from(overlaps(&self.own, c, c));
        }
        match completions(cut) {
            Some((first, last)) => {
                overlaps(&self.own, first, last) && !overlaps(&self.foreign, first, last)
            }
            None => letters > 0,
        }
    }
}

/// Returns whether one of the code points from `first` to `last` is in `ranges`.
fn overlaps(ranges: &[(u32, u32)], first: u32, last: u32) -> bool {
    let begun = ranges.partition_point(|&(start, _)| start <= last);
    begun > 0 && ranges[begun - 1].1 >= first
}

/// Returns the code points to which a character that is cut short may be completed; None if nothing was cut.
fn completions(cut: &[u8]) -> Option<(u32, u32)> {
    let (length, lead) = match *cut.first()? {
        byte @ 0xF0.. => (4, u32::from(byte & 0x07)),
        byte @ 0xE0.. => (3, u32::from(byte & 0x0F)),
        byte => (2, u32::from(byte & 0x1F)),
    };
    let known = cut[1..].iter().fold(lead, |sum, &byte| sum << 6 | u32::from(byte & 0x3F));
    let open = 6 * (length - cut.len());
    Some((known << open, (known << open) + (1 << open) - 1))
}

/// `"Hangul"` -> the ranges of its letters and marks, those that it shares with other scripts included.
fn letters_of(name: &str) -> Result<ClassUnicode> {
    let unknown = || {
        Error::Input(format!(
            "{name:?} is not a script; expected a Unicode script name such as Hangul, Han, Hiragana, Katakana, Latin, \
             Cyrillic, Arabic, Devanagari, Thai"
        ))
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
        return Err(unknown());
    }
    class(&format!(r"[\p{{scx={name}}}&&[\p{{L}}\p{{M}}]]")).ok_or_else(unknown)
}

/// Returns a class of characters, as a regular expression writes it.
fn class(pattern: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(found)) => Some(found),
        _ => None,
    }
}

fn ranges(class: &ClassUnicode) -> Vec<(u32, u32)> {
    let bounds = |range: &ClassUnicodeRange| (u32::from(range.start()), u32::from(range.end()));
    class.ranges().iter().map(bounds).collect()
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
    fn a_character_cut_short_counts_where_no_other_script_completes_it() {
        let script = korean();
        assert!(script.writes(&"한".as_bytes()[..2]));
        assert!(script.writes(&[b" ", &"국한".as_bytes()[..5]].concat()));
        // U+D000 to U+D7FF holds code points that are not assigned, but no other letters.
        assert!(script.writes(&"한".as_bytes()[..1]));
        // U+A000 to U+AFFF holds Yi, Vai and others.
        assert!(!script.writes(&"가".as_bytes()[..1]));
        assert!(!script.writes(&"漢".as_bytes()[..2]));
        assert!(!script.writes(&[b"a", &"한".as_bytes()[..2]].concat()));
    }

    #[test]
    fn the_end_of_a_character_may_lead_but_is_no_letter_itself() {
        let script = korean();
        assert!(script.writes(&"한국".as_bytes()[1..]));
        assert!(script.writes(&"한국".as_bytes()[2..5]));
        assert!(!script.writes(&"한".as_bytes()[1..]));
        assert!(!script.writes(&"한a".as_bytes()[1..]));
        assert!(!script.writes(&[0x80, 0x80, 0x80, 0x80]));
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
