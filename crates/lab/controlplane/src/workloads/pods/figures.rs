//! Numbers in specs and statuses.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// An absolute number, or a percentage of a total; `None` if the text is no percentage.
pub(crate) fn portion(of: &IntOrString, total: i32, round_up: bool) -> Option<i32> {
    let text = match of {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(text) => text,
    };
    let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.checked_mul(total.into())?;
    let whole = hundredths.div_euclid(100);
    let rest = hundredths.rem_euclid(100) != 0;
    i32::try_from(whole + i64::from(rest && round_up)).ok()
}

/// A counter as the API server stores it: zeros are omitted.
pub(crate) fn unless_zero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// The length of a list as a counter.
pub(crate) fn number_of<T>(list: &[T]) -> i32 {
    i32::try_from(list.len()).unwrap_or(i32::MAX)
}
