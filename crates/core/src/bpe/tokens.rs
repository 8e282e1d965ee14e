//! Tokens with their ids in one buffer: a vocabulary has hundreds of thousands of them, and a vector for
//! each would cost more than everything else that loading does.

use super::NONE;

/// `(bytes, id)` pairs in the order in which they were put in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ids: Vec<u32>,
}

impl Tokens {
    /// Empty, with room for `tokens` tokens of `bytes` bytes in total.
    pub fn with_room(tokens: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(tokens),
            ids: Vec::with_capacity(tokens),
        }
    }

    /// Adds a token at the end.
    pub fn push(&mut self, token: &[u8], id: u32) {
        self.bytes.extend_from_slice(token);
        self.close(id);
    }

    /// Adds a token whose bytes `write` appends; if it returns `false`, nothing is added.
    pub fn push_with(&mut self, id: u32, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let before = self.bytes.len();
        let good = write(&mut self.bytes);
        if good {
            self.close(id);
        } else {
            self.bytes.truncate(before);
        }
        good
    }

    fn close(&mut self, id: u32) {
        self.ends.push(self.bytes.len());
        self.ids.push(id);
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns all bytes, one token after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the ids, in order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the bytes of the token at a place in the list (not of an id); empty beyond the end.
    pub fn at(&self, place: usize) -> &[u8] {
        let start = match place.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(usize::MAX),
            None => 0,
        };
        let end = self.ends.get(place).copied().unwrap_or(0);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Returns the length of every token.
    pub fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| (end - start) as u32)
    }

    /// Returns every token with its id.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u32)> + '_ {
        let mut start = 0;
        self.ends.iter().zip(&self.ids).map(move |(end, id)| {
            let token = &self.bytes[start..*end];
            start = *end;
            (token, *id)
        })
    }

    /// Returns the place of each id, [`u32::MAX`] in the holes; if two tokens share an id, their places are the error.
    pub fn places(&self) -> Result<Vec<u32>, (usize, usize)> {
        let limit = self.ids.iter().max().map_or(0, |id| *id as usize + 1);
        let mut places = vec![NONE; limit];
        for (place, id) in self.ids.iter().enumerate() {
            let before = std::mem::replace(&mut places[*id as usize], place as u32);
            if before != NONE {
                return Err((before as usize, place));
            }
        }
        Ok(places)
    }
}

impl<B: AsRef<[u8]>> FromIterator<(B, u32)> for Tokens {
    fn from_iter<I: IntoIterator<Item = (B, u32)>>(pairs: I) -> Self {
        let mut tokens = Self::default();
        for (token, id) in pairs {
            tokens.push(token.as_ref(), id);
        }
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_went_in() {
        let tokens: Tokens = [("a", 3), ("", 1), ("bc", 0)].into_iter().collect();
        let pairs: Vec<_> = tokens.iter().collect();
        assert_eq!(pairs, [(&b"a"[..], 3), (&b""[..], 1), (&b"bc"[..], 0)]);
        assert_eq!(
            (0..4).map(|place| tokens.at(place)).collect::<Vec<_>>(),
            [&b"a"[..], b"", b"bc", b""]
        );
    }

    #[test]
    fn places_know_holes_and_refuse_twins() {
        let mut tokens: Tokens = [("a", 3), ("b", 1)].into_iter().collect();
        assert_eq!(tokens.places(), Ok(vec![NONE, 1, NONE, 0]));
        assert!(!tokens.push_with(7, |bytes| {
            bytes.push(b'x');
            false
        }));
        assert_eq!(tokens.bytes(), b"ab");
        tokens.push(b"c", 3);
        assert_eq!(tokens.places(), Err((0, 2)));
    }
}
