//! Reads one audit file block by block, up to where it is damaged.

use std::fmt;
use std::io::{self, Read};

use super::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, MAGIC, crc32};

/// Why a file cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where the part that cannot be read begins, in bytes from the start of the file.
    pub at_byte: u64,
    /// What is wrong there.
    pub what: Fault,
}

/// What is wrong with the bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as an audit file does.
    NoAudit,
    /// It is of a version that this program does not read.
    Version(u8),
    /// It ends in the middle of a block: the node, or the machine, stopped while it was written.
    CutOff,
    /// The checksum of a block is wrong.
    Checksum,
    /// A block is longer than any is, or has no records.
    Length,
    /// A block holds what is no record.
    Malformed,
    /// The first block does not say whose file it is.
    NoBegin,
    /// The system cannot read it: the reason.
    System(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAudit => f.write_str("this is no audit file of rlnode"),
            Self::Version(version) => write!(f, "version {version} of the format is not known"),
            Self::CutOff => f.write_str("it ends in the middle of a block"),
            Self::Checksum => f.write_str("the checksum of a block is wrong"),
            Self::Length => f.write_str("the length of a block is wrong"),
            Self::Malformed => f.write_str("a block holds what is no record"),
            Self::NoBegin => f.write_str("it does not say whose it is"),
            Self::System(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from byte {}: {}", self.at_byte, self.what)
    }
}

/// A file that is being read.
#[derive(Debug)]
pub struct BlockReader<R> {
    from: R,
    at_byte: u64,
    body: Vec<u8>,
}

impl<R: Read> BlockReader<R> {
    /// Reads what every file begins with.
    ///
    /// # Errors
    /// It begins otherwise, or cannot be read.
    pub fn new(mut from: R) -> Result<Self, Damage> {
        let mut magic = [0; MAGIC.len()];
        let damage = |what| Damage { at_byte: 0, what };
        let length = read_up_to(&mut from, &mut magic).map_err(|error| damage(system(&error)))?;
        let known = MAGIC.len() - 1;
        if length < magic.len() && magic[..length] == MAGIC[..length] {
            return Err(damage(Fault::CutOff));
        }
        if magic[..known] != MAGIC[..known] {
            return Err(damage(Fault::NoAudit));
        }
        if magic != MAGIC {
            return Err(damage(Fault::Version(magic[known])));
        }
        Ok(Self { from, at_byte: MAGIC.len() as u64, body: Vec::new() })
    }

    /// Where the next block begins, in bytes from the start of the file.
    pub fn at_byte(&self) -> u64 {
        self.at_byte
    }

    /// The records of the next block; none at the end of the file.
    ///
    /// # Errors
    /// The block is damaged. Where the next begins is not known then.
    pub fn next_block(&mut self) -> Result<Option<&[u8]>, Damage> {
        let at_byte = self.at_byte;
        let damage = |what| Damage { at_byte, what };
        let mut header = [0; BLOCK_HEADER_BYTES];
        let read =
            read_up_to(&mut self.from, &mut header).map_err(|error| damage(system(&error)))?;
        match read {
            0 => return Ok(None),
            BLOCK_HEADER_BYTES => {}
            _ => return Err(damage(Fault::CutOff)),
        }
        let [a, b, c, d, e, f, g, h] = header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if !(1..=BLOCK_BYTES_MAX).contains(&length) {
            return Err(damage(Fault::Length));
        }
        self.body.resize(length, 0);
        let read =
            read_up_to(&mut self.from, &mut self.body).map_err(|error| damage(system(&error)))?;
        if read < length {
            return Err(damage(Fault::CutOff));
        }
        if crc32(&self.body) != u32::from_le_bytes([e, f, g, h]) {
            return Err(damage(Fault::Checksum));
        }
        self.at_byte += (BLOCK_HEADER_BYTES + length) as u64;
        Ok(Some(&self.body))
    }
}

fn system(error: &io::Error) -> Fault {
    Fault::System(error.to_string())
}

/// Fills `bytes` as far as there is something to read, and gives how far that was.
fn read_up_to(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match from.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
