//! From a list of merges, or of ranked tokens, to one canonical split per token.
//!
//! Entries are visited in rank order, with a table of what was found so far. A listed pair is a split if its two
//! tokens stay apart under all better pairs. Otherwise, or if only the product is known, the token's bytes are merged
//! with all better pairs; if two symbols are left, they are its split. Only if more are left (the token needs a
//! *worse* pair first, or is never made by merges) are its merges replayed in full.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::merge::MergeScratch;
use super::pairs::{PairTable, SYMBOL_LIMIT};
use super::symbols::Symbols;
use super::{MergeList, Merges, Vocabulary, NONE};
use crate::{Error, Result};

/// A replay looks at all pairs at each step; tokens beyond this length are refused instead.
const REPLAY_LIMIT: usize = 2048;

const UNREACHABLE: u32 = u32::MAX - 1;

/// A token made by merges: `left + right -> product`, all of them token ids. In a list, the best rank comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) rank: u32,
    pub(crate) left: u32,
    pub(crate) right: u32,
    pub(crate) product: u32,
}

/// The merges as given, queried one pair of token ids at a time.
struct Rules<'a> {
    vocabulary: &'a Vocabulary,
    /// `List`: all pairs in rank order.
    list: &'a [(u32, u32)],
    /// `List`: rank of a pair, filled on first use.
    ranks: OnceCell<HashMap<(u32, u32), u32>>,
    /// `Ranked`: rank by product.
    priority: Vec<u32>,
}

impl Rules<'_> {
    /// A pair that is listed twice takes its last rank, as in HF.
    fn rank(&self, pair: (u32, u32)) -> Option<u32> {
        let ranks = self.ranks.get_or_init(|| {
            let pairs = self.list.iter().enumerate();
            pairs.map(|(rank, pair)| (*pair, rank as u32)).collect()
        });
        ranks.get(&pair).copied()
    }

    fn product(&self, left: u32, right: u32) -> Option<u32> {
        let mut spelled = self.vocabulary.bytes_of(left)?.to_vec();
        spelled.extend_from_slice(self.vocabulary.bytes_of(right)?);
        self.vocabulary.id_of(&spelled)
    }

    /// Rank and product of two neighbours, `None` where they do not merge.
    fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let product = self.product(left, right)?;
        let rank = if self.priority.is_empty() {
            self.rank((left, right))?
        } else {
            *self.priority.get(product as usize)?
        };
        (rank != NONE).then_some((rank, product))
    }

    /// Returns all merges of a token's initial symbols, in order.
    fn replay(&self, mut ids: Vec<u32>) -> Result<Vec<Split>> {
        if ids.len() > REPLAY_LIMIT {
            return Err(Error::Tokenizer(format!(
                "a token of {} symbols cannot be rebuilt from better merges alone; the native engine takes up to {REPLAY_LIMIT}",
                ids.len()
            )));
        }
        let mut steps = Vec::new();
        loop {
            let pairs = ids.windows(2).enumerate();
            let merges = pairs.filter_map(|(at, pair)| {
                self.get(pair[0], pair[1]).map(|(rank, id)| (rank, at, id))
            });
            let Some((rank, at, product)) = merges.min() else {
                return Ok(steps);
            };
            steps.push(Split { rank, left: ids[at], right: ids[at + 1], product });
            ids[at] = product;
            ids.remove(at + 1);
        }
    }
}

struct Builder<'a> {
    vocabulary: &'a Vocabulary,
    symbols: &'a Symbols,
    base_ids: &'a [u32],
    rules: Rules<'a>,
    /// By token id: rank of its split, `NONE` while unknown, or `UNREACHABLE`.
    ranks: Vec<u32>,
    /// By token id: its symbol in the alphabet.
    base: Vec<u32>,
    /// By rank: the token that has it.
    products: Vec<u32>,
    /// By rank: the symbols that its product is made of, once it is in the table.
    halves: Vec<(u32, u32)>,
    /// Whether every product so far ranks after both of its parts.
    rises: bool,
    table: PairTable,
    scratch: MergeScratch,
    /// Splits whose rank has not been reached yet: a better entry must not see them.
    delayed: HashMap<u32, Split>,
    splits: Vec<Split>,
}

/// Returns the canonical splits of all tokens that merges can make, in rank order.
pub(crate) fn splits(
    merges: &Merges,
    vocabulary: &Vocabulary,
    symbols: &Symbols,
    base_ids: &[u32],
    mergeable: &[bool],
) -> Result<Vec<Split>> {
    let entries = match merges {
        Merges::List(list) => list.pairs().len(),
        Merges::Ranked(ids) => ids.len(),
    };
    if entries + base_ids.len() > SYMBOL_LIMIT {
        return Err(Error::Tokenizer(format!(
            "{entries} merges are more than the native engine takes ({SYMBOL_LIMIT})"
        )));
    }
    let mut builder = Builder {
        vocabulary,
        symbols,
        base_ids,
        rules: Rules { vocabulary, list: &[], ranks: OnceCell::new(), priority: Vec::new() },
        ranks: vec![NONE; vocabulary.id_limit()],
        base: vec![NONE; vocabulary.id_limit()],
        products: vec![NONE; entries],
        halves: vec![(NONE, NONE); entries],
        rises: true,
        table: PairTable::with_room(entries),
        scratch: MergeScratch::default(),
        delayed: HashMap::new(),
        splits: Vec::with_capacity(entries),
    };
    for (symbol, id) in base_ids.iter().enumerate() {
        builder.base[*id as usize] = symbol as u32;
    }
    match merges {
        Merges::List(list) => builder.visit_list(list, mergeable)?,
        Merges::Ranked(ids) => builder.visit_ranked(ids, mergeable)?,
    }
    builder.splits.sort_unstable_by_key(|split| split.rank);
    Ok(builder.splits)
}

impl<'a> Builder<'a> {
    fn visit_list(&mut self, list: &'a MergeList, mergeable: &[bool]) -> Result<()> {
        self.rules.list = list.pairs();
        let known = list.products();
        for (rank, (left, right)) in list.pairs().iter().enumerate() {
            let product = match known {
                Some(products) => Some(products[rank]),
                None => self.rules.product(*left, *right),
            };
            let Some(product) = product.filter(|id| mergeable[*id as usize]) else {
                return Err(self.no_product(rank, *left, *right));
            };
            if known.is_some() || self.rules.rank((*left, *right)) == Some(rank as u32) {
                self.visit(rank as u32, product, Some((*left, *right)))?;
            }
        }
        Ok(())
    }

    fn visit_ranked(&mut self, ids: &[u32], mergeable: &[bool]) -> Result<()> {
        self.rules.priority = vec![NONE; self.vocabulary.id_limit()];
        for (rank, id) in ids.iter().enumerate() {
            if !mergeable.get(*id as usize).copied().unwrap_or(false) {
                return Err(Error::Tokenizer(format!(
                    "rank {rank} names token id {id}, which the vocabulary does not have"
                )));
            }
            self.rules.priority[*id as usize] = rank as u32;
        }
        for (rank, id) in ids.iter().enumerate() {
            self.visit(rank as u32, *id, None)?;
        }
        Ok(())
    }

    fn no_product(&self, rank: usize, left: u32, right: u32) -> Error {
        let name = |id| match self.vocabulary.bytes_of(id) {
            Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            None => format!("id {id}"),
        };
        Error::Tokenizer(format!(
            "merge {rank} joins {} and {}, but the vocabulary has no token for the result",
            name(left),
            name(right)
        ))
    }

    /// Settles the split of `product` if it is not known yet, and adds it to the table once its own rank is reached.
    fn visit(&mut self, rank: u32, product: u32, pair: Option<(u32, u32)>) -> Result<()> {
        let settled = self.base[product as usize] != NONE || self.ranks[product as usize] != NONE;
        if !settled {
            match pair.filter(|(left, right)| self.is_split(rank, *left, *right)) {
                Some((left, right)) => self.add(rank, Split { rank, left, right, product }),
                None => self.settle(rank, product)?,
            }
        }
        if !self.delayed.is_empty() {
            if let Some(split) = self.delayed.remove(&rank) {
                self.table(split);
            }
        }
        Ok(())
    }

    /// Returns whether two tokens that are already made stay apart until `rank`; `false` only means that a closer look is
    /// needed.
    fn is_split(&self, rank: u32, left: u32, right: u32) -> bool {
        let is_made = |id: u32| self.base[id as usize] != NONE || self.ranks[id as usize] < rank;
        let base = self.base_ids.len() as u32;
        let halves = |symbol: u32| match symbol.checked_sub(base) {
            Some(rank) => self.halves[rank as usize],
            None => (NONE, NONE),
        };
        self.rises
            && is_made(left)
            && is_made(right)
            && stay_apart(&self.table, halves, self.symbol_of(left), self.symbol_of(right))
    }

    fn settle(&mut self, rank: u32, product: u32) -> Result<()> {
        let token = self.vocabulary.bytes_of(product).unwrap_or_default();
        self.scratch.symbols.clear();
        if !self.symbols.of_token(token, &mut self.scratch.symbols) {
            self.ranks[product as usize] = UNREACHABLE;
            return Ok(());
        }
        self.scratch.merge(&self.table);
        if let [left, right] = self.scratch.symbols[..] {
            let (left, right) = (self.id_of(left), self.id_of(right));
            match self.rule(left, right, product) {
                Some((own, made)) if made == product => {
                    self.add(rank, Split { rank: own, left, right, product });
                }
                _ => self.ranks[product as usize] = UNREACHABLE,
            }
            return Ok(());
        }
        self.replay(rank, product, token)
    }

    /// Rank and product of two tokens that together spell `product`.
    fn rule(&self, left: u32, right: u32, product: u32) -> Option<(u32, u32)> {
        if self.rules.priority.is_empty() || !self.vocabulary.is_unique() {
            return self.rules.get(left, right);
        }
        let rank = self.rules.priority[product as usize];
        (rank != NONE).then_some((rank, product))
    }

    /// Replays all merges of a token, looking them up one by one.
    fn replay(&mut self, rank: u32, product: u32, token: &[u8]) -> Result<()> {
        let mut first = Vec::new();
        self.symbols.of_token(token, &mut first);
        let ids = first.iter().map(|symbol| self.base_ids[*symbol as usize]).collect();
        let steps = self.rules.replay(ids)?;
        match steps.last() {
            Some(last) if last.product == product => {
                for step in steps {
                    if self.ranks[step.product as usize] == NONE {
                        self.add(rank, step);
                    }
                }
            }
            _ => self.ranks[product as usize] = UNREACHABLE,
        }
        Ok(())
    }

    fn id_of(&self, symbol: u32) -> u32 {
        let base = self.base_ids.len() as u32;
        if symbol < base {
            self.base_ids[symbol as usize]
        } else {
            self.products[(symbol - base) as usize]
        }
    }

    fn symbol_of(&self, id: u32) -> u32 {
        match self.base[id as usize] {
            NONE => self.base_ids.len() as u32 + self.ranks[id as usize],
            symbol => symbol,
        }
    }

    fn add(&mut self, now: u32, split: Split) {
        self.ranks[split.product as usize] = split.rank;
        self.products[split.rank as usize] = split.product;
        self.splits.push(split);
        if split.rank > now {
            self.delayed.insert(split.rank, split);
        } else {
            self.table(split);
        }
    }

    fn table(&mut self, split: Split) {
        let (left, right) = (self.symbol_of(split.left), self.symbol_of(split.right));
        let product = self.symbol_of(split.product);
        self.rises &= left < product && right < product;
        self.halves[split.rank as usize] = (left, right);
        self.table.insert(left, right, product);
    }
}

/// Returns whether merging the bytes of two tokens gives these two tokens again; `split` gives the parts of a product.
///
/// Merges are undone, last one first. At each step two parts meet at the boundary. If they had a product that ranks
/// before the merge undone last, they would have merged first.
pub(super) fn stay_apart(
    pairs: &PairTable,
    split: impl Fn(u32) -> (u32, u32),
    mut left: u32,
    mut right: u32,
) -> bool {
    let mut undone = NONE;
    loop {
        if pairs.get(left, right) < undone {
            return false;
        }
        if left > right {
            undone = left;
            left = split(left).1;
            if left == NONE {
                return true;
            }
        } else {
            // Of two equal products the left one is made first, so a tie at the boundary also comes first.
            undone = right + 1;
            right = split(right).0;
            if right == NONE {
                return true;
            }
        }
    }
}
