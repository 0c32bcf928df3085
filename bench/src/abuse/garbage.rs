//! Garbage: what a client sends that is broken, mistaken or malicious, several kinds for each door, some
//! of which a node answers and goes on, and some for which it ends the connection.

use super::door::AbusedDoor;
use crate::driver::codec::grpc;
use crate::driver::codec::resp::write_command;
use crate::keys::Random;

/// Messages that are made for a door, and sent in turn.
const MESSAGES: usize = 64;
/// Length of what is random.
const NOISE_BYTES: usize = 96;

/// A frame's header with the right magic and version, a length and a count.
fn header(length: u32, count: u16) -> Vec<u8> {
    let mut bytes = b"RL\x01\x01".to_vec();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&7_u64.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes
}

/// What is sent at `door`, in an order that `seed` decides the bytes of.
pub(super) fn messages(door: AbusedDoor, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let mut noise = || -> Vec<u8> {
        (0..NOISE_BYTES).map(|_| u8::try_from(random.below(256)).unwrap_or(0)).collect()
    };
    (0..MESSAGES).map(|number| message(door, number, noise())).collect()
}

fn message(door: AbusedDoor, number: usize, noise: Vec<u8>) -> Vec<u8> {
    match door {
        AbusedDoor::Udp | AbusedDoor::Stream | AbusedDoor::Seqpacket => frame(number, noise),
        AbusedDoor::Http => http(number, noise),
        AbusedDoor::Redis => redis(number, noise),
        AbusedDoor::Envoy => envoy(number, noise),
    }
}

fn frame(number: usize, noise: Vec<u8>) -> Vec<u8> {
    match number % 4 {
        0 => noise,
        // A frame whose records are no records.
        1 => [header(20 + 96, 3), noise].concat(),
        // A check without a key.
        2 => [header(20 + 14, 1), vec![14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat(),
        // A length that no frame has.
        _ => header(u32::MAX, 1),
    }
}

fn http(number: usize, noise: Vec<u8>) -> Vec<u8> {
    let post = |body: &[u8]| {
        let head =
            format!("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    match number % 4 {
        0 => noise,
        1 => post(br#"{"endpoint":"GET /","key":"#),
        2 => post(br#"{"key":"alice","colour":"red"}"#),
        _ => b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
    }
}

fn redis(number: usize, noise: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    match number % 4 {
        0 => out = [noise, b"\r\n".to_vec()].concat(),
        1 => write_command(&mut out, &[b"FLUSHALL"]),
        2 => write_command(&mut out, &[b"CL.THROTTLE", b"alice", b"many", b"1", b"-60"]),
        _ => out.extend_from_slice(b"*99999999\r\n$-7\r\n"),
    }
    out
}

fn envoy(number: usize, noise: Vec<u8>) -> Vec<u8> {
    const UNKNOWN_FRAME: u8 = 0xfe;
    let mut out = Vec::new();
    match number % 4 {
        0 => out = noise,
        // A call with a message that is none.
        1 => {
            out.extend_from_slice(grpc::PREFACE);
            grpc::call(&mut out, 1, &noise);
        }
        // Frames of a kind that nobody knows.
        2 => {
            out.extend_from_slice(grpc::PREFACE);
            grpc::frame(&mut out, UNKNOWN_FRAME, 0xff, 0, &noise);
        }
        _ => out.extend_from_slice(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_door_has_garbage_of_several_kinds_and_the_same_for_a_seed() {
        for door in AbusedDoor::ALL {
            let made = messages(door, 7);
            assert_eq!(made.len(), MESSAGES);
            assert_eq!(made, messages(door, 7));
            assert_ne!(made, messages(door, 8));
            let mut first_bytes: Vec<_> = made[..4].to_vec();
            first_bytes.sort_unstable();
            first_bytes.dedup();
            assert_eq!(first_bytes.len(), 4, "{door}");
            assert!(made.iter().all(|message| !message.is_empty()));
        }
    }

    #[test]
    fn no_frame_of_it_is_a_request_without_a_fault() {
        for message in messages(AbusedDoor::Udp, 1) {
            let is_sound = wire::RequestFrame::decode(&message).is_ok_and(|frame| {
                frame.checks().all(|check| check.is_ok_and(|it| !it.request.key.is_empty()))
            });
            assert!(!is_sound, "{message:?}");
        }
    }
}
