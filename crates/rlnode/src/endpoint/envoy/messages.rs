//! The messages of Envoy's rate limit service (`envoy.service.ratelimit.v3`) and of gRPC health, as far as
//! they have a meaning here. Fields that are not listed are skipped.

/// `RateLimitRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitRequest {
    /// Which of Envoy's filters asks.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// What each has a status of its own.
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    /// What a descriptor costs that does not say it itself; 0 means 1.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// `RateLimitDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Descriptor {
    /// Names and values.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// What it costs; 0 is a peek.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<UInt64Value>,
    /// The cost is given back.
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

/// `RateLimitDescriptor.Entry`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `google.protobuf.UInt64Value`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UInt64Value {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds beside.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// `RateLimitResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitResponse {
    /// What Envoy goes by.
    #[prost(enumeration = "Code", tag = "1")]
    pub overall_code: i32,
    /// One for each descriptor, in their order.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    /// What Envoy adds to the response that its client gets.
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    /// Body of the response to a denied request.
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
}

/// `RateLimitResponse.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Code {
    /// Never sent.
    Unknown = 0,
    /// It may go on.
    Ok = 1,
    /// It may not.
    OverLimit = 2,
}

/// `RateLimitResponse.DescriptorStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DescriptorStatus {
    /// Whether this descriptor alone may go on.
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    /// The limit that decided; none where none applies.
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    /// Whole units left.
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    /// Until it is as if untouched.
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// `RateLimitResponse.RateLimit`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimit {
    /// Units per unit of time.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// The unit of time.
    #[prost(enumeration = "Unit", tag = "2")]
    pub unit: i32,
    /// Name of the limit.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// `RateLimitResponse.RateLimit.Unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Unit {
    /// None of the others.
    Unknown = 0,
    /// A second.
    Second = 1,
    /// A minute.
    Minute = 2,
    /// An hour.
    Hour = 3,
    /// A day of 86,400 seconds.
    Day = 4,
    /// Thirty days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// Seven days.
    Week = 7,
}

/// `HeaderValue` of `envoy.config.core.v3`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderValue {
    /// Name, in lower case.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HealthCheckRequest {
    /// Which service; empty: all.
    #[prost(string, tag = "1")]
    pub service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HealthCheckResponse {
    /// How it is.
    #[prost(enumeration = "Serving", tag = "1")]
    pub status: i32,
}

/// `grpc.health.v1.HealthCheckResponse.ServingStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Serving {
    /// Never sent.
    Unknown = 0,
    /// Ask.
    Serving = 1,
    /// Do not.
    NotServing = 2,
    /// There is no such service; only `Watch` says so.
    ServiceUnknown = 3,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// A call as the Python package `xds-protos` 1.85.0 writes it: `RateLimitRequest(domain="edge",
    /// hits_addend=7, descriptors=[...]).SerializeToString()`, the first descriptor with a `limit` of its own,
    /// the others with `hits_addend` 300 and 0.
    const CALL: &[u8] = b"\x0a\x04edge\x12\x1e\x0a\x0a\x0a\x04path\x12\x02/x\x0a\x0a\x0a\x04user\x12\x02\xc3\xa9\
        \x12\x04\x08\x09\x10\x02\x12\x0a\x0a\x03\x0a\x01a\x1a\x03\x08\xac\x02\x12\x0a\x0a\x06\x0a\x01b\x12\x01c\x1a\x00\
        \x18\x07";
    /// `RateLimitResponse(overall_code=OVER_LIMIT, statuses=[...], ...)` of the same package.
    const ANSWER: &[u8] = b"\x08\x02\x12\x02\x08\x01\x12 \x08\x02\x12\x11\x08\x05\x10\x03\x1a\x0bper-address\x18\xff\xff\
        \xff\xff\x0f\"\x03\x08\xd0\x05\x1a\x12\x0a\x0bretry-after\x12\x03720*\x02{}";

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.into(), value: value.into() }
    }

    #[test]
    fn a_call_of_other_code_is_read() {
        let descriptor = |entries, hits: Option<u64>| Descriptor {
            entries,
            hits_addend: hits.map(|value| UInt64Value { value }),
            is_negative_hits: false,
        };
        let call = RateLimitRequest {
            domain: "edge".into(),
            descriptors: vec![
                descriptor(vec![entry("path", "/x"), entry("user", "é")], None),
                descriptor(vec![entry("a", "")], Some(300)),
                descriptor(vec![entry("b", "c")], Some(0)),
            ],
            hits_addend: 7,
        };
        assert_eq!(RateLimitRequest::decode(CALL).expect("a message"), call);
        // That package does not know the field of refunds: number 4, a truth value.
        let refund = Descriptor::decode(&b"\x0a\x03\x0a\x01a\x20\x01"[..]).expect("a message");
        assert!(refund.is_negative_hits);
    }

    #[test]
    fn an_answer_is_what_other_code_writes() {
        let status = |code: Code| DescriptorStatus { code: code.into(), ..Default::default() };
        let limit =
            RateLimit { requests_per_unit: 5, unit: Unit::Hour.into(), name: "per-address".into() };
        let answer = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: vec![
                status(Code::Ok),
                DescriptorStatus {
                    current_limit: Some(limit),
                    limit_remaining: u32::MAX,
                    duration_until_reset: Some(Duration { seconds: 720, nanos: 0 }),
                    ..status(Code::OverLimit)
                },
            ],
            response_headers_to_add: vec![HeaderValue {
                key: "retry-after".into(),
                value: "720".into(),
            }],
            raw_body: b"{}".to_vec(),
        };
        assert_eq!(answer.encode_to_vec(), ANSWER);
    }
}
