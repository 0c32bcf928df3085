//! Integers of one to ten bytes: seven bits in each, the lowest first, the top bit set in all but
//! the last (LEB128). Signed integers are folded first, so that small ones are short on both sides
//! of 0.

use crate::cursor::Cursor;

/// Most bytes of an integer of 64 bits.
pub(super) const VARINT_BYTES_MAX: usize = 10;

/// Bytes that `value` takes.
#[inline]
pub(super) fn len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    // At most 64 bits, and so at most ten bytes.
    bits.div_ceil(7) as usize
}

/// Appends `value` in as few bytes as it takes.
#[inline]
pub(super) fn append(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_bits(value) | 0x80);
        value >>= 7;
    }
    out.push(low_bits(value));
}

/// Reads an integer. It may be written longer than it needs to be, but in ten bytes and 64 bits.
#[inline]
pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = cursor.u8()?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if shift + 7 > u64::BITS && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// `value` folded: 0, -1, 1, -2 become 0, 1, 2, 3.
#[inline]
pub(super) fn folded(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

/// The value that was folded.
#[inline]
pub(super) fn unfolded(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends a signed `value`.
#[inline]
pub(super) fn append_signed(out: &mut Vec<u8>, value: i64) {
    append(out, folded(value));
}

/// Bytes that a signed `value` takes.
#[inline]
pub(super) fn signed_len(value: i64) -> usize {
    len(folded(value))
}

/// Reads a signed integer.
#[inline]
pub(super) fn read_signed(cursor: &mut Cursor<'_>) -> Option<i64> {
    read(cursor).map(unfolded)
}

fn low_bits(value: u64) -> u8 {
    value.to_le_bytes()[0] & 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, value);
        out
    }

    #[test]
    fn integers_take_the_bytes_that_they_need() {
        let cases: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (1, &[1]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (16_384, &[0x80, 0x80, 1]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ];
        for (value, bytes) in cases {
            assert_eq!(bytes_of(value), bytes);
            assert_eq!(len(value), bytes.len());
            assert_eq!(read(&mut Cursor::new(bytes)), Some(value));
        }
    }

    #[test]
    fn lengths_are_right_at_every_power_of_two() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let bytes = bytes_of(value);
                assert_eq!(bytes.len(), len(value), "{value}");
                assert!(bytes.len() <= VARINT_BYTES_MAX);
                assert_eq!(read(&mut Cursor::new(&bytes)), Some(value));
            }
        }
    }

    #[test]
    fn an_integer_may_be_written_longer_than_needed() {
        assert_eq!(read(&mut Cursor::new(&[0x81, 0])), Some(1));
        let longest = [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
        assert_eq!(read(&mut Cursor::new(&longest)), Some(1));
    }

    #[test]
    fn more_than_64_bits_or_ten_bytes_or_a_missing_end_is_none() {
        let overflow = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        let eleven = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
        for bytes in [&overflow[..], &eleven, &[], &[0x80], &[0xff, 0xff]] {
            assert_eq!(read(&mut Cursor::new(bytes)), None, "{bytes:?}");
        }
    }

    #[test]
    fn signed_integers_are_short_on_both_sides_of_0() {
        let cases =
            [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)];
        for (value, folded_value) in cases {
            assert_eq!(folded(value), folded_value);
            assert_eq!(unfolded(folded_value), value);
            let mut out = Vec::new();
            append_signed(&mut out, value);
            assert_eq!(out.len(), signed_len(value));
            assert_eq!(read_signed(&mut Cursor::new(&out)), Some(value));
        }
    }
}
