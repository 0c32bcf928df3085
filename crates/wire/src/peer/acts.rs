//! What operators did to keys: bans, and numbers of single buckets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use limiter::{About, Act, Given, Holds, KEY_BYTES_MAX, Network, OPERATION_NS_MAX, Subject};

use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended};
use super::varint;
use crate::cursor::Cursor;

/// Bytes of the longest entry: a ban or an override with the longest key, and its numbers.
const ACT_BYTES_MAX: usize = KEY_BYTES_MAX + 96;

const BAN_KEY: u8 = 1;
const BAN_NETWORK: u8 = 2;
const OVERRIDE: u8 = 3;

const ENDED: u8 = 0;
const HOLDS: u8 = 1;

const DENY: u8 = 0;
const UNLIMITED: u8 = 1;
const LEVEL: u8 = 2;
const COUNT: u8 = 3;

/// Appends a frame with as many of `acts` as fit to `out`; gives how many. Keys have at most
/// [`KEY_BYTES_MAX`] bytes.
pub fn write_acts(out: &mut Vec<u8>, acts: &[Act]) -> usize {
    let mut frame = FrameWriter::new(out, FrameType::Acts);
    let count_at = frame.out().len();
    frame.out().extend_from_slice(&[0, 0]);
    let mut written: u16 = 0;
    for act in acts {
        // The length takes two bytes.
        if frame.room() < ACT_BYTES_MAX + 2 || written == u16::MAX {
            break;
        }
        let start = frame.out().len();
        frame.out().extend_from_slice(&[0, 0]);
        append(frame.out(), act);
        let length = u16::try_from(frame.out().len() - start).unwrap_or(u16::MAX);
        frame.out()[start..][..2].copy_from_slice(&length.to_le_bytes());
        written += 1;
    }
    frame.out()[count_at..][..2].copy_from_slice(&written.to_le_bytes());
    frame.finish();
    usize::from(written)
}

fn append(out: &mut Vec<u8>, act: &Act) {
    match &act.about {
        About::Ban(Subject::Key(key)) => {
            out.push(BAN_KEY);
            append_key(out, key);
        }
        About::Ban(Subject::Network(network)) => {
            out.extend_from_slice(&[BAN_NETWORK, network.prefix]);
            match network.address {
                IpAddr::V4(v4) => out.extend_from_slice(&v4.to_ipv6_mapped().octets()),
                IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
            }
            out.push(if network.address.is_ipv4() { 4 } else { 6 });
        }
        About::Override { rule, hash } => {
            out.push(OVERRIDE);
            out.extend_from_slice(&rule.to_le_bytes());
            out.extend_from_slice(&hash.to_le_bytes());
        }
    }
    varint::append(out, act.version);
    let Some(holds) = &act.holds else { return out.push(ENDED) };
    out.push(HOLDS);
    varint::append(out, holds.for_ns.unwrap_or(0));
    let Some((key, given)) = &holds.given else { return };
    append_key(out, key);
    match given {
        Given::Deny => out.push(DENY),
        Given::Unlimited => out.push(UNLIMITED),
        Given::Level { count, period_ns, burst } => {
            out.push(LEVEL);
            [count, period_ns, burst].into_iter().for_each(|number| varint::append(out, *number));
        }
        Given::Count { limit, period_ns } => {
            out.push(COUNT);
            varint::append(out, *limit);
            varint::append(out, period_ns.unwrap_or(0));
        }
    }
}

fn append_key(out: &mut Vec<u8>, key: &[u8]) {
    varint::append(out, key.len() as u64);
    out.extend_from_slice(key);
}

/// What the frame tells; entries of unknown kinds, and what stands behind the fields of known ones, are
/// skipped.
pub(super) fn read(payload: &[u8]) -> Result<Vec<Act>, Fault> {
    let mut cursor = Cursor::new(payload);
    let count = cursor.u16().ok_or(Fault::Malformed)?;
    let mut acts = Vec::new();
    for _ in 0..count {
        let mut entry = cursor.sized().ok_or(Fault::Malformed)?;
        if let Some(about) = read_about(&mut entry)? {
            acts.push(read_act(about, &mut entry)?);
        }
    }
    ended(&cursor)?;
    Ok(acts)
}

fn read_about(entry: &mut Cursor<'_>) -> Result<Option<About>, Fault> {
    Ok(Some(match entry.u8().ok_or(Fault::Malformed)? {
        BAN_KEY => About::Ban(Subject::Key(read_key(entry)?)),
        BAN_NETWORK => About::Ban(Subject::Network(read_network(entry)?)),
        OVERRIDE => {
            let (rule, hash) = (entry.u64(), entry.u64());
            let (rule, hash) = rule.zip(hash).ok_or(Fault::Malformed)?;
            About::Override { rule, hash }
        }
        _ => return Ok(None),
    }))
}

fn read_key(entry: &mut Cursor<'_>) -> Result<Vec<u8>, Fault> {
    let length = number(entry)?;
    let length = usize::try_from(length).ok().filter(|it| (1..=KEY_BYTES_MAX).contains(it));
    let key = entry.bytes(length.ok_or(Fault::Bound)?);
    key.map(<[u8]>::to_vec).ok_or(Fault::Malformed)
}

fn read_network(entry: &mut Cursor<'_>) -> Result<Network, Fault> {
    let prefix = entry.u8().ok_or(Fault::Malformed)?;
    let octets = entry.bytes(16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let v6 = Ipv6Addr::from(octets.ok_or(Fault::Malformed)?);
    let address = match entry.u8().ok_or(Fault::Malformed)? {
        4 => v6.to_ipv4_mapped().map(|v4: Ipv4Addr| IpAddr::V4(v4)).ok_or(Fault::Malformed)?,
        6 if v6.to_ipv4_mapped().is_none() => IpAddr::V6(v6),
        _ => return Err(Fault::Malformed),
    };
    let network = Network::new(address, prefix).ok_or(Fault::Bound)?;
    if network.address == address { Ok(network) } else { Err(Fault::Malformed) }
}

fn read_act(about: About, entry: &mut Cursor<'_>) -> Result<Act, Fault> {
    let version = number(entry)?;
    let holds = match entry.u8().ok_or(Fault::Malformed)? {
        ENDED => None,
        HOLDS => {
            let for_ns = number(entry)?;
            if for_ns > OPERATION_NS_MAX {
                return Err(Fault::Bound);
            }
            let given = match about {
                About::Ban(_) => None,
                About::Override { .. } => Some((read_key(entry)?, read_given(entry)?)),
            };
            Some(Holds { for_ns: (for_ns > 0).then_some(for_ns), given })
        }
        _ => return Err(Fault::Malformed),
    };
    Ok(Act { about, version, holds })
}

fn read_given(entry: &mut Cursor<'_>) -> Result<Given, Fault> {
    Ok(match entry.u8().ok_or(Fault::Malformed)? {
        DENY => Given::Deny,
        UNLIMITED => Given::Unlimited,
        LEVEL => {
            let (count, period_ns, burst) = (number(entry)?, number(entry)?, number(entry)?);
            Given::Level { count, period_ns, burst }
        }
        COUNT => {
            let (limit, period_ns) = (number(entry)?, number(entry)?);
            Given::Count { limit, period_ns: (period_ns > 0).then_some(period_ns) }
        }
        _ => return Err(Fault::Malformed),
    })
}

fn number(entry: &mut Cursor<'_>) -> Result<u64, Fault> {
    varint::read(entry).ok_or(Fault::Malformed)
}
