use proptest::prelude::*;
use rstest::rstest;

use super::*;

const GIB: u64 = 1 << 30;

#[rstest]
#[case(5 * GIB, 5_690_831_668)]
#[case(10 * GIB, 11_381_663_335)]
#[case(30 * GIB, 34_144_990_004)]
fn filesystem_overhead_is_added(#[case] bytes: u64, #[case] expected: u64) {
    assert_eq!(required(Overhead::DEFAULT, bytes), expected);
    assert_eq!(required(Overhead::NONE, bytes), bytes);
}

#[test]
fn usable_size_excludes_overhead() {
    assert_eq!(usable(Overhead::DEFAULT, 10 * GIB), 10_129_244_160);
    assert_eq!(usable(Overhead::NONE, 10 * GIB), 10 * GIB);
}

#[rstest]
#[case("0.06", Some(Overhead::DEFAULT))]
#[case("0", Some(Overhead::NONE))]
#[case("1", Some(Overhead(10_000)))]
#[case(".5", Some(Overhead(5_000)))]
#[case("0.055", Some(Overhead(550)))]
#[case("1.1", None)]
#[case("", None)]
#[case("a", None)]
#[case("-1", None)]
#[case("99999999999999999999", None)]
fn overheads_are_read(#[case] text: &str, #[case] expected: Option<Overhead>) {
    assert_eq!(Overhead::parse(text), expected);
}

proptest! {
    #[test]
    fn required_size_is_usable(bytes in 0_u64..(1 << 50), parts in 0_u64..=10_000) {
        let overhead = Overhead(parts);
        prop_assert!(usable(overhead, required(overhead, bytes)) >= bytes.div_ceil(MIB) * MIB);
    }

    #[test]
    fn nothing_overflows(bytes: u64, parts in 0_u64..=10_000) {
        let overhead = Overhead(parts);
        prop_assert!(required(overhead, bytes) >= bytes.min(u64::MAX - MIB) / 2);
        prop_assert!(usable(overhead, bytes) <= bytes);
    }
}
