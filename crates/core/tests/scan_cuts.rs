//! Where a text is cut, the pieces of its parts are the pieces of the whole.

mod scan_cases;

use scan_cases::Random;
use tokenmill_core::scan::{names, SafeCuts, ScanSpec, Scanner, Step};

fn scanner(name: &str) -> Scanner {
    Scanner::new(&ScanSpec::from_choice(name).unwrap()).unwrap()
}

fn all(cuts: &SafeCuts, text: &str) -> Vec<usize> {
    let (text, mut from) = (text.as_bytes(), 0);
    let next = || {
        let at = cuts.next(text, from, text.len())?;
        from = at + 1;
        Some(at)
    };
    std::iter::from_fn(next).collect()
}

fn pieces(scanner: &Scanner, text: &str) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let scanned = scanner.for_each_piece(text, |piece| pieces.push(piece.to_vec()));
    assert!(scanned.is_ok());
    pieces
}

#[test]
fn cuts_follow_letters_or_lone_newlines() {
    let cuts = SafeCuts::of_scanner(&scanner("gpt2"), Vec::new());
    let text = "ab cd  ef. 1\nxy\n\nz。\n字 !\n";
    assert_eq!(all(&cuts, text), [2, 5, 12, 13, 15, 22, 25]);
    let spaces = SafeCuts::before_spaces(Vec::new());
    assert_eq!(all(&spaces, text), [2, 5, 25]);
    let chain = ScanSpec::Chain(vec![Step::matches("a+")]);
    let none = SafeCuts::of_scanner(&Scanner::new(&chain).unwrap(), Vec::new());
    assert!(!none.any() && all(&none, text).is_empty());
    assert_eq!(none.last(text.as_bytes()), None);
}

#[test]
fn parts_have_the_pieces_of_the_whole_wherever_they_are_cut() {
    let lively: Vec<char> = "aZ5 \n\r\t.'s!/中字·가한é\u{301}\u{3000}\u{a0}٣😀".chars().collect();
    let mut random = Random(7);
    for name in names() {
        let (scanner, mut found) = (scanner(name), 0);
        let cuts = SafeCuts::of_scanner(&scanner, Vec::new());
        for _ in 0..2000 {
            let text: String =
                (0..random.below(24)).map(|_| lively[random.below(lively.len())]).collect();
            let whole = pieces(&scanner, &text);
            for at in all(&cuts, &text) {
                let parts = [&text[..at], &text[at..]].map(|part| pieces(&scanner, part));
                assert_eq!(parts.concat(), whole, "{name}: {text:?} at {at}");
                found += 1;
            }
        }
        assert!(found > 300, "{name}: {found}");
    }
}

#[test]
fn no_cut_touches_a_string_that_must_stay_whole() {
    let cuts = |whole: &str| SafeCuts::of_scanner(&scanner("gpt2"), vec![whole.into()]);
    assert_eq!(cuts("b c").next(b"ab cd", 0, 5), None);
    assert_eq!(cuts("ab").next(b"ab cd", 0, 5), None);
    assert_eq!(cuts("b cd").next(b"ab ce", 0, 5), Some(2));
}

#[test]
fn the_last_cut_keeps_the_context_that_may_decide_it() {
    let cuts = SafeCuts::of_scanner(&scanner("gpt2"), Vec::new());
    assert_eq!(cuts.last(b"ab cd ef gh ij"), Some(8));
    assert_eq!(cuts.last(b"ab cd"), None);
}
