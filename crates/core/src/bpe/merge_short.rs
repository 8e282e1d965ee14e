//! The exact merge of up to 32 symbols: the best pair is found by one vector minimum over all of them.
//!
//! Product and position are packed in one word, so the minimum is at once the best pair and the leftmost
//! of equals. Live symbols are a bit mask; nothing is ever moved.

use super::pairs::PairTable;
use super::NONE;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Cpu;

/// Symbols that fit.
pub(crate) const CAPACITY: usize = 32;
pub(crate) const POSITION_BITS: u32 = 5;

/// Merges `symbols[..n]` and moves the result to the front; gives its length.
///
/// `products[i]` is the product of symbols `i` and `i + 1`, [`NONE`] from `n - 1` on.
#[inline]
pub(crate) fn merge(
    pairs: &PairTable,
    symbols: &mut [u32; CAPACITY],
    products: &mut [u32; CAPACITY],
    n: usize,
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if Cpu::get().avx2().is_some() {
        // SAFETY: there is a proof of AVX2.
        return unsafe { merge_avx2(pairs, symbols, products, n) };
    }
    merge_any(pairs, symbols, products, n)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn merge_avx2(
    pairs: &PairTable,
    symbols: &mut [u32; CAPACITY],
    products: &mut [u32; CAPACITY],
    n: usize,
) -> usize {
    merge_any(pairs, symbols, products, n)
}

#[inline(always)]
fn merge_any(
    pairs: &PairTable,
    symbols: &mut [u32; CAPACITY],
    products: &mut [u32; CAPACITY],
    n: usize,
) -> usize {
    if n <= 8 {
        merge_lanes::<8>(pairs, symbols, products, n)
    } else if n <= 16 {
        merge_lanes::<16>(pairs, symbols, products, n)
    } else {
        merge_lanes::<32>(pairs, symbols, products, n)
    }
}

#[inline(always)]
fn pack(product: u32, at: usize) -> u32 {
    if product == NONE {
        NONE
    } else {
        (product << POSITION_BITS) | at as u32
    }
}

#[inline(always)]
fn merge_lanes<const N: usize>(
    pairs: &PairTable,
    symbols: &mut [u32; CAPACITY],
    products: &[u32; CAPACITY],
    n: usize,
) -> usize {
    let mut packed = [NONE; N];
    for (at, (packed, product)) in packed.iter_mut().zip(products).enumerate() {
        *packed = pack(*product, at);
    }
    let mut live: u64 = (1 << n) - 1;
    loop {
        let best = packed.iter().copied().fold(NONE, u32::min);
        if best == NONE {
            break;
        }
        let product = best >> POSITION_BITS;
        let at = (best as usize) % N;
        let after = live & (!1 << at);
        let gone = after.trailing_zeros() as usize % N;
        live &= !(1 << gone);
        let next = after & after.wrapping_sub(1);
        let before = live & ((1 << at) - 1);
        symbols[at] = product;
        let mut with_next = NONE;
        if next != 0 {
            let right = symbols[next.trailing_zeros() as usize % N];
            with_next = pack(pairs.get(product, right), at);
        }
        let (mut left, mut with_left) = (at, with_next);
        if before != 0 {
            left = 63 - before.leading_zeros() as usize;
            with_left = pack(pairs.get(symbols[left % N], product), left);
        }
        // Every lane is rewritten, so that the lanes stay in vector registers: writing one lane to
        // memory and reading all of them back would stall on each merge.
        for (lane, packed) in packed.iter_mut().enumerate() {
            let lane = lane as u32;
            let mut value = if lane == gone as u32 { NONE } else { *packed };
            value = if lane == at as u32 { with_next } else { value };
            *packed = if lane == left as u32 {
                with_left
            } else {
                value
            };
        }
    }
    let mut count = 0;
    while live != 0 {
        symbols[count] = symbols[live.trailing_zeros() as usize % N];
        count += 1;
        live &= live - 1;
    }
    count
}
