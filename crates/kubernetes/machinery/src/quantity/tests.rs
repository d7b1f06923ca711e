use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn q(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[rstest]
#[case("0", "0")]
#[case("0.5", "500m")]
#[case("1000m", "1")]
#[case("1500m", "1500m")]
#[case("1.5", "1500m")]
#[case("1024Mi", "1Gi")]
#[case("1024Ki", "1Mi")]
#[case("1000Ki", "1000Ki")]
#[case("512Mi", "512Mi")]
#[case("0.5Ki", "512")]
#[case("1.5Ki", "1536")]
#[case("1.1Ki", "1126400m")]
#[case("100k", "100k")]
#[case("1000k", "1M")]
#[case("100000000", "100M")]
#[case("12e6", "12e6")]
#[case("12000e3", "12e6")]
#[case("1e-10", "1e-9")]
#[case("0.1n", "1n")]
#[case("0.0000000001", "1n")]
#[case("-0.0000000001", "-1n")]
#[case("1.0000000001", "1000000001n")]
#[case("8Ei", "9223372036854775807")]
#[case("7Ei", "7Ei")]
#[case("-8Ei", "-9223372036854775807")]
#[case("100Ei", "9223372036854775807")]
#[case("9999999999999999999999Ki", "9223372036854775807")]
#[case("0.0001Ki", "102400u")]
#[case("1E", "1E")]
#[case("0Mi", "0")]
#[case("-1", "-1")]
#[case("-1.5Gi", "-1536Mi")]
#[case(".5", "500m")]
#[case("5.", "5")]
#[case("1000E", "1000E")]
fn canonical_forms(#[case] input: &str, #[case] output: &str) {
    assert_eq!(q(input).canonical(), output);
}

#[rstest]
#[case("+5", "+5")]
#[case("1E3", "1E3")]
#[case("005", "005")]
#[case("1Ki", "1Ki")]
#[case("1.500", "1.500")]
#[case("1.5000", "1500m")]
fn text_close_to_canonical_is_kept(#[case] input: &str, #[case] output: &str) {
    assert_eq!(q(input).to_string(), output);
}

#[rstest]
#[case("", QuantityError::Format)]
#[case("1.2.3", QuantityError::Format)]
#[case("x", QuantityError::Format)]
#[case("1 Gi", QuantityError::Format)]
#[case("1é", QuantityError::Format)]
#[case("1Gi2x", QuantityError::Format)]
#[case("1e", QuantityError::Suffix)]
#[case("1mm", QuantityError::Suffix)]
#[case("1K", QuantityError::Suffix)]
#[case("1Zi", QuantityError::Format)]
#[case("1e99999999999", QuantityError::Suffix)]
#[case("1111111111111111111111111111111111111111", QuantityError::Numeric)]
fn refused(#[case] input: &str, #[case] error: QuantityError) {
    assert_eq!(input.parse::<Quantity>().unwrap_err(), error);
}

#[test]
fn the_error_names_the_pattern() {
    assert_eq!(
        QuantityError::Format.to_string(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn comparison_is_of_the_amount() {
    assert_eq!(q("1000m"), q("1"));
    assert_eq!(q("1Ki"), q("1024"));
    assert!(q("1Ki") > q("1k"));
    assert!(q("-2") < q("-1500m"));
    assert!(q("1e1000") > q("9E"));
    assert!(q("0") > q("-1n"));
    assert!(q("15") < q("2k"));
}

#[test]
fn arithmetic_is_exact_and_keeps_the_format() {
    assert_eq!(
        q("1Gi").checked_add(&q("512Mi")).unwrap().to_string(),
        "1536Mi"
    );
    assert_eq!(q("100m").checked_add(&q("1")).unwrap().to_string(), "1100m");
    assert_eq!(
        q("1").checked_sub(&q("1Mi")).unwrap().to_string(),
        "-1048575"
    );
    assert_eq!(q("0").checked_add(&q("1Ki")).unwrap().to_string(), "1Ki");
    assert_eq!(q("1").negated().to_string(), "-1");
    assert!(q("1e1000").checked_add(&q("1")).is_none());
}

#[test]
fn conversions_round_away_from_zero_and_saturate() {
    assert_eq!(q("1500m").to_i64(), None);
    assert_eq!(q("2k").to_i64(), Some(2000));
    assert_eq!(q("1500m").value(), 2);
    assert_eq!(q("-1500m").value(), -2);
    assert_eq!(q("1.0001").milli_value(), 1001);
    assert_eq!(q("1e30").value(), i64::MAX);
    assert_eq!(q("-1e30").milli_value(), i64::MIN);
    assert!((q("0.1").to_f64() - 0.1).abs() < f64::EPSILON);
    assert_eq!(
        Quantity::from_json(&json!(1.5)).unwrap().to_string(),
        "1500m"
    );
    assert_eq!(Quantity::from_json(&json!(" 2Gi ")).unwrap(), q("2Gi"));
    assert!(Quantity::from_json(&json!(true)).is_err());
    assert_eq!(Quantity::from_milli(1500, Format::DecimalSi), q("1500m"));
    assert_eq!(
        Quantity::from_i64(2048, Format::BinarySi).to_string(),
        "2Ki"
    );
}

proptest! {
    #[test]
    fn printing_is_canonical_and_keeps_the_amount(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,8})?(Ki|Mi|Gi|n|u|m|k|M|G|e[0-9]|)") {
        let quantity = q(&text);
        let printed = quantity.canonical();
        let again = q(&printed);
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.canonical(), printed);
    }

    #[test]
    fn order_follows_the_difference(a in any::<i64>(), b in any::<i64>(), x in -9i32..9, y in -9i32..9) {
        let (a, b) = (q(&format!("{a}e{x}")), q(&format!("{b}e{y}")));
        let difference = a.checked_sub(&b).unwrap();
        prop_assert_eq!(difference.sign(), match a.cmp(&b) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        });
        prop_assert_eq!(difference.checked_add(&b).unwrap(), a);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9.eEinumkKMGTP+-]{0,20}|.*") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value(), quantity.to_f64());
        }
    }
}
