//! The class table equals the regex engine on every scalar value.

use fancy_regex::Regex;
use tokenmill_core::scan::classes::{class, properties, DEEPSEEK_CJK, HAN};

/// Returns which scalar values a pattern matches, from one search over all of them.
fn matched(pattern: &str) -> Vec<bool> {
    let all: String = ('\0'..=char::MAX).collect();
    let mut set = vec![false; 0x11_0000];
    for found in Regex::new(pattern).unwrap().find_iter(&all) {
        found
            .unwrap()
            .as_str()
            .chars()
            .for_each(|c| set[c as usize] = true);
    }
    set
}

#[test]
fn every_scalar_value_has_the_class_that_the_engine_gives_it() {
    let classes: [(&str, &[u8]); 12] = [
        (r"\p{L}", &[class::UPPER, class::LOWER, class::CASELESS]),
        (r"[\p{Lu}\p{Lt}]", &[class::UPPER]),
        (r"\p{Ll}", &[class::LOWER]),
        (r"[\p{Lm}\p{Lo}]", &[class::CASELESS]),
        (r"\p{M}", &[class::MARK]),
        (r"\p{N}", &[class::NUMBER]),
        (r"\p{P}", &[class::PUNCTUATION]),
        (r"\p{S}", &[class::SYMBOL]),
        (r"\s", &[class::SPACE, class::NEWLINE]),
        (r"[\r\n]", &[class::NEWLINE]),
        (
            r"[^\s\p{L}\p{N}]",
            &[class::OTHER, class::PUNCTUATION, class::SYMBOL, class::MARK],
        ),
        (r"[^\s\p{L}\p{N}\p{M}\p{P}\p{S}]", &[class::OTHER]),
    ];
    for (pattern, expected) in classes {
        let set = matched(pattern);
        for c in '\0'..=char::MAX {
            let is = expected.contains(&(properties(c as u32) & 15));
            assert_eq!(is, set[c as usize], "{pattern} on {c:?}");
        }
    }
}

#[test]
fn every_scalar_value_has_the_engines_scripts() {
    for (pattern, bit) in [(r"\p{Han}", HAN), ("[一-龥぀-ゟ゠-ヿ]", DEEPSEEK_CJK)] {
        let set = matched(pattern);
        for c in '\0'..=char::MAX {
            assert_eq!(
                properties(c as u32) & bit != 0,
                set[c as usize],
                "{pattern} on {c:?}"
            );
        }
    }
}
