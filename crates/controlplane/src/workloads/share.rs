//! A number of pods, or a share of them.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How many `amount` is of `total`; nothing if it is neither a number nor a percentage.
pub(super) fn scaled(amount: &IntOrString, total: i32, round_up: bool) -> Option<i32> {
    let percent: i64 = match amount {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok()?,
    };
    let hundredths = percent.checked_mul(i64::from(total))?;
    let share = if round_up {
        hundredths.checked_add(99)?.div_euclid(100)
    } else {
        hundredths.div_euclid(100)
    };
    i32::try_from(share).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    use rstest::rstest;

    use super::scaled;

    #[rstest]
    #[case::a_number("3", false, Some(3))]
    #[case::all("100%", false, Some(7))]
    #[case::down("50%", false, Some(3))]
    #[case::up("50%", true, Some(4))]
    #[case::none("0%", true, Some(0))]
    #[case::nonsense("half", true, None)]
    fn reads_numbers_and_shares_of_seven(
        #[case] amount: &str,
        #[case] round_up: bool,
        #[case] expected: Option<i32>,
    ) {
        let amount = match amount.parse() {
            Ok(number) => IntOrString::Int(number),
            Err(_) => IntOrString::String(amount.to_owned()),
        };
        assert_eq!(scaled(&amount, 7, round_up), expected);
    }
}
