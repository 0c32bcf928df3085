//! Numbers and times in words, for people at a terminal.

use std::time::Duration;

const MS_PER_S: u128 = 1_000;
const S_PER_MIN: u128 = 60;
const S_PER_H: u128 = 3_600;
const S_PER_DAY: u128 = 86_400;

/// A wait, rounded up to the millisecond: `0 ms`, `800 ms`, `1.5 s`, `36 s`, `2 min 5 s`, `1 h`,
/// `3 days 4 h`; `never` for none.
pub(crate) fn wait(wait: Option<Duration>) -> String {
    let Some(wait) = wait else { return "never".to_owned() };
    let ms = wait.as_nanos().div_ceil(1_000_000);
    if ms < MS_PER_S {
        return format!("{ms} ms");
    }
    if ms < 2 * S_PER_MIN * MS_PER_S {
        let fraction = format!("{:03}", ms % MS_PER_S);
        return match fraction.trim_end_matches('0') {
            "" => format!("{} s", ms / MS_PER_S),
            digits => format!("{}.{digits} s", ms / MS_PER_S),
        };
    }
    let seconds = ms.div_ceil(MS_PER_S);
    let (high, high_unit, low, low_unit) = if seconds < S_PER_H {
        (seconds / S_PER_MIN, "min", seconds % S_PER_MIN, "s")
    } else if seconds < 2 * S_PER_DAY {
        (seconds / S_PER_H, "h", (seconds % S_PER_H).div_ceil(S_PER_MIN), "min")
    } else {
        (seconds / S_PER_DAY, "days", (seconds % S_PER_DAY).div_ceil(S_PER_H), "h")
    };
    if low == 0 {
        format!("{high} {high_unit}")
    } else {
        format!("{high} {high_unit} {low} {low_unit}")
    }
}

/// Bytes, rounded to the nearest unit below: `512 B`, `64 KiB`, `3 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    UNITS
        .iter()
        .find(|(_, shift)| bytes >> shift >= 1)
        .map_or_else(|| format!("{bytes} B"), |(unit, shift)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up_and_short() {
        let cases = [
            (0, "0 ms"),
            (1, "1 ms"),
            (799_999_999, "800 ms"),
            (1_500_000_000, "1.5 s"),
            (36_000_000_000, "36 s"),
            (36_000_000_001, "36.001 s"),
            (125_000_000_000, "2 min 5 s"),
            (3_600_000_000_000, "1 h"),
            (3_600_000_000_001, "1 h 1 min"),
            (273_600_000_000_000, "3 days 4 h"),
        ];
        for (ns, words) in cases {
            assert_eq!(wait(Some(Duration::from_nanos(ns))), words);
        }
        assert_eq!(wait(None), "never");
    }

    #[test]
    fn bytes_have_the_largest_unit_that_fits() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(3 << 20), "3 MiB");
        assert_eq!(bytes((1 << 30) - 1), "1023 MiB");
    }
}
