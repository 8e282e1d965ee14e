//! Plain text to documents: split at a separator, and check the strings of other readers.

use super::batch::{Batch, Policy, Reason};
use memchr::memmem;

/// Splits `block` at each `separator`; the bytes between two separators are a document, unchanged.
///
/// `split(b"a\nb\n", b"\n", ..)` -> "a", "b": a separator at the very end does not open another
/// document. With `strip_cr`, one `\r` before the separator goes with it (lines of other systems).
/// An empty separator makes the whole block one document. More than `limit` bytes are refused.
pub fn split(
    block: &[u8],
    separator: &[u8],
    strip_cr: bool,
    limit: usize,
    policy: Policy,
) -> Batch {
    let mut batch = Batch::with_capacity(0, block.len());
    let valid = simdutf8::basic::from_utf8(block).is_ok();
    let finder = memmem::Finder::new(separator);
    let mut start = 0;
    while start < block.len() {
        let found = match separator {
            [] => None,
            _ => finder.find(&block[start..]),
        };
        let end = found.map_or(block.len(), |at| start + at);
        let mut document = &block[start..end];
        if strip_cr && document.last() == Some(&b'\r') {
            document = &document[..document.len() - 1];
        }
        if document.len() > limit {
            let row = batch.rows_read;
            batch.rows_read += 1;
            batch.refuse(Reason::OverLong, row, start, document, 0);
        } else {
            push(&mut batch, document, start, valid, policy);
        }
        start = found.map_or(block.len(), |_| end + separator.len());
    }
    batch
}

fn push(batch: &mut Batch, document: &[u8], start: usize, valid: bool, policy: Policy) {
    let row = batch.rows_read;
    batch.rows_read += 1;
    match find_fault(document, valid) {
        None => batch.texts.bytes.extend_from_slice(document),
        Some(at) if policy == Policy::Refuse => {
            batch.refuse(Reason::InvalidUtf8, row, start, document, at);
            return;
        }
        Some(_) => {
            let repaired = String::from_utf8_lossy(document);
            batch.replaced[Reason::InvalidUtf8 as usize] += count_repairs(document);
            batch.texts.bytes.extend_from_slice(repaired.as_bytes());
        }
    }
    batch.finish(row, start);
}

/// Returns where `bytes` stop being UTF-8, or None. `known_valid` skips the check.
pub(crate) fn find_fault(bytes: &[u8], known_valid: bool) -> Option<usize> {
    if known_valid {
        return None;
    }
    simdutf8::compat::from_utf8(bytes).err().map(|error| error.valid_up_to())
}

/// Returns how many U+FFFD a lossy decoding inserts.
pub(crate) fn count_repairs(bytes: &[u8]) -> u64 {
    let mut chunks = 0;
    for chunk in bytes.utf8_chunks() {
        chunks += u64::from(!chunk.invalid().is_empty());
    }
    chunks
}

/// Returns the strings of an Arrow array that are not UTF-8: `(row, offset of the fault within it)`.
///
/// Parquet and Arrow files may call any bytes a string, and their readers do not check. Offsets that
/// decrease or lie outside the buffer are reported as a fault at 0 of their row.
pub fn invalid_rows(bytes: &[u8], offsets: &[i64]) -> Vec<(usize, usize)> {
    let row = |pair: &[i64]| -> Option<&[u8]> {
        bytes.get(usize::try_from(pair[0]).ok()?..usize::try_from(pair[1]).ok()?)
    };
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
        return Vec::new();
    };
    let increasing = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let whole = row(&[first, last]).and_then(|used| simdutf8::basic::from_utf8(used).ok());
    // Valid as a whole and cut only between characters: every row is valid.
    if let (true, Some(text)) = (increasing, whole) {
        if offsets.iter().all(|&at| text.is_char_boundary((at - first) as usize)) {
            return Vec::new();
        }
    }
    let faults = offsets.windows(2).enumerate();
    faults
        .filter_map(|(index, pair)| match row(pair) {
            None => Some((index, 0)),
            Some(text) => find_fault(text, false).map(|at| (index, at)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(batch: &Batch) -> Vec<String> {
        let offsets = &batch.texts.offsets;
        let slice = |pair: &[i64]| &batch.texts.bytes[pair[0] as usize..pair[1] as usize];
        offsets.windows(2).map(|pair| String::from_utf8_lossy(slice(pair)).into_owned()).collect()
    }

    #[test]
    fn lines_lose_only_their_ending() {
        let batch = split(b"a\r\n\nb ", b"\n", true, 9, Policy::Refuse);
        assert_eq!(texts(&batch), ["a", "", "b "]);
        assert_eq!(batch.starts, [0, 3, 4]);
    }

    #[test]
    fn an_invalid_document_is_refused_alone() {
        let batch = split(b"a|\xff|c|", b"|", false, 9, Policy::Refuse);
        assert_eq!(texts(&batch), ["a", "c"]);
        assert_eq!(batch.rows, [0, 2]);
        assert_eq!(batch.rejects[0].byte, 2);
    }

    #[test]
    fn replacing_counts_each_sequence() {
        let batch = split(b"a\xff\xfe|c", b"|", false, 9, Policy::Replace);
        assert_eq!(texts(&batch), ["a\u{fffd}\u{fffd}", "c"]);
        assert_eq!(batch.replaced[0], 2);
    }

    #[test]
    fn a_character_cut_by_an_offset_is_a_fault_of_both_rows() {
        assert_eq!(invalid_rows("aé".as_bytes(), &[0, 2, 3]), vec![(0, 1), (1, 0)]);
        assert!(invalid_rows("aé".as_bytes(), &[0, 1, 3]).is_empty());
        assert_eq!(invalid_rows(b"ab", &[0, 9]), vec![(0, 0)]);
    }
}
