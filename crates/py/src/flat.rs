//! Flat arrays that cross by Python's buffer protocol: `NumPy` reads them as its own, and callers that do not use
//! `NumPy` need not import it, which takes longer than the core takes for a small job.

use std::ffi::{c_int, CStr};

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A flat array that Python owns, a `NumPy` array or a memoryview, for as long as this is held.
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub struct Borrowed<T: Element>(PyBuffer<T>);

impl<T: Element> Borrowed<T> {
    /// Its items.
    pub fn as_slice(&self) -> PyResult<&[T]> {
        let Some(items) = self.0.as_slice_ptr() else {
            return Err(PyValueError::new_err("the array must be contiguous"));
        };
        if self.0.item_count() == 0 {
            return Ok(&[]);
        }
        // SAFETY: the buffer is contiguous, of this type and aligned (`PyBuffer` has checked), and stays where it
        // is while it is held. Our Python side, the only caller, writes to no array that a call is reading. Users'
        // arrays are Arrow's, whose memory is not changed by contract (pyarrow calls even fresh buffers mutable, so
        // a copy of what could be written to would be a copy of everything); docs/tokenizer.md documents it.
        Ok(unsafe { items.as_ref() })
    }
}

/// Memory of the core that Python keeps alive.
enum Items {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
}

/// Types that a view can have.
pub trait Item: Sized {
    fn into_array(items: Vec<Self>) -> OwnedArray;
}

/// An array for Python; its shape is stored with it, since a view points to both.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct OwnedArray {
    items: Items,
    shape: [isize; 1],
    strides: [isize; 1],
}

impl OwnedArray {
    fn new(items: Items, count: usize, width: usize) -> Self {
        Self { items, shape: [count as isize], strides: [width as isize] }
    }

    fn start(&self) -> (*const u8, &'static CStr) {
        match &self.items {
            Items::U8(items) => (items.as_ptr(), c"B"),
            Items::U16(items) => (items.as_ptr().cast(), c"H"),
            Items::U32(items) => (items.as_ptr().cast(), c"I"),
            Items::I64(items) => (items.as_ptr().cast(), c"q"),
            Items::U64(items) => (items.as_ptr().cast(), c"Q"),
        }
    }
}

macro_rules! item {
    ($type:ty, $variant:ident) => {
        impl Item for $type {
            fn into_array(items: Vec<Self>) -> OwnedArray {
                let count = items.len();
                OwnedArray::new(Items::$variant(items), count, size_of::<Self>())
            }
        }
    };
}

item!(u8, U8);
item!(u16, U16);
item!(u32, U32);
item!(i64, I64);
item!(u64, U64);

#[pymethods]
impl OwnedArray {
    /// # Safety
    /// Only Python calls it, with a `view` to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("arrays of the core are read-only"));
        }
        let array = slf.get();
        let (start, format) = array.start();
        // SAFETY: `view` is Python's to fill. What it points to belongs to `slf`, which is frozen and which the
        // view keeps alive; nothing writes through it, since it is read-only.
        unsafe {
            (*view).buf = start.cast_mut().cast();
            (*view).len = array.shape[0] * array.strides[0];
            (*view).readonly = 1;
            (*view).itemsize = array.strides[0];
            (*view).format = format.as_ptr().cast_mut();
            (*view).ndim = 1;
            (*view).shape = array.shape.as_ptr().cast_mut();
            (*view).strides = array.strides.as_ptr().cast_mut();
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}

/// Return a memoryview that owns the items.
pub fn view<T: Item>(py: Python<'_>, items: Vec<T>) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(&Bound::new(py, T::into_array(items))?.into_any())
}
