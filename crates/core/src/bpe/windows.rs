//! Long pieces as rows of overlapping windows: all are merged side by side, then stitched together.
//!
//! A sequence of tokens is the result of merging exactly when every two neighbours stay apart (see `backtrack`). Two
//! windows that agree on some token, at the same place, may therefore be stitched there: everything to the left of it
//! comes from one window, the rest from the other, and every two neighbours were neighbours in one of them. Where two
//! windows do not agree, the row ends, and the next one starts two tokens earlier; only the pair at that joint needs
//! checking, and usually not even that, as the next row starts with the very token that followed.
//!
//! Texts have few such pieces, and on whole corpora this gains nothing. It is there to meet the bar for long pieces:
//! random letters run at 47 MB/s instead of 7 with guessing, words without spaces at 10 instead of 6.5 (on a loaded
//! machine).

use super::backtrack::stay_apart;
use super::merge_together::{merge, Word, MOST, WORDS};
use super::tables::Tables;
use super::NONE;

/// Bytes of a window.
const WINDOW: usize = MOST;
/// Bytes from the start of one window to the start of the next. The rest of a window overlaps the next, and has to
/// contain a token that both agree on.
const STRIDE: usize = 20;
/// Tokens at the end of a row that the text after it may still change.
const UNSURE: u32 = 2;
/// Pieces up to this length count as short; the tables for guessing take megabytes and time to build.
pub(crate) const SHORT_PIECE: usize = 4096;
/// Rows that may fail before the attempt is given up, and bytes that earn one more: with long tokens, guessing is
/// better. Failures are never forgotten: a step back can lead to the same joint again.
const PATIENCE: usize = 4;
const BYTES_PER_FAILURE: usize = 128;

/// Appends the symbols of a piece; returns `false`, with nothing appended, if windows do not suit it.
pub(crate) fn encode(
    tables: &Tables,
    letters: &[u32; 256],
    piece: &[u8],
    out: &mut Vec<u32>,
) -> bool {
    let first = out.len();
    let (mut at, mut expected, mut failed) = (0, NONE, 0);
    let mut words = [Word::EMPTY; WORDS];
    // One window at first, then twice as many: for a run of spaces, the first window already shows that windows do
    // not suit it.
    let mut width = 1;
    while at < piece.len() {
        let row = Row::merged(tables, letters, &piece[at..], &mut words[..width]);
        let head = row.words[0].symbol(0);
        let last = out[first..].last().copied();
        let joins = head == expected || last.is_none_or(|last| stay_apart(tables, last, head));
        let (mut is_whole, mut is_stuck) = (false, false);
        if joins {
            let kept = row.stitch(out);
            (is_whole, is_stuck) = (kept.is_whole, kept.bytes == 0);
            at += kept.bytes;
            expected = kept.next;
        } else if let Some(last) = out.pop() {
            at -= tables.len_of(last);
            expected = last;
        }
        failed += usize::from(!is_whole);
        if is_stuck || failed > PATIENCE + at / BYTES_PER_FAILURE {
            out.truncate(first);
            return false;
        }
        width = (width * if is_whole { 2 } else { 1 }).min(WORDS);
    }
    true
}

/// How much of a row was appended.
struct Kept {
    bytes: usize,
    /// The symbol after these bytes.
    next: u32,
    /// Whether all windows agreed.
    is_whole: bool,
}

/// Windows that overlap, each merged on its own.
struct Row<'a> {
    words: &'a [Word],
    /// Bytes that all of them cover together.
    covered: usize,
    /// Whether that is all of the rest of the piece.
    is_last: bool,
}

impl<'a> Row<'a> {
    fn merged(tables: &Tables, letters: &[u32; 256], rest: &[u8], words: &'a mut [Word]) -> Self {
        let width = words.len();
        let more = rest.len().saturating_sub(WINDOW).div_ceil(STRIDE);
        let words = &mut words[..width.min(1 + more)];
        let covered = rest.len().min((words.len() - 1) * STRIDE + WINDOW);
        for (index, word) in words.iter_mut().enumerate() {
            let start = index * STRIDE;
            word.start(tables, letters, &rest[start..covered.min(start + WINDOW)]);
        }
        merge(&tables.pairs, words);
        Self {
            words,
            covered,
            is_last: covered == rest.len(),
        }
    }

    /// Appends the symbols of all windows up to the first two that do not agree, except for the last few.
    fn stitch(&self, out: &mut Vec<u32>) -> Kept {
        let (mut from, mut window) = (0, 0);
        let mut word = &self.words[0];
        for next in &self.words[1..] {
            let Some(seam) = seam(word, next) else {
                break;
            };
            push(word, from, STRIDE + seam, out);
            (from, window, word) = (seam, window + 1, next);
        }
        let is_whole = window + 1 == self.words.len();
        let mut until = WINDOW;
        if !(is_whole && self.is_last) {
            for _ in 0..UNSURE {
                until = start_before(word, until).max(from);
            }
        }
        push(word, from, until, out);
        Kept {
            bytes: self.covered.min(window * STRIDE + until),
            next: word.symbol(until),
            is_whole,
        }
    }
}

/// The first place in `right` of a token that both windows have.
fn seam(left: &Word, right: &Word) -> Option<usize> {
    let mut shared = (left.starts() >> STRIDE) & right.starts();
    while shared != 0 {
        let at = shared.trailing_zeros() as usize;
        if left.symbol(STRIDE + at) == right.symbol(at) {
            return Some(at);
        }
        shared &= shared - 1;
    }
    None
}

/// Appends the symbols that start in `from..until`.
fn push(word: &Word, from: usize, until: usize, out: &mut Vec<u32>) {
    let mut starts = word.starts() & ((1 << until) - 1) & (u32::MAX << from);
    while starts != 0 {
        out.push(word.symbol(starts.trailing_zeros() as usize));
        starts &= starts - 1;
    }
}

/// Where the last symbol before `until` starts; the first starts at 0.
fn start_before(word: &Word, until: usize) -> usize {
    let before = word.starts() & ((1 << until) - 1);
    before.checked_ilog2().unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::super::merge::MergeScratch;
    use super::super::tests::{byte_spec, Random};
    use super::super::Bpe;
    use super::encode;

    #[test]
    fn stitched_windows_are_the_merge_of_the_whole() {
        let mut random = Random(4242);
        let alphabets: [&[&str]; 4] = [
            &["a", "b"],
            &["a", "b", "c", "d"],
            &["e", "t", "a", "o", "i", "n", "s", "h"],
            &["가", "나", "b"],
        ];
        let (mut stitched, mut tried) = (0, 0);
        for round in 0..200 {
            let letters = alphabets[round % alphabets.len()];
            let joins = 10 + random.below(150);
            let bpe = Bpe::new(&byte_spec(
                &mut random,
                letters,
                joins,
                round % 3 == 0,
                false,
            ))
            .unwrap();
            let tables = bpe.tables();
            let Some(bytes) = tables.letters().filter(|_| tables.ranks_rise()) else {
                continue;
            };
            for _ in 0..10 {
                let piece = random.piece(letters, 900);
                let mut found = Vec::new();
                let mut whole = MergeScratch::default();
                tables
                    .symbols
                    .of_piece(piece.as_bytes(), &mut whole.symbols);
                whole.merge(&tables.pairs);
                tried += 1;
                if encode(tables, bytes, piece.as_bytes(), &mut found) {
                    assert_eq!(found, whole.symbols, "round {round}, piece {piece:?}");
                    stitched += 1;
                } else {
                    assert!(found.is_empty());
                }
            }
        }
        assert!(stitched * 4 > tried && tried > 400, "{stitched} of {tried}");
    }
}
