//! Which fields of a record are wanted, as a tree of keys over a list of slots.

use crate::records::Policy;

/// A part of the text template: characters as they are, or the value of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplatePart {
    /// Literal text.
    Literal(Vec<u8>),
    /// The string in this slot.
    Field(usize),
    /// The whole record, unchanged.
    Record,
}

/// One key that leads to a wanted field.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub key: Vec<u8>,
    pub slot: Option<usize>,
    pub children: Vec<Node>,
}

/// The wanted fields. Each path of keys has one slot, however often it is used.
#[derive(Clone, Debug)]
pub struct Fields {
    pub(super) tree: Vec<Node>,
    pub(super) paths: Vec<Vec<String>>,
    pub(super) text: Vec<TemplatePart>,
    pub(super) columns: Vec<usize>,
    pub(super) policy: Policy,
    pub(super) limit: usize,
}

impl Fields {
    /// Fields for a text of literal and field parts, where `Err(path)` names a field; and columns.
    /// A path of no keys names the record itself, which stays JSON.
    ///
    /// `{title}\n{text}` is `[Err(["title"]), Ok("\n"), Err(["text"])]`.
    /// A record of more than `limit` bytes is refused.
    pub fn new(
        text: Vec<std::result::Result<String, Vec<String>>>,
        columns: Vec<Vec<String>>,
        policy: Policy,
        limit: usize,
    ) -> Self {
        let mut fields = Fields {
            tree: Vec::new(),
            paths: Vec::new(),
            text: Vec::new(),
            columns: Vec::new(),
            policy,
            limit,
        };
        for part in text {
            let part = match part {
                Ok(literal) => TemplatePart::Literal(literal.into_bytes()),
                Err(path) if path.is_empty() => TemplatePart::Record,
                Err(path) => TemplatePart::Field(fields.slot(path)),
            };
            fields.text.push(part);
        }
        fields.columns = columns.into_iter().map(|path| fields.slot(path)).collect();
        fields
    }

    /// Returns the number of columns other than the text.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    fn slot(&mut self, path: Vec<String>) -> usize {
        if let Some(known) = self.paths.iter().position(|other| *other == path) {
            return known;
        }
        let slot = self.paths.len();
        let mut nodes = &mut self.tree;
        for (depth, key) in path.iter().enumerate() {
            let at =
                nodes.iter().position(|node| node.key == key.as_bytes()).unwrap_or_else(|| {
                    nodes.push(Node {
                        key: key.clone().into_bytes(),
                        slot: None,
                        children: Vec::new(),
                    });
                    nodes.len() - 1
                });
            if depth + 1 == path.len() {
                nodes[at].slot = Some(slot);
            }
            nodes = &mut nodes[at].children;
        }
        self.paths.push(path);
        slot
    }
}
