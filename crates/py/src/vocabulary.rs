//! Vocabularies as Python sees them: sequences that make an object only when asked for one.
#![allow(clippy::needless_pass_by_value)] // PyO3 extracts its arguments by value

use std::fmt::Write;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PySlice, PyString, PyTuple, PyType};
use tokenmill_core::bpe::{MergeList as CoreMerges, Tokens as CoreTokens};
use tokenmill_core::{files, spelling, Error};

use crate::error::{run_short, to_py};

const NONE: u32 = u32::MAX;

/// The bytes of every token, by id; `None` in the holes.
#[pyclass(frozen, sequence, module = "tokenmill._core")]
pub struct Tokens {
    tokens: CoreTokens,
    /// Place of each id.
    places: Vec<u32>,
}

impl Tokens {
    pub fn new(tokens: CoreTokens) -> PyResult<Self> {
        Self::checked(tokens, "the vocabulary")
    }

    fn checked(tokens: CoreTokens, source: &str) -> PyResult<Self> {
        let places = files::check_unique_ids(&tokens, source).map_err(|error| to_py(&error))?;
        Ok(Self { tokens, places })
    }

    /// Return the tokens themselves.
    pub fn core(&self) -> &CoreTokens {
        &self.tokens
    }

    fn get(&self, id: usize) -> Option<&[u8]> {
        let place = *self.places.get(id)?;
        (place != NONE).then(|| self.tokens.at(place as usize))
    }
}

#[pymethods]
impl Tokens {
    /// From `(token, id)` pairs; errors name `source` (two tokens with one id, an id that is out of range).
    #[new]
    fn from_pairs(pairs: Vec<(PyBackedBytes, i128)>, source: &str) -> PyResult<Self> {
        let tokens = files::check_pairs(pairs, source).map_err(|error| to_py(&error))?;
        Self::checked(tokens, source)
    }

    fn __len__(&self) -> usize {
        self.places.len()
    }

    /// Return how many ids have a token.
    #[getter]
    fn count(&self) -> usize {
        self.tokens.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        item(py, index, self.places.len(), |py, id| {
            let bytes = self.get(id).map(|token| PyBytes::new(py, token));
            Ok(bytes.into_pyobject(py)?)
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let lengths = words_to_bytes(self.tokens.lengths());
        let ids = words_to_bytes(self.tokens.ids().iter().copied());
        let parts = [self.tokens.bytes(), &lengths, &ids].map(|part| PyBytes::new(py, part));
        let make = PyType::new::<Self>(py).getattr("from_flat")?;
        (make, PyTuple::new(py, parts)?).into_pyobject(py)
    }

    /// Return what `__reduce__` took apart: the bytes of all tokens, their lengths and their ids.
    #[staticmethod]
    fn from_flat(bytes: &[u8], lengths: &[u8], ids: &[u8]) -> PyResult<Self> {
        let mut tokens = CoreTokens::with_room(ids.len() / 4, bytes.len());
        let mut start = 0;
        for (length, id) in words(lengths).zip(words(ids)) {
            let end = start + length as usize;
            let token = bytes.get(start..end).ok_or_else(damaged)?;
            tokens.push(token, id);
            start = end;
        }
        if start != bytes.len() {
            return Err(damaged());
        }
        Self::new(tokens)
    }

    /// These tokens after `first`, with their ids raised by as many.
    fn prepend(&self, first: Vec<Vec<u8>>) -> PyResult<Self> {
        let shift = first.len() as u32;
        let room = first.len() + self.tokens.len();
        let mut tokens = CoreTokens::with_room(room, self.tokens.bytes().len());
        for (token, id) in first.into_iter().zip(0..) {
            tokens.push(&token, id);
        }
        for (token, id) in self.tokens.iter() {
            tokens.push(token, id + shift);
        }
        Self::new(tokens)
    }

    /// Return every split of the tokens in `order`, which are ids by rank, into two tokens that can be merged.
    fn splits(&self, py: Python<'_>, order: Vec<u32>, characters: bool) -> PyResult<Merges> {
        run_short(py, || {
            let splits = files::all_splits(&self.tokens, &order, characters);
            Ok(Merges::new(splits.into()))
        })
    }

    /// Return what a fingerprint hashes: length and bytes of every token, one byte 255 for every hole.
    fn digest_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Vec::with_capacity(self.tokens.bytes().len() + 4 * self.places.len());
        for id in 0..self.places.len() {
            if let Some(token) = self.get(id) {
                out.extend_from_slice(&(token.len() as u32).to_le_bytes());
                out.extend_from_slice(token);
            } else {
                out.push(0xFF);
            }
        }
        PyBytes::new(py, &out)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.places.len() == other.places.len()
            && (0..self.places.len()).all(|id| self.get(id) == other.get(id))
    }
}

/// Pairs of token ids in the order of their ranks.
#[pyclass(frozen, sequence, module = "tokenmill._core")]
pub struct Merges {
    list: CoreMerges,
}

impl Merges {
    pub fn new(list: CoreMerges) -> Self {
        Self { list }
    }

    /// Return the list itself.
    pub fn core(&self) -> &CoreMerges {
        &self.list
    }
}

#[pymethods]
impl Merges {
    /// From pairs whose products are not known.
    #[new]
    fn from_pairs(pairs: Vec<(u32, u32)>) -> Self {
        Self::new(pairs.into())
    }

    fn __len__(&self) -> usize {
        self.list.pairs().len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pairs = self.list.pairs();
        item(py, index, pairs.len(), |py, rank| Ok(pairs[rank].into_pyobject(py)?.into_any()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let pairs = self.list.pairs().iter();
        let pairs = words_to_bytes(pairs.flat_map(|(left, right)| [*left, *right]));
        let products = words_to_bytes(self.list.products().unwrap_or_default().iter().copied());
        let make = PyType::new::<Self>(py).getattr("from_flat")?;
        (make, (PyBytes::new(py, &pairs), PyBytes::new(py, &products))).into_pyobject(py)
    }

    /// Return what `__reduce__` took apart.
    #[staticmethod]
    fn from_flat(pairs: &[u8], products: &[u8]) -> Self {
        let flat: Vec<u32> = words(pairs).collect();
        let pairs: Vec<(u32, u32)> = flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let checked = CoreMerges::checked(pairs, words(products).collect());
        Self::new(checked.unwrap_or_else(|(pairs, _)| pairs.into()))
    }

    /// These merges with every id raised by `by`.
    fn shift_ids(&self, by: u32) -> Self {
        let pairs = self.list.pairs().iter();
        let pairs: Vec<(u32, u32)> = pairs.map(|(a, b)| (a + by, b + by)).collect();
        let products = self.list.products().unwrap_or_default();
        let products = products.iter().map(|id| id + by).collect();
        let list = CoreMerges::checked(pairs, products);
        Self::new(list.unwrap_or_else(|(pairs, _)| pairs.into()))
    }

    /// `[[left,right],…]`, as a fingerprint hashes it.
    fn json(&self) -> String {
        let mut out = String::with_capacity(14 * self.list.pairs().len() + 2);
        for (left, right) in self.list.pairs() {
            out.push(if out.is_empty() { '[' } else { ',' });
            // Writing to a string cannot fail.
            let _ = write!(out, "[{left},{right}]");
        }
        out.push_str(if out.is_empty() { "[]" } else { "]" });
        out
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.list.pairs() == other.list.pairs()
    }
}

/// The vocabulary of a `tokenizer.json` or `vocab.json`: token -> id, as the file spells tokens.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct Spellings {
    inner: files::Spellings,
}

type Outside<'py> = Vec<(u32, Bound<'py, PyBytes>)>;

#[pymethods]
impl Spellings {
    /// From the text of a `vocab.json`.
    #[new]
    fn read(py: Python<'_>, data: &[u8], source: &str) -> PyResult<Self> {
        let inner = run_short(py, || files::Spellings::read(data, source))?;
        Ok(Self { inner })
    }

    /// Return the merges in the text of a `merges.txt`.
    fn read_merges(&self, py: Python<'_>, data: &[u8], source: &str) -> PyResult<Merges> {
        let list = run_short(py, || files::read_merges(data, &self.inner, source))?;
        Ok(Merges::new(list))
    }

    fn __len__(&self) -> usize {
        self.inner.tokens().len()
    }

    /// Return the id of a token, or None.
    fn get(&self, spelling: &Bound<'_, PyString>) -> Option<u32> {
        // A string with lone surrogates is not a token.
        self.inner.id_of(spelling.to_cow().ok()?.as_bytes())
    }

    /// Return the tokens as UTF-8.
    fn as_text(&self) -> PyResult<Tokens> {
        Tokens::new(self.inner.tokens().clone())
    }

    /// Return the tokens as the bytes that they spell, and `(id, UTF-8)` of those outside the byte alphabet.
    fn as_bytes<'py>(&self, py: Python<'py>) -> PyResult<(Tokens, Outside<'py>)> {
        let (tokens, outside) = self.inner.as_bytes();
        let outside = outside.iter().map(|(token, id)| (id, PyBytes::new(py, token)));
        Ok((Tokens::new(tokens)?, outside.collect()))
    }
}

/// Return the tokens of a `.tiktoken` file, whose ids are their ranks.
#[pyfunction]
pub fn read_tiktoken(py: Python<'_>, data: &[u8], source: &str) -> PyResult<Tokens> {
    Tokens::new(run_short(py, || files::read_tiktoken(data, source))?)
}

type HfFile<'py> = (Bound<'py, PyBytes>, Option<(Spellings, Merges)>);

/// Reads the outline of a `tokenizer.json`, and the vocabulary and the merges of a BPE.
#[pyfunction]
pub fn read_hf<'py>(py: Python<'py>, data: &[u8], source: &str) -> PyResult<HfFile<'py>> {
    let file = run_short(py, || files::read_hf(data, source))?;
    let outline = PyBytes::new(py, &file.outline);
    let bpe = file.bpe.map(|(inner, list)| (Spellings { inner }, Merges::new(list)));
    Ok((outline, bpe))
}

/// `b" hi"` -> `"Ġhi"`: bytes in GPT-2's printable alphabet.
#[pyfunction]
pub fn spell(token: &[u8]) -> String {
    token.iter().map(|byte| spelling::char_of(*byte)).collect()
}

/// `"Ġhi"` -> `b" hi"`; None where a character is outside the alphabet.
#[pyfunction]
pub fn unspell<'py>(spelled: &Bound<'py, PyString>) -> Option<Bound<'py, PyBytes>> {
    let mut bytes = Vec::new();
    // A lone surrogate is outside too.
    spelling::decode(spelled.to_cow().ok()?.as_bytes(), &mut bytes)
        .then(|| PyBytes::new(spelled.py(), &bytes))
}

/// Return one item, or the list of a slice.
fn item<'py>(
    py: Python<'py>,
    index: &Bound<'py, PyAny>,
    length: usize,
    make: impl Fn(Python<'py>, usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(slice) = index.cast::<PySlice>() {
        let slice = slice.indices(length as isize)?;
        let at = (0..slice.slicelength).map(|step| slice.start + step as isize * slice.step);
        let items = at.map(|at| make(py, at as usize));
        let items = items.collect::<PyResult<Vec<_>>>()?;
        return Ok(PyList::new(py, items)?.into_any());
    }
    let at = index.extract::<isize>()?;
    let at = if at < 0 { at + length as isize } else { at };
    match usize::try_from(at) {
        Ok(at) if at < length => make(py, at),
        _ => Err(PyIndexError::new_err(format!(
            "index {at} is out of range: there are {length} items"
        ))),
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn words_to_bytes(words: impl Iterator<Item = u32>) -> Vec<u8> {
    words.flat_map(u32::to_le_bytes).collect()
}

fn damaged() -> PyErr {
    to_py(&Error::Tokenizer("a pickled vocabulary is damaged: its lengths do not add up".into()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Tokens>()?;
    module.add_class::<Merges>()?;
    module.add_class::<Spellings>()?;
    module.add_function(wrap_pyfunction!(read_tiktoken, module)?)?;
    module.add_function(wrap_pyfunction!(read_hf, module)?)?;
    module.add_function(wrap_pyfunction!(spell, module)?)?;
    module.add_function(wrap_pyfunction!(unspell, module)?)?;
    module.add("LARGEST_ID", files::LARGEST_ID)?;
    Ok(())
}
