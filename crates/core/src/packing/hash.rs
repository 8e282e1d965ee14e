//! Hashes of whole texts, for exact duplicates.

use super::check_offsets;
use crate::{Result, Stop};
use xxhash_rust::xxh3::xxh3_128;

/// XXH3-128 of every text `data[offsets[d]..offsets[d + 1]]`, as low and high 64 bits one after another.
pub fn hash_texts(data: &[u8], offsets: &[i64], stop: &Stop) -> Result<Vec<u64>> {
    check_offsets(offsets, data.len())?;
    let mut hashes = Vec::with_capacity(2 * (offsets.len() - 1));
    for (document, pair) in offsets.windows(2).enumerate() {
        if document % 1024 == 0 {
            stop.check()?;
        }
        let hash = xxh3_128(&data[pair[0] as usize..pair[1] as usize]);
        hashes.extend([hash as u64, (hash >> 64) as u64]);
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::hash_texts;
    use crate::Stop;

    #[test]
    fn equal_texts_have_equal_hashes() {
        let hashes = hash_texts(b"abcabcab", &[0, 3, 6, 8], &Stop::new()).unwrap();
        assert_eq!(hashes[0..2], hashes[2..4]);
        assert_ne!(hashes[0..2], hashes[4..6]);
    }
}
