//! Sixty-four bytes of text as class masks: bit `i` of a mask says whether byte `i` is in the class.
//!
//! ASCII is classified with SIMD; then every other character is decoded and all its bytes are put in its class, so
//! that the same algebra serves all scripts. The characters that make up nearly all Chinese, Korean, Japanese,
//! Russian and accented text are recognised from their first bytes without decoding: Han, Hangul, kana, their
//! punctuation, and the two-byte letters from U+00C0 and U+0400 on (AVX2, MB per CPU-second, Russian seen before:
//! Llama 3 154 -> 226, GPT-2 131 -> 175, o200k 140 -> 207).

use super::classes::{char_at, class, is_space, DEEPSEEK_CJK};
use super::lanes::Lanes;

/// Masks that are mutually exclusive; a byte in none of them is "other".
pub mod role {
    /// Letters; in cased families only those without case.
    pub const LETTER: u8 = 0;
    /// Upper-case letters of cased families.
    pub const UPPER: u8 = 1;
    /// Lower-case letters of cased families.
    pub const LOWER: u8 = 2;
    /// Numbers.
    pub const NUMBER: u8 = 3;
    /// White space, including newlines.
    pub const BLANK: u8 = 4;
    /// Characters that form runs of their own: Han for Kimi-K2, CJK for `DeepSeek`.
    pub const APART: u8 = 5;
    /// Not a mask: other.
    pub const OTHER: u8 = 6;
}

/// The masks of one block.
#[derive(Clone, Copy)]
pub struct Block {
    /// By [`role`].
    pub class: [u64; 6],
    /// `\r` and `\n`
    pub newline: u64,
    /// The space character itself.
    pub space: u64,
    /// Apostrophes.
    pub quote: u64,
    /// Slashes.
    pub slash: u64,
    /// Bytes of characters that are not ASCII.
    pub high: u64,
    /// Bytes that continue a character.
    pub inner: u64,
    /// First byte of a wide white-space character that is the last of its run before something else.
    pub last_wide: u64,
    /// First byte of a character that the algebra does not know how to place.
    pub odd: u64,
}

impl Block {
    /// No byte is in any class.
    const NONE: Self = Self {
        class: [0; 6],
        newline: 0,
        space: 0,
        quote: 0,
        slash: 0,
        high: 0,
        inner: 0,
        last_wide: 0,
        odd: 0,
    };
    /// What lies before a window, which begins with a piece: newlines, which join nothing that follows.
    pub const BEFORE: Self = Self { class: [0, 0, 0, 0, !0, 0], newline: !0, ..Self::NONE };
    /// What lies beyond the end of a text: endless white space.
    pub const AFTER: Self = Self { class: [0, 0, 0, 0, !0, 0], ..Self::NONE };

    /// Letters of any case.
    #[inline(always)]
    pub fn word(&self) -> u64 {
        self.class[0] | self.class[1] | self.class[2]
    }

    /// A class mask.
    #[inline(always)]
    pub fn of(&self, role: u8) -> u64 {
        self.class[role as usize]
    }

    /// Bytes that are in no class.
    #[inline(always)]
    pub fn other(&self) -> u64 {
        !self.class.iter().fold(0, |all, mask| all | mask)
    }
}

/// How a family assigns roles to characters.
pub trait Roles: Copy {
    /// Whether upper and lower case are distinguished.
    const CASED: bool;
    /// Whether ASCII control characters are odd.
    const ODD_CONTROLS: bool = false;

    /// The role of a character that is not ASCII, and whether it is odd.
    fn role(self, properties: u8) -> (u8, bool);

    /// The role of U+4E00..=U+9F7F.
    #[inline(always)]
    fn han(self) -> u8 {
        role::LETTER
    }

    /// Whether white space before such a character keeps its own last character, as it would at the end of the text.
    #[inline(always)]
    fn ends_blank(self, _properties: u8) -> bool {
        false
    }
}

/// Classifies the ASCII of a block, and most Han and Hangul. `spill` holds, by role, the bits by which characters of
/// the previous block reach into this one; it is updated for the next block.
#[inline(always)]
pub fn classify<R: Roles, L: Lanes>(roles: R, lanes: L, spill: &mut [u64; 2]) -> (Block, u64) {
    let mut block = Block {
        newline: lanes.equal(b'\n') | lanes.equal(b'\r'),
        space: lanes.equal(b' '),
        quote: lanes.equal(b'\''),
        slash: if R::CASED { lanes.equal(b'/') } else { 0 },
        high: lanes.high(),
        ..Block::NONE
    };
    block.class[role::NUMBER as usize] = lanes.within(b'0', b'9');
    block.class[role::BLANK as usize] = lanes.within(9, 13) | block.space;
    if R::CASED {
        block.class[role::UPPER as usize] = lanes.within(b'A', b'Z');
        block.class[role::LOWER as usize] = lanes.within(b'a', b'z');
    } else {
        block.class[role::LETTER as usize] = lanes.letters();
    }
    if R::ODD_CONTROLS {
        block.odd = lanes.within(0, 8) | lanes.within(14, 31) | lanes.equal(127);
    }
    if block.high == 0 {
        return (block, 0);
    }
    block.inner = lanes.within(0x80, 0xBF);
    let second = |low, high| lanes.within(low, high) >> 1;
    // U+4E00..=U+9F7F and U+AC00..=U+D77F; a lead byte in the last position is left for decoding.
    let han = lanes.within(0xE5, 0xE8)
        | lanes.equal(0xE4) & second(0xB8, 0xBF)
        | lanes.equal(0xE9) & second(0x80, 0xBD);
    let hangul = lanes.within(0xEB, 0xEC)
        | lanes.equal(0xEA) & second(0xB0, 0xBF)
        | lanes.equal(0xED) & second(0x80, 0x9D);
    place_three(&mut block.class[roles.han() as usize], han, &mut spill[0]);
    place_three(&mut block.class[role::LETTER as usize], hangul, &mut spill[1]);
    let left = block.high & !block.inner & !han & !hangul;
    let left = left & !place_two(lanes, R::CASED, left, &mut block, &mut spill[1]);
    let left = left & !place_kana(roles, lanes, left, &mut block);
    (block, left)
}

/// Places the two-byte letters of French, German and Russian, U+00C0..=U+00FF and U+0400..=U+047F; returns their
/// first bytes.
#[inline(always)]
fn place_two<L: Lanes>(
    lanes: L,
    cased: bool,
    left: u64,
    block: &mut Block,
    spill: &mut u64,
) -> u64 {
    if left & lanes.within(0xC3, 0xD1) == 0 {
        return 0;
    }
    let second = |low, high| lanes.within(low, high) >> 1;
    let (latin, signs) = (lanes.equal(0xC3), second(0x97, 0x97) | second(0xB7, 0xB7));
    if !cased {
        let leads = latin & !signs & !(1 << 63) | lanes.within(0xD0, 0xD1);
        block.class[role::LETTER as usize] |= leads | leads << 1;
        *spill |= leads >> 63;
        return leads;
    }
    let (first, last) = (lanes.equal(0xD0), lanes.equal(0xD1));
    let upper = latin & second(0x80, 0x9E) & !signs | first & second(0x80, 0xAF);
    let lower = latin & second(0x9F, 0xBF) & !signs
        | first & second(0xB0, 0xBF)
        // Beyond these, upper and lower case alternate.
        | last & second(0x80, 0x9F);
    block.class[role::UPPER as usize] |= upper | upper << 1;
    block.class[role::LOWER as usize] |= lower | lower << 1;
    upper | lower
}

/// Places kana, and the punctuation of Chinese and Japanese, which is in no class; returns their first bytes.
#[inline(always)]
fn place_kana<R: Roles, L: Lanes>(roles: R, lanes: L, left: u64, block: &mut Block) -> u64 {
    let (kana, forms) = (left & lanes.equal(0xE3), left & lanes.equal(0xEF));
    if kana | forms == 0 {
        return 0;
    }
    let second = |byte| lanes.equal(byte) >> 1;
    let third = |low, high| lanes.within(low, high) >> 2;
    // U+3001..=U+3003, U+3008..=U+3011, and the wide forms of ASCII except digits and letters.
    let mut signs = forms & second(0xBC) & (third(0x81, 0x8F) | third(0x9A, 0xA0));
    if kana != 0 {
        signs |= kana & second(0x80) & (third(0x81, 0x83) | third(0x88, 0x91));
        let letters = kana
            & (second(0x81) & third(0x81, 0xBF)
                | second(0x82) & (third(0x80, 0x96) | third(0xA1, 0xBF))
                | second(0x83) & (third(0x80, 0xBA) | third(0xBC, 0xBF)));
        let (role, _) = roles.role(class::CASELESS | DEEPSEEK_CJK);
        block.class[role as usize] |= letters | letters << 1 | letters << 2;
        signs |= letters;
    }
    signs
}

/// Adds the three bytes of each character that starts at a bit of `leads`.
#[inline(always)]
fn place_three(mask: &mut u64, leads: u64, spill: &mut u64) {
    *mask |= *spill | leads | leads << 1 | leads << 2;
    *spill = leads >> 63 | leads >> 62;
}

/// Decodes the characters that start at the bits of `leads` in block `at` of `blocks` (where block 0 represents what
/// precedes the window) and puts their bytes in their classes.
#[inline(always)]
pub fn place_wide<R: Roles>(
    roles: R,
    text: &[u8],
    blocks: &mut [Block],
    at: usize,
    mut leads: u64,
) {
    while leads != 0 {
        let bit = leads.trailing_zeros();
        leads &= leads - 1;
        let place = (at - 1) * 64 + bit as usize;
        let (properties, width) = char_at(text, place);
        let (role, odd) = roles.role(properties);
        let bytes = ((1u128 << width) - 1) << bit;
        if role < role::OTHER {
            blocks[at].class[role as usize] |= bytes as u64;
            blocks[at + 1].class[role as usize] |= (bytes >> 64) as u64;
        }
        blocks[at].odd |= u64::from(odd) << bit;
        if role == role::BLANK {
            let next = char_at(text, place + width).0;
            let last = !is_space(next) && next != class::END && !roles.ends_blank(next);
            blocks[at].last_wide |= u64::from(last) << bit;
        }
    }
}
