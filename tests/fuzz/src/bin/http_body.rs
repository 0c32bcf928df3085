//! A body of `POST /v1/check` of any bytes is a question within its bounds, or refused in words.
#![no_main]

use limiter::{ATTRIBUTES_MAX, COSTS_MAX};
use rlnode::endpoint::http::question::{Questions, parse_body};
use rlnode_fuzz::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let questions = match parse_body(bytes) {
        Ok(Questions::One(question)) => vec![*question],
        Ok(Questions::Many(questions)) => {
            assert!((1..=wire::CHECKS_MAX).contains(&questions.len()));
            questions
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for question in &questions {
        assert!(question.attributes.len() <= ATTRIBUTES_MAX && question.costs.len() <= COSTS_MAX);
        // Bounds that the limiter judges may still be broken; judging them must not fail otherwise.
        let _ = question.to_request().validate();
    }
});
