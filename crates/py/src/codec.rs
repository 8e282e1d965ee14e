//! `_core.Codec`: a whole tokenizer, built from a recipe.
#![allow(clippy::needless_pass_by_value)] // PyO3 extracts its arguments by value

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};
use tokenmill_core::bpe::Merges as CoreMerges;
use tokenmill_core::codec::{Codec as CoreCodec, Document, Encoded, Ids, Options, Special};
use tokenmill_core::recipe;
use tokenmill_core::{Error, Stop};

use crate::decode::{self, IdArray};
use crate::documents::{self, Chunk};
use crate::error::{catch_panic, run_long, run_short, to_py};
use crate::flat::{view, Borrowed};
use crate::lists;
use crate::vocabulary::{Merges, Tokens};

/// Below this a call is short enough to need no thread that watches for Ctrl-C.
const SHORT_BYTES: usize = 256 << 10;

type Flat<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>);
type Views<'py> = (Bound<'py, PyMemoryView>, Bound<'py, PyMemoryView>);

/// A tokenizer: immutable, safe to share between threads.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct Codec {
    // Boxed: Python aligns its objects to 16 bytes, and the core holds vectors that need 32.
    inner: Box<CoreCodec>,
    family: &'static str,
}

/// The order of the merges: pairs of ids, or ids by rank.
#[derive(FromPyObject)]
enum Order<'py> {
    Merges(PyRef<'py, Merges>),
    Ids(Vec<u32>),
}

fn special_from(name: &str) -> PyResult<Special> {
    match name {
        "parse" => Ok(Special::Parse),
        "text" => Ok(Special::Text),
        "forbid" => Ok(Special::Forbid),
        _ => Err(to_py(&Error::Input(format!(
            "special={name:?}; expected \"parse\", \"text\" or \"forbid\""
        )))),
    }
}

#[pymethods]
impl Codec {
    #[new]
    fn new(
        py: Python<'_>,
        recipe: &str,
        tokens: PyRef<'_, Tokens>,
        order: Option<Order<'_>>,
    ) -> PyResult<Self> {
        let order = order.map(|order| match order {
            Order::Merges(merges) => CoreMerges::List(merges.core().clone()),
            Order::Ids(ids) => CoreMerges::Ranked(ids),
        });
        let tokens = tokens.core();
        run_short(py, || {
            let (inner, family) = recipe::build(recipe, tokens, order)?;
            Ok(Self { inner: Box::new(inner), family })
        })
    }

    /// The family of the pattern, or "chain" for any other.
    #[getter]
    fn family(&self) -> &'static str {
        self.family
    }

    /// What finds the pieces: "blocks", "automaton" or "regex"; "words" without a pattern.
    #[getter]
    fn scanner(&self) -> &'static str {
        self.inner.scanner()
    }

    /// Whether the model sees the printable spelling of bytes, so that `decode` gives that.
    #[getter]
    fn spelled(&self) -> bool {
        self.inner.is_spelled()
    }

    /// The largest id plus one.
    #[getter]
    fn id_limit(&self) -> usize {
        self.inner.bpe().vocabulary().id_limit()
    }

    /// Whether a stream can be encoded in bounded memory.
    #[getter]
    fn can_cut(&self) -> bool {
        self.inner.can_cut()
    }

    /// The ids of one text.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyAny>,
        special: &str,
        template: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut buffer = String::new();
        let document = documents::document_of(text)?;
        let text = catch_panic(|| document.text(&mut buffer)).map_err(|error| to_py(&error))?;
        let (before, after) = self.inner.template();
        let mut ids = if text.len() < SHORT_BYTES {
            let special = special_from(special)?;
            run_short(py, || self.inner.encode(text, special, false))?
        } else {
            let options = options(special, false, 1)?;
            let batch = run_long(py, |stop: &Stop| {
                self.inner.encode_batch(&[Document::Utf8(text)], options, stop)
            })?;
            match batch.ids {
                Ids::U32(ids) => ids,
                Ids::U16(ids) => ids.into_iter().map(u32::from).collect(),
            }
        };
        if template {
            ids.splice(0..0, before.iter().copied());
            ids.extend_from_slice(after);
        }
        lists::to_list(py, &ids, self.id_limit())
    }

    /// The ids of a part of a UTF-8 text, as narrow as the vocabulary allows; `continued` marks a part after
    /// a cut.
    fn encode_part<'py>(
        &self,
        py: Python<'py>,
        data: Borrowed<u8>,
        special: &str,
        continued: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let special = special_from(special)?;
        let text = documents::utf8(data.as_slice()?).map_err(|error| to_py(&error))?;
        let ids = run_short(py, || self.inner.encode(text, special, continued))?;
        if self.id_limit() > 1 << 16 {
            return Ok(ids.into_pyarray(py).into_any());
        }
        let narrow: Vec<u16> = py.detach(|| ids.into_iter().map(|id| id as u16).collect());
        Ok(narrow.into_pyarray(py).into_any())
    }

    /// The last byte at which a text that begins with `data` can be cut; 0 if nowhere.
    fn last_cut(&self, py: Python<'_>, data: Borrowed<u8>) -> PyResult<usize> {
        let data = data.as_slice()?;
        run_short(py, || Ok(self.inner.last_cut(data).unwrap_or(0)))
    }

    /// The ids of a list of str or bytes: `(ids, offsets)`.
    fn encode_list<'py>(
        &self,
        py: Python<'py>,
        docs: &Bound<'py, PyList>,
        special: &str,
        template: bool,
        threads: usize,
    ) -> PyResult<Flat<'py>> {
        let kept = docs.to_tuple();
        let docs = documents::of_tuple(&kept)?;
        self.flat(py, &docs, special, template, threads)
    }

    /// The ids of Arrow chunks, each `(offsets or views, data buffers)`: `(ids, offsets)`.
    fn encode_chunks<'py>(
        &self,
        py: Python<'py>,
        chunks: Vec<Chunk>,
        special: &str,
        template: bool,
        threads: usize,
    ) -> PyResult<Flat<'py>> {
        let docs = documents::of_chunks(&chunks).map_err(|error| to_py(&error))?;
        self.flat(py, &docs, special, template, threads)
    }

    /// The ids of a list of str or bytes, one list for each.
    fn encode_lists<'py>(
        &self,
        py: Python<'py>,
        docs: &Bound<'py, PyList>,
        special: &str,
        template: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let kept = docs.to_tuple();
        let docs = documents::of_tuple(&kept)?;
        let options = options(special, template, threads)?;
        let batch = self.batch(py, &docs, options)?;
        match batch.ids {
            Ids::U16(ids) => lists::to_lists(py, &ids, &batch.offsets),
            Ids::U32(ids) => lists::to_lists(py, &ids, &batch.offsets),
        }
    }

    /// The ids of flat texts, each between the ids of `frame`, as views of the core's own memory.
    fn encode_framed<'py>(
        &self,
        py: Python<'py>,
        offsets: Borrowed<i64>,
        data: Borrowed<u8>,
        special: &str,
        frame: (Option<u32>, Option<u32>),
        threads: usize,
    ) -> PyResult<Views<'py>> {
        let limit = self.id_limit().max(1 << 16);
        if let Some(id) = [frame.0, frame.1].into_iter().flatten().find(|&id| id as usize >= limit)
        {
            return Err(to_py(&Error::Input(format!(
                "token id {id} cannot frame documents: the vocabulary has only ids below {limit}; choose one of those"
            ))));
        }
        let chunk = [Chunk::Wide(offsets, data)];
        let docs = documents::of_chunks(&chunk).map_err(|error| to_py(&error))?;
        let options = Options { frame, ..options(special, false, threads)? };
        let batch = self.batch(py, &docs, options)?;
        let ids = match batch.ids {
            Ids::U16(ids) => view(py, ids)?,
            Ids::U32(ids) => view(py, ids)?,
        };
        Ok((ids, view(py, batch.offsets)?))
    }

    /// How many ids each document of a list has.
    fn count_list<'py>(
        &self,
        py: Python<'py>,
        docs: &Bound<'py, PyList>,
        special: &str,
        template: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let kept = docs.to_tuple();
        let docs = documents::of_tuple(&kept)?;
        let options = options(special, template, threads)?;
        let counts = run_long(py, |stop| self.inner.count_batch(&docs, options, stop))?;
        Ok(counts.into_pyarray(py))
    }

    /// Ids, and for each the first and one past the last character: `(ids, starts, ends)`.
    fn offsets(
        &self,
        py: Python<'_>,
        text: &str,
        special: &str,
        template: bool,
    ) -> PyResult<Triple> {
        let special = special_from(special)?;
        run_long(py, |_| {
            // Every token and character has its places; they are allocated in small parts, so all is probed for first.
            let placed = self.inner.encode_placed(text, special, template)?;
            Ok((
                placed.iter().map(|token| token.id).collect(),
                placed.iter().map(|token| token.start).collect(),
                placed.iter().map(|token| token.end).collect(),
            ))
        })
    }

    /// The end of every piece, in bytes of the normalized text.
    fn piece_ends(&self, py: Python<'_>, text: &str, special: &str) -> PyResult<Vec<usize>> {
        let special = special_from(special)?;
        run_long(py, |_| self.inner.piece_ends(text, special))
    }

    /// The bytes that the ids stand for, one after the other.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        decode::bytes(py, self.inner.bpe(), ids)
    }

    /// One text for each document of a flat array; `errors` is that of `bytes.decode`.
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        offsets: Borrowed<i64>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        decode::texts(py, self.inner.bpe(), ids, offsets.as_slice()?, errors)
    }

    /// The bytes of one token, or None.
    fn token_bytes<'py>(&self, py: Python<'py>, token_id: u32) -> Option<Bound<'py, PyBytes>> {
        let bytes = self.inner.bpe().vocabulary().bytes_of(token_id)?;
        Some(PyBytes::new(py, bytes))
    }

    /// The id of a token's bytes, or None.
    fn id_of(&self, token: &[u8]) -> Option<u32> {
        self.inner.bpe().vocabulary().id_of(token)
    }
}

type Triple = (Vec<u32>, Vec<usize>, Vec<usize>);

/// How a batch is encoded if its documents get no frame.
fn options(special: &str, template: bool, threads: usize) -> PyResult<Options> {
    Ok(Options { special: special_from(special)?, template, frame: (None, None), threads })
}

impl Codec {
    fn flat<'py>(
        &self,
        py: Python<'py>,
        docs: &[Document],
        special: &str,
        template: bool,
        threads: usize,
    ) -> PyResult<Flat<'py>> {
        let options = options(special, template, threads)?;
        let batch = self.batch(py, docs, options)?;
        let ids = match batch.ids {
            Ids::U16(ids) => ids.into_pyarray(py).into_any(),
            Ids::U32(ids) => ids.into_pyarray(py).into_any(),
        };
        Ok((ids, batch.offsets.into_pyarray(py)))
    }

    fn batch(&self, py: Python<'_>, docs: &[Document], options: Options) -> PyResult<Encoded> {
        let bytes: usize = docs.iter().map(|doc| doc.bytes()).sum();
        if bytes < SHORT_BYTES {
            run_short(py, || self.inner.encode_batch(docs, options, &Stop::new()))
        } else {
            run_long(py, |stop| self.inner.encode_batch(docs, options, stop))
        }
    }
}

/// One Python list of ints for each document of a flat array.
#[pyfunction]
pub fn ids_to_lists<'py>(
    py: Python<'py>,
    ids: &Bound<'py, PyAny>,
    offsets: Borrowed<i64>,
) -> PyResult<Bound<'py, PyList>> {
    let offsets = offsets.as_slice()?;
    match IdArray::new(ids)? {
        IdArray::Wide(ids) => lists::to_lists(py, ids.as_slice()?, offsets),
        IdArray::Narrow(ids) => lists::to_lists(py, ids.as_slice()?, offsets),
        IdArray::Owned(ids) => lists::to_lists(py, &ids, offsets),
    }
}
