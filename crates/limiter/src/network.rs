//! Networks as text: `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::Network;

impl Network {
    /// The addresses that share their first `prefix` bits with `address`. An IPv4-mapped address is
    /// IPv4. None: there are not so many bits.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let canonical = address.to_canonical();
        let mapped = if canonical == address { 0 } else { 96 };
        let prefix = prefix.checked_sub(mapped)?;
        let address = match canonical {
            IpAddr::V4(v4) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.address.is_ipv4() { 32 } else { 128 };
        write!(f, "{}", self.address)?;
        if self.prefix < bits { write!(f, "/{}", self.prefix) } else { Ok(()) }
    }
}

/// An address, or an address and how many of its bits count. Bits that do not count must be 0: somebody who
/// writes `10.1.2.3/8` may mean either.
impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address_text, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let refuse = |why: &str| {
            let shown = text.chars().take(64).collect::<String>();
            format!("`{}` {why}", shown.escape_debug())
        };
        let address: IpAddr = address_text.parse().map_err(|_| {
            refuse(
                "is no address and no network; write `192.0.2.7`, `10.0.0.0/8` or `2001:db8::/32`",
            )
        })?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) => {
                let is_plain = digits.bytes().all(|it| it.is_ascii_digit());
                let number = digits.parse::<u8>().ok().filter(|it| is_plain && *it <= bits);
                number
                    .ok_or_else(|| refuse(&format!("must have 0 to {bits} bits behind the `/`")))?
            }
        };
        let network = Self::new(address, prefix)
            .ok_or_else(|| refuse("is wider than the IPv4 addresses that it is written for"))?;
        if network.address != Self::new(address, bits).map_or(address, |it| it.address) {
            return Err(refuse(&format!("has bits that do not count; write `{network}`")));
        }
        Ok(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gives_the_network_that_it_shows() {
        for (text, shown) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::1", "::1"),
            ("::/0", "::/0"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ] {
            let network: Network = text.parse().expect(text);
            assert_eq!(network.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_a_way_out() {
        for (text, why) in [
            ("", "is no address"),
            ("10.0.0", "is no address"),
            ("example.org", "is no address"),
            ("10.0.0.0/33", "0 to 32 bits"),
            ("10.0.0.0/+8", "0 to 32 bits"),
            ("10.0.0.0/", "0 to 32 bits"),
            ("::/129", "0 to 128 bits"),
            ("10.1.2.3/8", "write `10.0.0.0/8`"),
            ("2001:db8::1/32", "write `2001:db8::/32`"),
            ("::ffff:10.0.0.0/8", "wider than the IPv4 addresses"),
        ] {
            let error = text.parse::<Network>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
