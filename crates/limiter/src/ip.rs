//! Address keys: one form for every spelling of an address, and one key per IPv6 network.

use std::net::{IpAddr, Ipv6Addr};

use crate::ATTRIBUTE_VALUE_BYTES_MAX;

/// The name of the attribute whose value is read as an address.
pub(crate) const ATTRIBUTE: &str = "ip";

/// A value in the form that is hashed and compared: a tag, then the bytes of the address, or the text
/// as it is where it is no address.
pub(crate) type Normalised = arrayvec::ArrayVec<u8, { 1 + ATTRIBUTE_VALUE_BYTES_MAX }>;

const TAG_OPAQUE: u8 = 0;
const TAG_V4: u8 = 4;
const TAG_V6: u8 = 6;

/// Normalises `text`: an IPv4-mapped IPv6 address is the IPv4 address, an IPv6 address is its network
/// of `ipv6_prefix` bits, and what is no address stays as it is. The tag keeps the three apart.
///
/// `text` has at most [`ATTRIBUTE_VALUE_BYTES_MAX`] bytes; a longer one is cut.
pub(crate) fn normalise(text: &[u8], ipv6_prefix: u8) -> Normalised {
    let mut out = Normalised::new();
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<IpAddr>().ok());
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(v4)) => {
            out.push(TAG_V4);
            out.extend(v4.octets());
        }
        Some(IpAddr::V6(v6)) => {
            out.push(TAG_V6);
            out.extend(network(v6, ipv6_prefix).octets());
        }
        None => {
            out.push(TAG_OPAQUE);
            out.extend(text.iter().copied().take(ATTRIBUTE_VALUE_BYTES_MAX));
        }
    }
    out
}

fn network(address: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let host_bits = 128 - u32::from(prefix.min(128));
    let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let normalise = |text: &str| normalise(text.as_bytes(), 64);
        normalise(a) == normalise(b)
    }

    #[test]
    fn one_ipv6_network_is_one_key() {
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("2001:db8:1:2::192.0.2.1", "2001:db8:1:2::1"));
        assert!(same("2001:DB8:1:2:0::1", "2001:db8:1:2::1"));
    }

    #[test]
    fn an_ipv4_mapped_address_is_the_ipv4_address() {
        assert!(same("::ffff:192.0.2.1", "::ffff:c000:201"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
    }

    #[test]
    fn the_prefix_may_be_the_whole_address_or_nothing() {
        let at = |text: &str, prefix| normalise(text.as_bytes(), prefix);
        assert_ne!(at("2001:db8::1", 128), at("2001:db8::2", 128));
        assert_eq!(at("2001:db8::1", 127), at("2001:db8::", 127));
        assert_eq!(at("2001:db8::1", 0), at("fe80::1", 0));
    }

    #[test]
    fn what_is_no_address_is_a_value_of_its_own() {
        for text in ["fe80::1%eth0", "", "1.2.3", "1.2.3.4:80", "localhost", "1.2.3.4 "] {
            let normalised = normalise(text.as_bytes(), 64);
            assert_eq!(normalised[0], TAG_OPAQUE, "{text}");
            assert_eq!(&normalised[1..], text.as_bytes());
        }
        assert_eq!(normalise(&[0xff, 0xfe], 64)[..], [TAG_OPAQUE, 0xff, 0xfe]);
        // The bytes of an address are not the address.
        assert_ne!(normalise(&[TAG_V4, 192, 0, 2, 7], 64), normalise(b"192.0.2.7", 64));
    }
}
