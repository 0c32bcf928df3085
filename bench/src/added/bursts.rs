//! Bursts beside the load: a page load, as many requests at once of one key that nobody asked about
//! before. Its first requests spend the node's share of the bucket, the others are held until the peers
//! know of the demand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{self, NS_PER_MS, NS_PER_S};
use crate::driver::{Driver, Endpoint, Shape, Tally, Until};
use crate::failure::Failure;
use crate::keys::Keys;

/// Requests of a burst.
pub(super) const AT_ONCE: u64 = 8;
/// Units of a key of the bursts: more than there are requests, and a third of it, which is an idle
/// node's share with two peers, is fewer. So is the half of two thirds of it, its share while one peer
/// is missing.
pub(super) const UNITS: u64 = 15;
/// From the beginning of a burst to that of the next.
pub(super) const EVERY_NS: u64 = 50 * NS_PER_MS;
/// Due at once, for all that a driver can tell.
const AT_ONCE_PER_S: u64 = NS_PER_S;

/// Asks in bursts through `endpoint` until `stop`, about keys from `first_key` on; `pause` waits.
///
/// # Errors
/// If requests are not answered, or `pause` fails.
pub(super) fn ask(
    endpoint: &Endpoint,
    first_key: u64,
    stop: &AtomicBool,
    mut pause: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<Tally, Failure> {
    let shape = Shape {
        connections: usize::try_from(AT_ONCE).unwrap_or(1),
        window: 1,
        checks: 1,
        checks_per_s: Some(AT_ONCE_PER_S),
    };
    let mut driver = Driver::open(endpoint, shape, Keys::runs(first_key, AT_ONCE))?;
    let mut sum = Tally::new();
    let mut due_ns = clock::now_ns();
    while !stop.load(Ordering::Relaxed) {
        sum.add(&driver.run(Until::Asked(AT_ONCE))?);
        // One that is late makes no two at once.
        due_ns = (due_ns + EVERY_NS).max(clock::now_ns());
        pause(Duration::from_nanos(due_ns - clock::now_ns().min(due_ns)))?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::driver::Address;
    use crate::driver::codec::{Codec, Page};

    #[test]
    fn a_share_of_a_bucket_is_less_than_a_burst_and_the_bucket_is_more() {
        const { assert!(UNITS / 3 < AT_ONCE && UNITS * 2 / 3 / 2 < AT_ONCE) };
        const { assert!(UNITS * 2 / 3 > AT_ONCE) };
    }

    #[test]
    fn every_burst_asks_about_a_key_of_its_own() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let endpoint = Endpoint { address, codec: Codec::Get(Page::new("/", false)) };
        let stop = AtomicBool::new(false);
        let mut bursts = 0;
        let (tally, mut keys) = thread::scope(|scope| {
            let serving: Vec<_> = (0..AT_ONCE)
                .map(|_| {
                    scope.spawn(|| {
                        let (stream, _) = listener.accept().unwrap();
                        let mut writer = stream.try_clone().unwrap();
                        let mut keys = Vec::new();
                        for line in BufReader::new(stream).lines().map_while(Result::ok) {
                            if let Some(key) = line.strip_prefix("X-Api-Key: ") {
                                keys.push(key.to_owned());
                                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                                writer.write_all(response).unwrap();
                            }
                        }
                        keys
                    })
                })
                .collect();
            let tally = ask(&endpoint, 5, &stop, |time| {
                bursts += 1;
                assert!(time.as_nanos() <= bursts * u128::from(EVERY_NS));
                stop.store(bursts == 2, Ordering::Relaxed);
                Ok(())
            });
            let keys = serving.into_iter().flat_map(|server| server.join().unwrap());
            (tally.unwrap(), keys.collect::<Vec<_>>())
        });
        assert_eq!((tally.answered, tally.allowed), (2 * AT_ONCE, 2 * AT_ONCE));
        keys.sort_unstable();
        let expected = [5, 6].map(|number| vec![format!("key:{number:016x}"); 8]).concat();
        assert_eq!(keys, expected);
    }
}
