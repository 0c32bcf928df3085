//! Address keys: one form for every spelling of an address, and one key per IPv6 network.

use std::net::{IpAddr, Ipv6Addr};

/// The name of the attribute whose value is read as an address.
pub(crate) const ATTRIBUTE: &str = "ip";

/// An address in the form that is hashed and compared: a tag and the masked bytes.
pub(crate) type Normalised = arrayvec::ArrayVec<u8, 17>;

/// Normalises the text of an address: an IPv4-mapped IPv6 address is the IPv4 address, and an IPv6
/// address is its network of `ipv6_prefix` bits. None if the text is no address; the caller then
/// takes it as opaque bytes.
pub(crate) fn normalise(text: &[u8], ipv6_prefix: u8) -> Option<Normalised> {
    let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mut out = Normalised::new();
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(6);
            out.extend(network(v6, ipv6_prefix).octets());
        }
    }
    Some(out)
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
        let normalise = |text: &str| normalise(text.as_bytes(), 64).unwrap();
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
        let at = |text: &str, prefix| normalise(text.as_bytes(), prefix).unwrap();
        assert_ne!(at("2001:db8::1", 128), at("2001:db8::2", 128));
        assert_eq!(at("2001:db8::1", 127), at("2001:db8::", 127));
        assert_eq!(at("2001:db8::1", 0), at("fe80::1", 0));
    }

    #[test]
    fn what_is_no_address_is_left_to_the_caller() {
        for text in ["fe80::1%eth0", "", "1.2.3", "1.2.3.4:80", "localhost", "1.2.3.4 "] {
            assert_eq!(normalise(text.as_bytes(), 64), None, "{text}");
        }
        assert_eq!(normalise(&[0xff, 0xfe], 64), None);
    }
}
