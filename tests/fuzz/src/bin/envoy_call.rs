//! A message of any bytes is no call of Envoy, or each of its descriptors is a request within the bounds.
#![no_main]

use limiter::Request;
use prost::Message;
use rlnode::endpoint::envoy::mapping::{Mapping, Mappings, Template};
use rlnode::endpoint::envoy::messages::RateLimitRequest;
use rlnode::endpoint::envoy::values::Values;
use rlnode_fuzz::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(call) = RateLimitRequest::decode(bytes) else { return };
    let template = |text| Template::parse(text).expect("a template");
    let mapped = Mapping {
        descriptor: vec![("a".into(), Values::Any), ("b".into(), Values::parse("x*y"))],
        key: template("{a}"),
        endpoint: template("{b}"),
        attributes: vec![("b".into(), template("{b}{a}"))],
        ..Mapping::default()
    };
    for mappings in [Mappings::default(), Mappings(vec![mapped])] {
        for descriptor in &call.descriptors {
            let meant = mappings.meaning(&call.domain, &descriptor.entries);
            let mut request = Request::check(&meant.endpoint, &meant.key);
            for (name, value) in &meant.attributes {
                request = request.with_attribute(name, value);
            }
            // A refusal could let the call pass.
            assert_eq!(request.validate(), Ok(()));
        }
    }
});
