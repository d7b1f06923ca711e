use rstest::rstest;

use super::*;

#[rstest]
#[case(0.0, 1, 125)]
#[case(1.0, 1, 250)]
#[case(1.0, 2, 500)]
#[case(0.5, 3, 750)]
#[case(1.0, 6, 8000)]
#[case(1.0, 7, 10_000)]
#[case(0.0, 4_000_000_000, 5000)]
#[case(1.0, 0, 250)]
// For any jitter.
#[case(f64::INFINITY, 1, 250)]
#[case(-7.0, 1, 125)]
fn waits_double_up_to_a_limit(
    #[case] chance: f64,
    #[case] failures: u32,
    #[case] milliseconds: u64,
) {
    let retry = Retry {
        chance: Arc::new(move || chance),
        ..Retry::default()
    };
    assert_eq!(retry.wait(failures), Duration::from_millis(milliseconds));
}
