//! Unicode classes as the patterns see them: one byte per scalar value, in a two-level table.
//!
//! The table is written by `tests/scan_classes.rs`. Classes come from the pinned regex
//! engine (regex-syntax 0.8, Unicode 16.0), so that a scanner and its regex cannot disagree; `tests/scan_classes.rs`
//! checks every scalar value against the engine, and the regexes of tiktoken 0.14 and HF `tokenizers` 0.23 were found
//! to agree with it. Two bits are for HF steps that follow other versions of Unicode than its regexes do: they were
//! found by querying `tokenizers` 0.23.3 for every scalar value.

/// The exclusive class of a scalar value: the low four bits of its property byte.
pub mod class {
    /// None of the classes below: controls, format characters, private use, unassigned.
    pub const OTHER: u8 = 0;
    /// `\p{P}`
    pub const PUNCTUATION: u8 = 1;
    /// `\p{S}`
    pub const SYMBOL: u8 = 2;
    /// `\p{Lu}` and `\p{Lt}`
    pub const UPPER: u8 = 3;
    /// `\p{Ll}`
    pub const LOWER: u8 = 4;
    /// `\p{Lm}` and `\p{Lo}`: letters without case, which o200k treats as either case.
    pub const CASELESS: u8 = 5;
    /// `\p{M}`
    pub const MARK: u8 = 6;
    /// `\p{N}`
    pub const NUMBER: u8 = 7;
    /// `\s` except `\r` and `\n`
    pub const SPACE: u8 = 8;
    /// `\r` and `\n`
    pub const NEWLINE: u8 = 9;
    /// What a matcher sees at the end of its text; no scalar value has it.
    pub const END: u8 = 15;
}

/// Property bit: `\p{Han}` (orthogonal to the class: some Han are marks, numbers or symbols).
pub const HAN: u8 = 1 << 4;
/// Property bit: numeric to HF's `Digits` step, which follows a newer Unicode than its regexes.
pub const HF_DIGIT: u8 = 1 << 5;
/// Property bit: punctuation to HF's `Punctuation` step, which follows an older Unicode.
pub const HF_PUNCTUATION: u8 = 1 << 6;
/// Property bit: in DeepSeek-V3's `[一-龥぀-ゟ゠-ヿ]`.
pub const DEEPSEEK_CJK: u8 = 1 << 7;

/// Whether a character with these properties is `\s`.
#[inline(always)]
pub fn is_space(properties: u8) -> bool {
    matches!(properties & 15, class::SPACE | class::NEWLINE)
}

/// 4,352 page numbers, then the distinct pages of 256 property bytes.
static TABLE: &[u8] = include_bytes!("classes.bin");
const PAGES: usize = 0x11_0000 / 256;

/// Properties of the first 128 code points, in one cache line pair.
static ASCII: [u8; 128] = {
    let (mut row, mut i) = ([0; 128], 0);
    while i < 128 {
        row[i] = TABLE[PAGES + TABLE[0] as usize * 256 + i];
        i += 1;
    }
    row
};

/// The property byte of a code point; `0` (other) beyond Unicode.
#[inline(always)]
pub fn properties(code_point: u32) -> u8 {
    let page = TABLE[..PAGES].get(code_point as usize >> 8).copied().unwrap_or(0);
    let place = PAGES + page as usize * 256 + (code_point as usize & 255);
    TABLE.get(place).copied().unwrap_or(0)
}

/// Properties and length in bytes of the character that starts at `at`; `(END, 0)` at the end.
#[inline(always)]
pub fn char_at(text: &[u8], at: usize) -> (u8, usize) {
    match text.get(at) {
        None => (class::END, 0),
        Some(&byte) if byte < 128 => (ASCII[byte as usize], 1),
        Some(&lead) => {
            let (code_point, width) = decode(text, at, lead);
            (properties(code_point), width)
        }
    }
}

/// Code point and length in bytes of the character that starts with `lead` at `at`.
#[inline(always)]
pub fn decode(text: &[u8], at: usize, lead: u8) -> (u32, usize) {
    // Texts are UTF-8, so a continuation byte is never missing; 0 keeps the lookup total.
    let tail = |i: usize| u32::from(text.get(at + i).copied().unwrap_or(0) & 63);
    let lead = u32::from(lead);
    match lead {
        0..0x80 => (lead, 1),
        0xE0..=0xEF => ((lead & 15) << 12 | tail(1) << 6 | tail(2), 3),
        0xF0.. => {
            let code_point = (lead & 7) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
            (code_point, 4)
        }
        _ => ((lead & 31) << 6 | tail(1), 2),
    }
}
