//! Text as UTF-8, in one, two or four bytes per character, and bytes that are not text, against the standard library.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenmill_core::codec::Document;
use tokenmill_core::records::{invalid_rows, split, Policy};

fn check_widths(data: &[u8]) {
    let mut buffer = String::from("left from before");
    let latin: String = data.iter().map(|&byte| char::from(byte)).collect();
    assert_eq!(Document::Ucs1(data).text(&mut buffer).expect("all are characters"), latin);
    let twos: Vec<u16> = data.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    let text: Option<String> = twos.iter().map(|&unit| char::from_u32(unit.into())).collect();
    assert_eq!(Document::Ucs2(&twos).text(&mut buffer).ok().map(String::from), text);
    // The top byte is cut, so that most of them are characters.
    let fours: Vec<u32> = data
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2] & 0x1F, 0]))
        .collect();
    let text: Option<String> = fours.iter().map(|&unit| char::from_u32(unit)).collect();
    assert_eq!(Document::Ucs4(&fours).text(&mut buffer).ok().map(String::from), text);
}

fn check_split(data: &[u8]) {
    let batch = split(data, b"", false, usize::MAX, Policy::Replace);
    assert_eq!(batch.texts.bytes, String::from_utf8_lossy(data).as_bytes());
    let refusing = split(data, b"\n", false, usize::MAX, Policy::Refuse);
    let good: Vec<u8> = data
        .split(|&byte| byte == b'\n')
        .filter(|line| std::str::from_utf8(line).is_ok())
        .flatten()
        .copied()
        .collect();
    assert_eq!(refusing.texts.bytes, good);
}

/// Rows of an Arrow array whose offsets are as bad as its bytes.
fn check_rows(data: &[u8]) {
    let (offsets, bytes) = data.split_at(data.len() / 3);
    let offsets: Vec<i64> = offsets.iter().map(|&at| i64::from(at) - 4).collect();
    let found = invalid_rows(bytes, &offsets);
    for (row, pair) in offsets.windows(2).enumerate() {
        let range = usize::try_from(pair[0]).ok().zip(usize::try_from(pair[1]).ok());
        let text = range.and_then(|(start, end)| bytes.get(start..end));
        let fault = match text.map(std::str::from_utf8) {
            None => Some(0),
            Some(Err(error)) => Some(error.valid_up_to()),
            Some(Ok(_)) => None,
        };
        let reported = found.iter().find(|(at, _)| *at == row).map(|(_, at)| *at);
        assert_eq!(reported, fault, "row {row} of {offsets:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    check_widths(data);
    check_split(data);
    check_rows(data);
});
