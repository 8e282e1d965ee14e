//! Delimited rows (RFC 4180 with any one-byte delimiter): quoted fields may hold delimiters and
//! newlines, a doubled quote is a quote.

use super::batch::{Batch, Column, Kind, Policy, Reason};
use super::text::{count_repairs, find_fault};

/// A part of the text: literal characters, or the field with this number.
#[derive(Clone, Debug)]
pub enum CsvPart {
    /// Literal text.
    Literal(Vec<u8>),
    /// The number of a field.
    Field(usize),
}

/// What to read from each row.
#[derive(Clone, Debug)]
pub struct CsvSpec {
    /// The byte between fields.
    pub delimiter: u8,
    /// How many fields each row must have.
    pub width: usize,
    /// What the text is made of.
    pub text: Vec<CsvPart>,
    /// Numbers of the fields that become columns.
    pub columns: Vec<usize>,
    /// Rows of more bytes are refused.
    pub limit: usize,
    /// What happens to bytes that are not UTF-8.
    pub policy: Policy,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    start: usize,
    end: usize,
    quoted: bool,
    doubled: bool,
}

enum RowEnd {
    /// The row ends before this offset, where the next one starts.
    Ends(usize),
    /// A fault at the first offset; the next row starts at the second.
    Broken(usize, usize),
    /// The block ends first.
    Unfinished,
}

/// Reads the whole rows of `block`; returns them and how many bytes they took. `last` says that
/// nothing follows, so that the last row needs no newline.
pub fn read_rows(block: &[u8], spec: &CsvSpec, last: bool) -> (Batch, usize) {
    let mut batch = Batch::with_capacity(spec.columns.len(), block.len());
    let mut fields = Vec::with_capacity(spec.width);
    let valid = simdutf8::basic::from_utf8(block).is_ok();
    let mut start = 0;
    while start < block.len() {
        fields.clear();
        let (end, broken) = match scan_row(block, start, spec.delimiter, last, &mut fields) {
            RowEnd::Unfinished => break,
            RowEnd::Ends(end) => (end, None),
            RowEnd::Broken(at, end) => (end, Some(at)),
        };
        let bytes = &block[start..end];
        let number = batch.rows_read;
        batch.rows_read += 1;
        if broken.is_some() || !is_blank(&fields) {
            let outcome = match broken {
                Some(at) => Err((Reason::BrokenQuote, at - start)),
                None => extract(&mut batch, block, start, bytes.len(), &fields, spec, valid),
            };
            match outcome {
                Ok(()) => batch.finish(number, start),
                Err((reason, at)) => {
                    batch.roll_back();
                    batch.refuse(reason, number, start, bytes, at);
                }
            }
        }
        start = end;
    }
    (batch, start)
}

fn is_blank(fields: &[Field]) -> bool {
    matches!(fields, [only] if !only.quoted && only.start == only.end)
}

fn scan_row(
    block: &[u8],
    start: usize,
    delimiter: u8,
    last: bool,
    fields: &mut Vec<Field>,
) -> RowEnd {
    let mut at = start;
    loop {
        let field = match block.get(at) {
            Some(b'"') => match quoted(block, at + 1) {
                Some(field) => field,
                None if last => return RowEnd::Broken(at, block.len()),
                None => return RowEnd::Unfinished,
            },
            _ => plain(block, at, delimiter),
        };
        let behind = field.end + usize::from(field.quoted);
        fields.push(field);
        match (block.get(behind), block.get(behind + 1)) {
            (Some(&byte), _) if byte == delimiter => at = behind + 1,
            (Some(b'\n'), _) => return RowEnd::Ends(behind + 1),
            (Some(b'\r'), Some(b'\n')) => return RowEnd::Ends(behind + 2),
            (Some(b'\r'), None) if last => return RowEnd::Ends(behind + 1),
            (None, _) if last => return RowEnd::Ends(behind),
            (None | Some(b'\r'), None) => return RowEnd::Unfinished,
            _ => return past_line(block, behind, last),
        }
    }
}

/// A plain field only ends at a delimiter or a line end, so this is text after a closing quote: the rest
/// of the line belongs to the broken row.
fn past_line(block: &[u8], at: usize, last: bool) -> RowEnd {
    match memchr::memchr(b'\n', &block[at..]) {
        Some(newline) => RowEnd::Broken(at, at + newline + 1),
        None if last => RowEnd::Broken(at, block.len()),
        None => RowEnd::Unfinished,
    }
}

fn plain(block: &[u8], start: usize, delimiter: u8) -> Field {
    let found = memchr::memchr2(delimiter, b'\n', &block[start..]);
    let mut end = found.map_or(block.len(), |at| start + at);
    let at_line_end = block.get(end).is_none_or(|&byte| byte == b'\n');
    if at_line_end && end > start && block[end - 1] == b'\r' {
        end -= 1;
    }
    Field { start, end, quoted: false, doubled: false }
}

fn quoted(block: &[u8], start: usize) -> Option<Field> {
    let mut doubled = false;
    let mut at = start;
    loop {
        at += memchr::memchr(b'"', &block[at..])?;
        if block.get(at + 1) == Some(&b'"') {
            doubled = true;
            at += 2;
            continue;
        }
        return Some(Field { start, end: at, quoted: true, doubled });
    }
}

fn extract(
    batch: &mut Batch,
    block: &[u8],
    start: usize,
    length: usize,
    fields: &[Field],
    spec: &CsvSpec,
    valid: bool,
) -> Result<(), (Reason, usize)> {
    if length > spec.limit {
        return Err((Reason::OverLong, 0));
    }
    if fields.len() != spec.width {
        return Err((Reason::FieldCount, 0));
    }
    let mut repairs = 0;
    let mut append = |field: Field, out: &mut Vec<u8>| {
        let mut bytes = &block[field.start..field.end];
        let repaired;
        if let Some(at) = find_fault(bytes, valid) {
            if spec.policy == Policy::Refuse {
                return Err((Reason::InvalidUtf8, field.start - start + at));
            }
            repairs += count_repairs(bytes);
            repaired = String::from_utf8_lossy(bytes);
            bytes = repaired.as_bytes();
        }
        push(bytes, field.doubled, out);
        Ok(())
    };
    for part in &spec.text {
        match part {
            CsvPart::Literal(bytes) => batch.texts.bytes.extend_from_slice(bytes),
            CsvPart::Field(number) => append(fields[*number], &mut batch.texts.bytes)?,
        }
    }
    for (column, &number) in batch.columns.iter_mut().zip(&spec.columns) {
        append(fields[number], &mut column.values.bytes)?;
        finish_column(column, fields[number]);
    }
    batch.replaced[Reason::InvalidUtf8 as usize] += repairs;
    Ok(())
}

/// An empty field without quotes is null; `""` is an empty string.
fn finish_column(column: &mut Column, field: Field) {
    let missing = !field.quoted && field.start == field.end;
    let kind = if missing { Kind::Null } else { Kind::String };
    column.kinds.push(kind as u8);
    column.values.finish();
}

fn push(mut bytes: &[u8], doubled: bool, out: &mut Vec<u8>) {
    if doubled {
        while let Some(at) = memchr::memchr(b'"', bytes) {
            out.extend_from_slice(&bytes[..=at]);
            bytes = &bytes[at + 2..];
        }
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reason::{BrokenQuote, FieldCount};

    fn spec(columns: Vec<usize>) -> CsvSpec {
        CsvSpec {
            delimiter: b',',
            width: 2,
            text: vec![CsvPart::Field(1)],
            columns,
            limit: 100,
            policy: Policy::Refuse,
        }
    }

    fn texts(batch: &Batch) -> String {
        String::from_utf8_lossy(&batch.texts.bytes).into_owned()
    }

    #[test]
    fn quotes_hide_delimiters_newlines_and_quotes() {
        let data = b"1,\"a,\n\"\"b\"\"\"\r\n\n,c\r\n2,d";
        let (batch, used) = read_rows(data, &spec(vec![0]), true);
        assert_eq!(texts(&batch), "a,\n\"b\"cd");
        assert_eq!(used, data.len());
        assert_eq!(batch.rows, [0, 2, 3]);
        assert_eq!(batch.columns[0].kinds, [4, 0, 4]);
    }

    #[test]
    fn a_bad_row_is_refused_alone() {
        let (batch, _) = read_rows(b"1,a\n1,2,3\n1,\"b\"x\n1,c\n1,\"d", &spec(vec![]), true);
        assert_eq!(texts(&batch), "ac");
        let reasons: Vec<_> = batch.rejects.iter().map(|reject| reject.reason).collect();
        assert_eq!(reasons, [FieldCount, BrokenQuote, BrokenQuote]);
    }

    #[test]
    fn a_quote_that_never_ends_behind_an_empty_field_is_no_blank_row() {
        let (batch, used) = read_rows(b"1,a\n,\"lost\n", &spec(vec![]), true);
        let reasons: Vec<_> = batch.rejects.iter().map(|reject| reject.reason).collect();
        assert_eq!((reasons, used), (vec![BrokenQuote], 11));
    }

    #[test]
    fn any_cut_gives_the_same_rows() {
        let data = b"1,\"a\r\n\"\r\n2,b\r\n3,\"c\"\"\"\n4,\r\n5,e";
        let whole = texts(&read_rows(data, &spec(vec![]), true).0);
        for cut in 0..data.len() {
            let (first, used) = read_rows(&data[..cut], &spec(vec![]), false);
            let (second, _) = read_rows(&data[used..], &spec(vec![]), true);
            assert_eq!(texts(&first) + &texts(&second), whole, "cut at {cut}");
        }
    }
}
