//! The Redis serialization protocol: commands from a client, replies to it, in versions 2 and 3.
//!
//! A command borrows from the bytes that it was read from, and every length is bounded before it is
//! believed.

mod parser;
mod writer;

pub use parser::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, Parsed, RespError, parse,
};
pub use writer::{RespVersion, RespWriter};
