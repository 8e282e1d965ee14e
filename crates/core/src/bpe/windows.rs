//! Long pieces window by window: each is merged on its own, and the joints are checked.
//!
//! Text is what merging gives exactly when each two neighbouring tokens stay apart (see `backtrack`). So the
//! tokens of a window may be kept up to some boundary, the next window starts there, and only the pair at
//! the joint needs a look; mostly not even that, as the next window starts with the very token that followed.
//! On text of many short tokens (random letters, mixed punctuation) this is more than twice as fast as guessing.

use super::backtrack::stay_apart;
use super::merge_short::CAPACITY;
use super::tables::Tables;
use super::NONE;

/// Tokens at the end of a window that the text after it may still change.
const UNSURE: usize = 2;
/// Windows with fewer tokens advance too slowly: in long pieces, guessing is better at long tokens.
const FEWEST: usize = 10;
/// The least with which windows advance at all, for pieces that are not worth more.
const FEWEST_IN_SHORT: usize = UNSURE + 1;
/// Pieces up to this length count as short; the tables for guessing take megabytes and time to build.
pub(crate) const SHORT_PIECE: usize = 4096;
/// Joints that may fail before the attempt is given up, and bytes that earn one more. Failures are never
/// forgotten: a step back can lead to the same joint again.
const PATIENCE: usize = 4;
const BYTES_PER_FAILURE: usize = 128;

/// Appends the symbols of a piece; `false`, with nothing appended, if this is not the way for it.
pub(crate) fn encode(
    tables: &Tables,
    letters: &[u32; 256],
    piece: &[u8],
    out: &mut Vec<u32>,
) -> bool {
    let first = out.len();
    let fewest = if piece.len() <= SHORT_PIECE {
        FEWEST_IN_SHORT
    } else {
        FEWEST
    };
    let patience = PATIENCE + piece.len() / BYTES_PER_FAILURE;
    let (mut at, mut expected, mut failed) = (0, NONE, 0);
    let mut window = [0; CAPACITY];
    loop {
        let end = piece.len().min(at + CAPACITY);
        let count = tables.merge_window(letters, &piece[at..end], &mut window);
        let last = out[first..].last().copied();
        let joins =
            window[0] == expected || last.is_none_or(|last| stay_apart(tables, last, window[0]));
        let done = end == piece.len();
        if joins && done {
            out.extend_from_slice(&window[..count]);
            return true;
        }
        failed += usize::from(!joins);
        if failed > patience || (joins && count < fewest) {
            out.truncate(first);
            return false;
        }
        if joins {
            let kept = &window[..count - UNSURE];
            out.extend_from_slice(kept);
            at += kept
                .iter()
                .map(|symbol| tables.len_of(*symbol))
                .sum::<usize>();
            expected = window[count - UNSURE];
        } else if let Some(last) = out.pop() {
            at -= tables.len_of(last);
            expected = last;
        }
    }
}
