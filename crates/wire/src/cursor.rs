//! Reading little-endian fields off the front of a slice. It knows no format.

/// The bytes not read yet. A read that would pass their end gives nothing and takes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are not read yet.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// What the next 16-bit length spans, that length included. The given cursor stands behind the
    /// length.
    #[inline]
    pub(crate) fn sized(&mut self) -> Option<Self> {
        let length = u16::from_le_bytes(*self.0.first_chunk()?);
        let (sized, rest) = self.0.split_at_checked(usize::from(length))?;
        let mut sized = Self(sized);
        sized.u16()?;
        self.0 = rest;
        Some(sized)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_in_order_and_little_endian() {
        let mut cursor =
            Cursor::new(&[1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0x80, b'a', b'b', b'c']);
        assert_eq!(cursor.u8(), Some(1));
        assert_eq!(cursor.u16(), Some(2));
        assert_eq!(cursor.u32(), Some(3));
        assert_eq!(cursor.u64(), Some(0x8000_0000_0000_0004));
        assert_eq!(cursor.bytes(2), Some(&b"ab"[..]));
        assert_eq!(cursor.u8(), Some(b'c'));
        assert_eq!(cursor.u8(), None);
    }

    #[test]
    fn a_sized_part_ends_where_its_length_says() {
        let mut cursor = Cursor::new(&[4, 0, 8, 9, 2, 0, 7]);
        let mut part = cursor.sized().unwrap();
        assert_eq!((part.u16(), part.u8()), (Some(0x0908), None));
        let mut empty = cursor.sized().unwrap();
        assert_eq!(empty.u8(), None);
        assert_eq!(cursor.u8(), Some(7));
    }

    #[test]
    fn a_size_below_its_own_length_or_past_the_end_takes_nothing() {
        for bytes in [[0, 0, 5], [1, 0, 5], [4, 0, 5]] {
            let mut cursor = Cursor::new(&bytes);
            assert!(cursor.sized().is_none());
            assert_eq!(cursor.bytes(3), Some(&bytes[..]));
        }
    }

    #[test]
    fn a_read_past_the_end_takes_nothing() {
        let mut cursor = Cursor::new(&[7, 0, 9]);
        assert_eq!(cursor.u32(), None);
        assert_eq!(cursor.bytes(usize::MAX), None);
        assert_eq!(cursor.u16(), Some(7));
        assert_eq!(cursor.u16(), None);
        assert_eq!(cursor.u8(), Some(9));
        assert_eq!(cursor.u8(), None);
        assert_eq!(cursor.bytes(0), Some(&b""[..]));
    }
}
