//! Who holds a port, as far as this user may know. Used for error messages only.

use std::fs;
use std::net::SocketAddr;

/// The kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Transport {
    /// The word used in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// `NAME (process ID)` of a process that has the port of `address` open; none if there is none or
/// this user may not look into it.
pub fn holder_of(transport: Transport, address: SocketAddr) -> Option<String> {
    let tables =
        [format!("/proc/net/{}", transport.as_str()), format!("/proc/net/{}6", transport.as_str())];
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| inodes_at(&table, transport, address.port()))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process = entry.file_name().into_string().ok()?;
        process.parse::<u32>().ok()?;
        let mut descriptors = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        descriptors.find(|descriptor| {
            fs::read_link(descriptor.path())
                .is_ok_and(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
        })?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some(format!("{} (process {process})", name.trim()))
    })
}

/// Inodes of the sockets bound to `port`, from the text of a `/proc/net` table; of TCP only those
/// that listen.
fn inodes_at(table: &str, transport: Transport, port: u16) -> Vec<u64> {
    const LISTENING: &str = "0A";
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, hex_port) = fields.get(1)?.rsplit_once(':')?;
        let is_at_port = u16::from_str_radix(hex_port, 16) == Ok(port);
        let is_bound = transport == Transport::Udp || *fields.get(3)? == LISTENING;
        let inode = fields.get(9)?.parse().ok()?;
        (is_at_port && is_bound).then_some(inode)
    };
    table.lines().skip(1).filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1CE8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:1CE8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: 0100007F:1CE9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4713 2
   3: broken
";

    #[test]
    fn finds_the_listener_of_a_port() {
        assert_eq!(inodes_at(TABLE, Transport::Tcp, 7400), [4711]);
        assert_eq!(inodes_at(TABLE, Transport::Udp, 7401), [4713]);
        assert!(inodes_at(TABLE, Transport::Tcp, 7401).is_empty());
    }

    #[test]
    fn names_this_process_for_a_port_of_its_own() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("its address");
        let holder = holder_of(Transport::Udp, address).expect("our own socket");
        assert!(holder.ends_with(&format!("(process {})", std::process::id())), "{holder}");
    }
}
