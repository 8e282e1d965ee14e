//! Delimited rows against the `csv` crate where both agree on the meaning, and against themselves cut in two.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenmill_core::records::{read_rows, Batch, CsvPart, CsvSpec, Policy};

fn spec(delimiter: u8, policy: Policy) -> CsvSpec {
    CsvSpec {
        delimiter,
        width: 2,
        text: vec![CsvPart::Field(1)],
        columns: vec![0],
        limit: 1 << 20,
        policy,
    }
}

fn texts(batch: &Batch) -> Vec<Vec<u8>> {
    let span = |pair: &[i64]| batch.texts.bytes[pair[0] as usize..pair[1] as usize].to_vec();
    batch.texts.offsets.windows(2).map(span).collect()
}

fn refused(batch: &Batch) -> u64 {
    batch.refused.iter().sum()
}

/// Second fields as another library reads them.
fn expected(block: &[u8], delimiter: u8) -> Vec<Vec<u8>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(block);
    reader
        .byte_records()
        .map(|record| record.expect("a slice can be read")[1].to_vec())
        .collect()
}

/// A lone carriage return is a character for us and the end of a line for the `csv` crate.
fn has_lone_return(block: &[u8]) -> bool {
    let mut places = block.iter().enumerate().filter(|(_, &byte)| byte == b'\r');
    places.any(|(at, _)| block.get(at + 1) != Some(&b'\n'))
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, block)) = data.split_first() else {
        return;
    };
    let delimiter = if choice & 1 == 0 { b',' } else { b'\t' };
    let policy = if choice & 2 == 0 { Policy::Refuse } else { Policy::Replace };
    let spec = spec(delimiter, policy);
    let (whole, used) = read_rows(block, &spec, true);
    assert_eq!(used, block.len(), "the last block is read to its end");
    assert!(std::str::from_utf8(&whole.texts.bytes).is_ok());
    assert_eq!(whole.columns[0].kinds.len(), whole.texts.len());
    for cut in [block.len() / 3, block.len() / 2, block.len().saturating_sub(1)] {
        let (first, used) = read_rows(&block[..cut], &spec, false);
        let (second, _) = read_rows(&block[used..], &spec, true);
        let both = [texts(&first), texts(&second)].concat();
        assert_eq!(both, texts(&whole), "cut at {cut}");
        assert_eq!(refused(&first) + refused(&second), refused(&whole), "cut at {cut}");
    }
    if refused(&whole) == 0 && policy == Policy::Refuse && !has_lone_return(block) {
        assert_eq!(texts(&whole), expected(block, delimiter));
    }
});
