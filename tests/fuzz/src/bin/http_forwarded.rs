//! A query and headers of `GET /v1/auth` of any bytes are a question, or refused in words.
#![no_main]

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use rlnode::endpoint::http::parse_forwarded;
use rlnode_fuzz::{Input, fuzz_target};

const HEADERS: [&str; 7] = [
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-ratelimit-key",
    "x-ratelimit-endpoint",
    "x-ratelimit-cost",
    "x-ratelimit-attribute-ip",
    "x-ratelimit-attribute-plan",
];

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut headers = HeaderMap::new();
    let named = input.byte();
    for (bit, name) in HEADERS.into_iter().enumerate() {
        if named >> bit & 1 != 0
            && let Ok(value) = HeaderValue::from_bytes(input.short_bytes())
        {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let query = String::from_utf8_lossy(input.rest());
    match parse_forwarded(&query, &headers) {
        Ok(forwarded) => drop(forwarded.question.to_request().validate()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
