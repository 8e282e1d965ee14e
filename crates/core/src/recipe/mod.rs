//! A tokenizer as files say it: the steps around the model in the words of a `tokenizer.json`.

mod pre_tokenizer;

pub use pre_tokenizer::{plain_spec, pre_tokenizer_json, scan_spec};
