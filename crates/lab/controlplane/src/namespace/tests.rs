use std::time::Duration;

use rstest::rstest;

use super::next_look;

#[rstest]
#[case::just_now(15, 0, 1)]
#[case::a_while_ago(15, 12, 3)]
#[case::long_ago(15, 3600, 8)]
#[case::long_grace(600, 3600, 301)]
fn retry_interval_grows_with_the_estimate(
    #[case] estimate: u64,
    #[case] since: u64,
    #[case] seconds: u64,
) {
    let wait = next_look(Duration::from_secs(estimate), Duration::from_secs(since));
    assert_eq!(wait.as_millis() / 1000, u128::from(seconds));
}
