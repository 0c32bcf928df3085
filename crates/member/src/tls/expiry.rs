//! When a certificate stops being valid, read from its DER.
//!
//! The verifier of `webpki` checks the dates but does not tell them, and a whole parser of X.509 for
//! one date is too much. This walks the six fields that come before it.

use rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, constructed: the version, which comes first when it is not 1.
const VERSION: u8 = 0xa0;

/// Last moment at which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry {
    /// Unix time, seconds.
    pub unix_s: i64,
}

impl Expiry {
    /// The end of the validity of one certificate; none where it is not X.509.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let mut outer = Der(certificate.as_ref());
        let mut certificate = Der(outer.expect(SEQUENCE)?);
        let mut signed = Der(certificate.expect(SEQUENCE)?);
        if signed.0.first() == Some(&VERSION) {
            signed.expect(VERSION)?;
        }
        signed.expect(INTEGER)?;
        signed.expect(SEQUENCE)?;
        signed.expect(SEQUENCE)?;
        let mut validity = Der(signed.expect(SEQUENCE)?);
        validity.element()?;
        let (tag, text) = validity.element()?;
        unix_s(tag, text).map(|unix_s| Self { unix_s })
    }
}

/// The rest of a run of DER elements.
struct Der<'b>(&'b [u8]);

impl<'b> Der<'b> {
    /// The next element, whatever it is: tag and content.
    fn element(&mut self) -> Option<(u8, &'b [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Two bytes of length reach 64 KiB, more than any certificate that TLS carries well.
            0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
            0x82 => {
                (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, wanted: u8) -> Option<&'b [u8]> {
        self.element().filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280, 4.1.2.5) as Unix time.
fn unix_s(tag: u8, text: &[u8]) -> Option<i64> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = number(text, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => number(text, 4)?,
        _ => return None,
    };
    let (month, rest) = number(rest, 2)?;
    let (day, rest) = number(rest, 2)?;
    let (hour, rest) = number(rest, 2)?;
    let (minute, rest) = number(rest, 2)?;
    let (second, rest) = number(rest, 2)?;
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if rest != b"Z" || !is_date || !is_time {
        return None;
    }
    Some(((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// The first `digits` bytes as a decimal number, and what follows.
fn number(text: &[u8], digits: usize) -> Option<(i64, &[u8])> {
    let (head, rest) = text.split_at_checked(digits)?;
    let value = head.iter().try_fold(0_i64, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })?;
    Some((value, rest))
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar. The year is counted from March, so that
/// the leap day comes last (Hinnant, `days_from_civil`).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_time() {
        assert_eq!(unix_s(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(unix_s(UTC_TIME, b"240229120000Z"), Some(1_709_208_000));
        assert_eq!(unix_s(GENERALIZED_TIME, b"20240301000000Z"), Some(1_709_251_200));
        assert_eq!(unix_s(GENERALIZED_TIME, b"99991231235959Z"), Some(253_402_300_799));
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in [&b""[..], b"70010100000", b"701301000000Z", b"7001010000000", b"7o0101000000Z"]
        {
            assert_eq!(unix_s(UTC_TIME, text), None);
        }
    }

    #[test]
    fn reads_the_date_of_a_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["edge-1".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 5, 17);
        let certificate = params.self_signed(&key).unwrap();
        let expiry = Expiry::of(certificate.der()).unwrap();
        assert_eq!(expiry.unix_s, days_since_1970(2031, 5, 17) * 86_400);
    }

    #[test]
    fn any_cut_of_a_certificate_is_harmless() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["edge-1".to_owned()]).unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        for length in 0..der.len() {
            assert_eq!(Expiry::of(&CertificateDer::from(&der[..length])), None);
        }
    }
}
