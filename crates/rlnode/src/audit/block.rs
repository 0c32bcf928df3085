//! Blocks of records as they stand in a file: a length, a checksum, and the records.
//!
//! It opens no file.

/// What every file begins with; the last byte is the version of the format.
pub const MAGIC: [u8; 8] = *b"rlaudit\x01";
/// Bytes before the records of a block: their length and their checksum, little-endian.
pub const BLOCK_HEADER_BYTES: usize = 8;
/// Most bytes of the records of a block. What claims more is damaged; nothing is allocated for it.
pub const BLOCK_BYTES_MAX: usize = 128 << 10;

/// Appends a block of `records` to `out`.
pub fn append_block(out: &mut Vec<u8>, records: &[u8]) {
    debug_assert!(records.len() <= BLOCK_BYTES_MAX, "blocks are cut well below the bound");
    let length = u32::try_from(records.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32(records).to_le_bytes());
    out.extend_from_slice(records);
}

/// CRC-32 of `bytes` as in IEEE 802.3, gzip and zip.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        CRC_TABLE[usize::from(low ^ byte)] ^ (crc >> 8)
    };
    !bytes.iter().fold(u32::MAX, step)
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        // Below 256.
        #[expect(clippy::cast_possible_truncation, reason = "a constant has no `try_from`")]
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_that_every_language_has() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
