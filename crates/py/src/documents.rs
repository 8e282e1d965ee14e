//! Borrowed documents: Python strings and bytes, and Arrow buffers, without a copy.

use pyo3::buffer::Element;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use tokenmill_core::codec::Document;
use tokenmill_core::{Error, Result};

use crate::error::to_py;
use crate::flat::Borrowed;
use crate::strings::characters_of;

/// Return the text of one `str` or `bytes`, borrowed from it.
pub fn document_of<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<Document<'a>> {
    if let Ok(string) = text.cast::<PyString>() {
        return characters_of(string);
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        let text = utf8(bytes.as_bytes()).map_err(|error| to_py(&error))?;
        return Ok(Document::Utf8(text));
    }
    Err(PyTypeError::new_err(format!("expected str or bytes, found {}", text.get_type())))
}

/// Return the texts of a tuple of `str` and `bytes`, which keeps them alive.
pub fn of_tuple<'a>(docs: &'a Bound<'_, PyTuple>) -> PyResult<Vec<Document<'a>>> {
    let mut texts = Vec::with_capacity(docs.len());
    for (at, item) in docs.iter_borrowed().enumerate() {
        let text = document_of(&item).map_err(|error| in_document(docs.py(), &error, at))?;
        // SAFETY: the tuple is immutable and holds a reference to the item for 'a; the characters of a str and
        // the bytes of a bytes object neither move nor change while it lives.
        texts.push(unsafe { std::mem::transmute::<Document<'_>, Document<'a>>(text) });
    }
    Ok(texts)
}

fn in_document(py: Python<'_>, error: &PyErr, at: usize) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) {
        return PyTypeError::new_err(format!("document {at}: {}", error.value(py)));
    }
    to_py(&Error::Input(format!("document {at}: {}", error.value(py))))
}

/// Return the bytes as text, or an error that says where they stop being UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| {
        let offset = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        Error::Input(format!(
            "invalid UTF-8 at byte {offset} (0x{:02X}); decode it first, e.g. data.decode(errors=\"replace\")",
            bytes.get(offset).copied().unwrap_or(0)
        ))
    })
}

/// One Arrow chunk: offsets of 32 or 64 bits with one data buffer, or 16-byte views with any number.
#[derive(FromPyObject)]
pub enum Chunk {
    /// Arrow's `string` and `binary`.
    Narrow(Borrowed<i32>, Borrowed<u8>),
    /// `large_string`, `large_binary`.
    Wide(Borrowed<i64>, Borrowed<u8>),
    /// `string_view`, `binary_view`.
    Views(Borrowed<u8>, Vec<Borrowed<u8>>),
}

/// Return the texts of Arrow chunks, in order; every offset and every byte is checked.
pub fn of_chunks(chunks: &[Chunk]) -> Result<Vec<Document<'_>>> {
    let mut texts = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Narrow(offsets, data) => {
                let offsets = slice(offsets)?.iter().map(|&at| i64::from(at));
                of_offsets(offsets, slice(data)?, &mut texts)?;
            }
            Chunk::Wide(offsets, data) => {
                of_offsets(slice(offsets)?.iter().copied(), slice(data)?, &mut texts)?;
            }
            Chunk::Views(views, buffers) => {
                let buffers = buffers.iter().map(slice).collect::<Result<Vec<_>>>()?;
                for view in slice(views)?.chunks_exact(16) {
                    let text = of_view(view, &buffers, texts.len())?;
                    texts.push(utf8_document(text, texts.len())?);
                }
            }
        }
    }
    Ok(texts)
}

fn slice<T: Element>(array: &Borrowed<T>) -> Result<&[T]> {
    array.as_slice().map_err(|_| Error::Input("an Arrow buffer is not contiguous".into()))
}

fn utf8_document(bytes: &[u8], at: usize) -> Result<Document<'_>> {
    let text = utf8(bytes);
    text.map(Document::Utf8).map_err(|error| Error::Input(format!("document {at}: {error}")))
}

fn of_offsets<'a>(
    offsets: impl Iterator<Item = i64>,
    data: &'a [u8],
    texts: &mut Vec<Document<'a>>,
) -> Result<()> {
    let mut start = None;
    for end in offsets {
        if let Some(start) = start {
            let bytes = usize::try_from(start)
                .ok()
                .zip(usize::try_from(end).ok())
                .and_then(|(start, end)| data.get(start..end))
                .ok_or_else(|| broken(texts.len()))?;
            texts.push(utf8_document(bytes, texts.len())?);
        }
        start = Some(end);
    }
    Ok(())
}

/// A view holds up to 12 bytes itself, or names a buffer and an offset.
fn of_view<'a>(view: &'a [u8], buffers: &[&'a [u8]], at: usize) -> Result<&'a [u8]> {
    let word = |from: usize| -> usize {
        let bytes = [view[from], view[from + 1], view[from + 2], view[from + 3]];
        u32::from_le_bytes(bytes) as usize
    };
    let length = word(0);
    if length <= 12 {
        return Ok(&view[4..4 + length]);
    }
    let start = word(12);
    buffers
        .get(word(8))
        .and_then(|buffer| buffer.get(start..start + length))
        .ok_or_else(|| broken(at))
}

fn broken(at: usize) -> Error {
    Error::Input(format!(
        "document {at}: the offsets of the Arrow array point outside its data; the array is damaged"
    ))
}
