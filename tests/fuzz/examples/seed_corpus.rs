//! Writes the seeds of the frame's targets into `corpus/`: the byte vectors of the wire crate, and
//! frames at their bounds. Run it from this folder after a change of the vectors:
//! `cargo run --example seed_corpus`.

use std::error::Error;
use std::path::Path;
use std::{fs, io};

use limiter::{ATTRIBUTES_MAX, COSTS_MAX, Op, Request};
use wire::{ErrorCode, ReplyWriter, RequestWriter, Status, write_error};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = root.join("corpus");
    let mut stream = Vec::new();
    for entry in fs::read_dir(root.join("../../crates/wire/tests/frame/vectors"))? {
        let path = entry?.path();
        let frame = vector(&fs::read_to_string(&path)?)?;
        let name =
            path.file_stem().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        let target = if name.starts_with("request") { "request_frame" } else { "reply_frame" };
        seed(&corpus, target, name, &frame)?;
        stream.push((name.to_owned(), frame));
    }
    stream.sort();
    seed(&corpus, "request_frame", "lists_at_their_bounds", &lists_at_their_bounds()?)?;
    seed(&corpus, "request_frame", "many_checks", &many_checks()?)?;
    seed(&corpus, "reply_frame", "statuses", &statuses())?;
    seed(&corpus, "reply_frame", "busy", &busy())?;

    for entry in fs::read_dir(root.join("../../crates/wire/tests/peer/vectors"))? {
        let path = entry?.path();
        let frame = vector(&fs::read_to_string(&path)?)?;
        let name =
            path.file_stem().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        seed(&corpus, "peer_frame", name, &frame)?;
        // The target takes a type and a payload too.
        let (header, payload) = frame.split_at(8);
        seed(&corpus, "peer_frame", &format!("{name}_payload"), &[&header[..1], payload].concat())?;
    }

    let frames: Vec<u8> = stream.into_iter().flat_map(|(_, frame)| frame).collect();
    for (name, read_lens, tail) in [
        ("by_byte", &[][..], &b""[..]),
        ("in_uneven_reads", &[1, 2, 7, 19, 20, 21, 44, 0], b""),
        ("with_a_half_frame", &[0], &frames[..30]),
        ("with_another_protocol_behind", &[64], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ] {
        let len = u8::try_from(read_lens.len())?;
        seed(&corpus, "stream_frames", name, &[&[len], read_lens, &frames, tail].concat())?;
    }
    Ok(())
}

fn seed(corpus: &Path, target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = corpus.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

/// The bytes of a vector: hexadecimal, `#` begins a comment.
fn vector(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let words =
        text.lines().flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace());
    words.map(|byte| Ok(u8::from_str_radix(byte, 16)?)).collect()
}

fn lists_at_their_bounds() -> Result<Vec<u8>, Box<dyn Error>> {
    let names: Vec<String> = (0..ATTRIBUTES_MAX).map(|index| format!("name-{index}")).collect();
    let mut request = Request::check(b"GET /", b"alice").with_op(Op::Debit);
    request.attributes.extend(names.iter().map(|name| (name.as_bytes(), name.as_bytes())));
    request.costs.extend(names.iter().take(COSTS_MAX).map(|name| (name.as_bytes(), u64::MAX)));
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, 1);
    writer.check(&request, Some(1))?;
    writer.finish();
    Ok(bytes)
}

fn many_checks() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, 2);
    for key in 0..64u8 {
        writer.check(&Request::check(b"", &[key]), None)?;
    }
    writer.pad_for_reply().finish();
    bytes.truncate(2_000);
    bytes[4..8].copy_from_slice(&2_000u32.to_le_bytes());
    Ok(bytes)
}

fn statuses() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, 3);
    for status in (0..=10).filter_map(Status::from_u8) {
        writer.status(status);
    }
    writer.finish();
    bytes
}

fn busy() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_error(&mut bytes, 4, ErrorCode::Busy);
    bytes
}
