//! Bytes of any kind are a command of the Redis protocol, its beginning, or an error, and nothing else; what is read
//! reads the same when it comes in two pieces, and when it is written again.
#![no_main]

use rlnode_fuzz::fuzz_target;
use wire::resp::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, COMMAND_BYTES_MAX, Parsed, RespVersion, RespWriter, parse,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Parsed::Command(arguments, length)) = parse(bytes) else { return };
    assert!(length > 0 && length <= bytes.len() && length <= COMMAND_BYTES_MAX);
    assert!(arguments.len() <= ARGUMENTS_MAX);
    assert!(arguments.iter().all(|argument| argument.len() <= ARGUMENT_BYTES_MAX));
    // What follows does not matter, and what has not come whole is waited for.
    assert_eq!(parse(&bytes[..length]), Ok(Parsed::Command(arguments.clone(), length)));
    for end in [1, length / 2, length - 1] {
        let is_whole =
            matches!(parse(&bytes[..end.min(length - 1)]), Ok(Parsed::Command(..)) | Err(_));
        assert!(!is_whole, "read whole from {end} of {length} bytes");
    }
    let mut written = Vec::new();
    let mut writer = RespWriter::new(&mut written, RespVersion::V2);
    writer.array(arguments.len());
    arguments.iter().for_each(|argument| writer.bulk(argument));
    match parse(&written) {
        Ok(Parsed::Command(again, whole)) => {
            assert_eq!((again.as_slice(), whole), (arguments.as_slice(), written.len()));
        }
        // Words of a line take more bytes as an array.
        other => assert!(bytes[0] != b'*', "{other:?}"),
    }
});
