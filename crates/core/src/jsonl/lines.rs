//! The line loop: a block of whole lines to a batch of documents.

use super::fields::{Fields, TemplatePart};
use super::parse::{parse, Fault, Value};
use super::strings::unescape;
use crate::records::{count_repairs, find_fault, Batch, Column, Kind, Policy, Reason};

/// Reads every line of `block`. A blank line is skipped; a bad one is refused alone.
pub fn read(block: &[u8], fields: &Fields) -> Batch {
    let mut batch = Batch::with_capacity(fields.column_count(), block.len());
    let mut values = vec![Value::MISSING; fields.paths.len()];
    let valid = simdutf8::basic::from_utf8(block).is_ok();
    let mut start = 0;
    while start < block.len() {
        let end = memchr::memchr(b'\n', &block[start..]).map_or(block.len(), |at| start + at);
        let row = batch.rows_read;
        batch.rows_read += 1;
        record(&mut batch, &mut values, fields, &block[start..end], valid, row, start);
        start = end + 1;
    }
    batch
}

/// Reads one record at `start` of its block (an element of a JSON array).
pub(super) fn read_record(batch: &mut Batch, fields: &Fields, bytes: &[u8], start: usize) {
    let mut values = vec![Value::MISSING; fields.paths.len()];
    let row = batch.rows_read;
    batch.rows_read += 1;
    record(batch, &mut values, fields, bytes, false, row, start);
}

fn record(
    batch: &mut Batch,
    values: &mut [Value],
    fields: &Fields,
    line: &[u8],
    valid: bool,
    row: i64,
    start: usize,
) {
    if line.trim_ascii().is_empty() {
        return;
    }
    let outcome = match find_fault(line, valid) {
        _ if line.len() > fields.limit => Err((Reason::OverLong, 0)),
        None => extract(batch, values, fields, line),
        Some(at) if fields.policy == Policy::Refuse => Err((Reason::InvalidUtf8, at)),
        Some(_) => {
            let repaired = String::from_utf8_lossy(line);
            let outcome = extract(batch, values, fields, repaired.as_bytes());
            if outcome.is_ok() {
                batch.replaced[Reason::InvalidUtf8 as usize] += count_repairs(line);
            }
            outcome
        }
    };
    match outcome {
        Ok(()) => batch.finish(row, start),
        Err((reason, at)) => {
            batch.roll_back();
            batch.refuse(reason, row, start, line, at);
        }
    }
}

/// Appends text and columns of one valid-UTF-8 record to the batch.
fn extract(
    batch: &mut Batch,
    values: &mut [Value],
    fields: &Fields,
    line: &[u8],
) -> Result<(), Fault> {
    parse(line, &fields.tree, values)?;
    let mut replaced = 0;
    for part in &fields.text {
        match part {
            TemplatePart::Literal(bytes) => batch.texts.bytes.extend_from_slice(bytes),
            TemplatePart::Record => batch.texts.bytes.extend_from_slice(line.trim_ascii()),
            TemplatePart::Field(slot) => {
                let value = text_value(values[*slot])?;
                let body = &line[value.start..value.end];
                replaced += unescape(body, fields.policy, &mut batch.texts.bytes)
                    .map_err(|(reason, at)| (reason, value.start + at))?;
            }
        }
    }
    for (column, slot) in batch.columns.iter_mut().zip(&fields.columns) {
        replaced += push_column(column, values[*slot], line, fields.policy)?;
    }
    batch.replaced[Reason::LoneSurrogate as usize] += replaced;
    Ok(())
}

fn text_value(value: Value) -> Result<Value, Fault> {
    match (value.present, value.kind) {
        (true, Kind::String) => Ok(value),
        (true, _) => Err((Reason::NotAString, value.start)),
        (false, _) => Err((Reason::MissingField, 0)),
    }
}

fn push_column(
    column: &mut Column,
    value: Value,
    line: &[u8],
    policy: Policy,
) -> Result<u64, Fault> {
    let body = &line[value.start..value.end];
    let mut replaced = 0;
    match value.kind {
        Kind::String => {
            replaced = unescape(body, policy, &mut column.values.bytes)
                .map_err(|(reason, at)| (reason, value.start + at))?;
        }
        Kind::Number => column.values.bytes.extend_from_slice(body),
        _ => {}
    }
    column.kinds.push(value.kind as u8);
    column.values.finish();
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(policy: Policy) -> Fields {
        Fields::new(
            vec![Err(vec!["text".into()])],
            vec![vec!["meta".into(), "lang".into()]],
            policy,
            1 << 20,
        )
    }

    fn reasons(batch: &Batch) -> Vec<(Reason, i64)> {
        let rejects = batch.rejects.iter();
        rejects.map(|reject| (reject.reason, reject.row)).collect()
    }

    #[test]
    fn one_bad_line_is_one_bad_line() {
        let block = b"{\"text\": \"a\"}\n{\"text\": \n\n[1]\n{\"text\": 5}\n{}\r\n{\"text\":\"\\ud800\"}\n{\"text\":\"\xff\"}\n{\"text\":\"z\"}";
        let batch = read(block, &fields(Policy::Refuse));
        assert_eq!(batch.texts.bytes, b"az");
        assert_eq!(batch.rows, [0, 8]);
        assert_eq!(batch.rows_read, 9);
        assert_eq!(
            reasons(&batch),
            [
                (Reason::BrokenJson, 1),
                (Reason::NotAnObject, 3),
                (Reason::NotAString, 4),
                (Reason::MissingField, 5),
                (Reason::LoneSurrogate, 6),
                (Reason::InvalidUtf8, 7),
            ]
        );
    }

    #[test]
    fn replacing_keeps_the_record() {
        let block = b"{\"text\":\"\\ud800\"}\n{\"text\":\"\xff\"}\n";
        let batch = read(block, &fields(Policy::Replace));
        assert_eq!(batch.texts.bytes, "\u{fffd}\u{fffd}".as_bytes());
        assert_eq!(batch.replaced[..2], [1, 1]);
    }

    #[test]
    fn the_last_of_a_doubled_key_counts() {
        let block = br#"{"te\u0078t":"a","text":"b","meta":{"lang":"ko"},"meta":{"x":1}}"#;
        let batch = read(block, &fields(Policy::Refuse));
        assert_eq!(batch.texts.bytes, b"b");
        assert_eq!(batch.columns[0].kinds, [Kind::Null as u8]);
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_overflow() {
        for depth in [980, 1_000, 1_000_000] {
            let opening = "[".repeat(depth) + &"]".repeat(depth);
            let line = format!(r#"{{"text":"a","x":{opening}}}"#);
            let batch = read(line.as_bytes(), &deep());
            assert_eq!(batch.texts.len(), usize::from(depth == 980), "{depth}");
            let broken = "{\"a\":".repeat(depth);
            assert_eq!(read(broken.as_bytes(), &deep()).rejects.len(), 1);
        }
    }

    fn deep() -> Fields {
        let text = vec![Err(vec!["text".into()])];
        Fields::new(text, vec![], Policy::Refuse, usize::MAX)
    }

    #[test]
    fn nested_fields_are_found() {
        let block = br#"{"meta":{"a":[1,{"lang":0}],"lang":"ko"},"text":"b"}"#;
        let batch = read(block, &fields(Policy::Refuse));
        assert_eq!(batch.columns[0].values.bytes, b"ko");
    }

    #[test]
    fn a_path_of_no_keys_is_the_record_itself() {
        let fields = Fields::new(vec![Err(vec![])], vec![], Policy::Refuse, 1 << 20);
        let batch = read(b" {\"a\": [1]} \r\n[2]\n{\"a\":\n", &fields);
        assert_eq!(batch.texts.bytes, b"{\"a\": [1]}");
        assert_eq!(reasons(&batch), [(Reason::NotAnObject, 1), (Reason::BrokenJson, 2)]);
    }

    #[test]
    fn a_bad_column_takes_the_text_back() {
        let block = br#"{"text":"a","meta":{"lang":"\udfff"}}"#;
        let batch = read(block, &fields(Policy::Refuse));
        assert!(batch.texts.is_empty() && batch.texts.bytes.is_empty());
        assert_eq!(reasons(&batch), [(Reason::LoneSurrogate, 0)]);
    }
}
