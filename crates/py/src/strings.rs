//! Reads the characters of a Python string in place, although the stable interface (abi3) gives no access to them.
//!
//! `CPython` 3.11 to 3.14 keep strings in one of three layouts, and one wheel serves them all: at the first string,
//! each layout is tried on strings whose characters are known. If none fits (a later Python), Python is asked for
//! UTF-8, which it makes and keeps inside the string, so the text is held twice.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use tokenmill_core::codec::Document;
use tokenmill_core::Error;

use crate::error::to_py;

const WORD: usize = size_of::<usize>();
/// Where the flags are: after the reference count, the type, the length and the hash.
const FLAGS: usize = 4 * WORD;

/// What differs between Pythons.
#[derive(Clone, Copy)]
struct Layout {
    /// How many bits of the flags come before the width; after it come one for compact and one for ASCII.
    width_at: u32,
    /// Bytes before the characters of a compact string that is not ASCII.
    head: usize,
}

/// `CPython` 3.11; 3.12 and 3.13; 3.14.
const KNOWN: [Layout; 3] = [
    Layout { width_at: 2, head: 9 * WORD },
    Layout { width_at: 2, head: 7 * WORD },
    Layout { width_at: 16, head: 7 * WORD },
];

/// Return the characters of a string in the width that it keeps them in, borrowed from it.
pub fn characters_of<'a>(string: &'a Bound<'_, PyString>) -> PyResult<Document<'a>> {
    static LAYOUT: PyOnceLock<Option<Layout>> = PyOnceLock::new();
    if let Some(layout) = LAYOUT.get_or_init(string.py(), || find_layout(string.py())) {
        // SAFETY: it is a string.
        let length = unsafe { ffi::PyUnicode_GetLength(string.as_ptr()) } as usize;
        // SAFETY: the string has this length, and the layout has been tried in this process.
        if let Some(document) = unsafe { layout.read(string, length) } {
            return Ok(document);
        }
    }
    in_utf8(string)
}

/// As UTF-8, which an ASCII string already is and which Python makes for any other.
fn in_utf8<'a>(string: &'a Bound<'_, PyString>) -> PyResult<Document<'a>> {
    string.to_str().map(Document::Utf8).map_err(|error| {
        to_py(&Error::Input(format!(
            "the text holds a lone surrogate, which UTF-8 cannot hold ({error}); replace it first, e.g. \
             text.encode(\"utf-16\", \"surrogatepass\").decode(\"utf-16\", \"replace\")"
        )))
    })
}

impl Layout {
    /// Return the first `length` characters; None for ASCII and for instances of subclasses, which lie elsewhere.
    ///
    /// # Safety
    /// The string has `length` characters and is kept in this layout; or it has so many more that they end
    /// within it in any layout of `KNOWN`.
    #[allow(clippy::cast_ptr_alignment)] // heads are whole words; objects are aligned for more than a character
    unsafe fn read<'a>(
        self,
        string: &'a Bound<'_, PyString>,
        length: usize,
    ) -> Option<Document<'a>> {
        let object = string.as_ptr().cast::<u8>().cast_const();
        // SAFETY: every string has a head of five words; the flags do not change while we hold the GIL.
        let flags = unsafe { object.add(FLAGS).cast::<u32>().read() } >> self.width_at;
        let (width, compact, ascii) = (flags & 0b111, flags & 0b1000 != 0, flags & 0b1_0000 != 0);
        if ascii || !compact {
            return None;
        }
        // SAFETY: the characters of a compact string follow its head. They neither move nor change while it
        // lives, and are aligned for their width.
        unsafe {
            let units = object.add(self.head);
            match width {
                1 => Some(Document::Ucs1(std::slice::from_raw_parts(units, length))),
                2 => Some(Document::Ucs2(std::slice::from_raw_parts(units.cast(), length))),
                4 => Some(Document::Ucs4(std::slice::from_raw_parts(units.cast(), length))),
                _ => None,
            }
        }
    }

    /// Return whether strings of all three widths are read as what they are.
    fn fits(self, py: Python<'_>) -> bool {
        ["é", "방앗간", "🌾磨"].into_iter().all(|word| {
            let half = word.repeat(64);
            let string = PyString::new(py, &half.repeat(2));
            // SAFETY: 64 characters and more follow those that are read; heads differ by two words.
            match unsafe { self.read(&string, half.chars().count()) } {
                Some(document) => {
                    document.text(&mut String::new()).is_ok_and(|found| found == half)
                }
                None => false,
            }
        })
    }
}

fn find_layout(py: Python<'_>) -> Option<Layout> {
    KNOWN.into_iter().find(|layout| layout.fits(py))
}
