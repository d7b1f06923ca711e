use rstest::rstest;

use super::*;

const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const KEY_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn texts_are_the_ones_clients_know() {
    assert_eq!(is_dns1123_subdomain("A"), [SUBDOMAIN_TEXT]);
    assert_eq!(is_dns1123_label("A"), [LABEL_TEXT]);
    assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
    assert_eq!(is_qualified_name("-x"), [format!("name part {KEY_TEXT}")]);
    assert_eq!(
        is_qualified_name("a/b/c"),
        [format!(
            "a valid label key {KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )]
    );
    assert_eq!(
        is_qualified_name("A/b"),
        [format!("prefix part {SUBDOMAIN_TEXT}")]
    );
    assert_eq!(is_qualified_name("/b"), ["prefix part must be non-empty"]);
    assert_eq!(is_path_segment_name(".."), ["may not be '..'"]);
    assert_eq!(
        is_path_segment_name("a/b%"),
        ["may not contain '/'", "may not contain '%'"]
    );
    assert_eq!(
        is_valid_port_num(0),
        ["must be between 1 and 65535, inclusive"]
    );
}

#[rstest]
#[case(is_dns1123_label, &["a", "0", "1--a", "a-1"], &["", "-a", "a-", "a_b", "a.b", "A", "a b"])]
#[case(is_dns1123_subdomain, &["a", "a.b", "0.1", "a--1.b"], &["", ".", "a.", ".a", "a..b", "A.b", "a_b"])]
#[case(is_dns1035_label, &["a", "a-1", "a1"], &["", "0a", "-a", "a-", "a.b"])]
#[case(is_qualified_name, &["simple", "1-n", "a.b/Name_1", "UpperCase"], &["", "a/", "a b", "_x", "x_", "a/b/c", "x/é"])]
#[case(is_valid_label_value, &["", "a", "A_b.c-d", "1"], &["-", "a-", " ", "a b", "é"])]
#[case(is_config_map_key, &["a.b", "A_B", "-", "a..b"], &["", ".", "..", "..a", "a b"])]
#[case(is_wildcard_dns1123_subdomain, &["*.a.b"], &["a.b", "*", "*.", "*.*.a"])]
#[case(is_valid_port_name, &["http", "a1", "1-a"], &["", "1", "A", "a--b", "-a", "a-", "aaaaaaaaaaaaaaaa"])]
#[case(is_valid_percent, &["0%", "93%"], &["", "%", "1", "-1%", "1.5%"])]
#[case(is_http_header_name, &["X-A"], &["", "a b", "a_b"])]
#[case(is_valid_condition_reason, &["A", "A_b,c:d1_"], &["", "1A", "A,", "A b"])]
fn accepted_and_refused(
    #[case] check: fn(&str) -> Vec<String>,
    #[case] good: &[&str],
    #[case] bad: &[&str],
) {
    for value in good {
        assert_eq!(check(value), Vec::<String>::new(), "{value:?}");
    }
    for value in bad {
        assert!(!check(value).is_empty(), "{value:?}");
    }
}

#[test]
fn lengths_count_in_bytes_or_characters_as_upstream_says() {
    assert_eq!(
        is_dns1123_label(&"a".repeat(64)),
        ["must be no more than 63 characters"]
    );
    assert_eq!(
        is_dns1123_subdomain(&"a".repeat(254)),
        ["must be no more than 253 characters"]
    );
    assert_eq!(
        is_valid_label_value(&"a".repeat(64)),
        ["must be no more than 63 bytes"]
    );
    assert_eq!(
        is_qualified_name(&"a".repeat(64)),
        ["name part must be no more than 63 bytes"]
    );
    let long = format!("{}/b", "a".repeat(254));
    assert_eq!(
        is_qualified_name(&long),
        ["prefix part must be no more than 253 bytes"]
    );
}

#[test]
fn a_generate_name_may_end_in_a_dash() {
    assert!(name_is_dns_subdomain("abc-", true).is_empty());
    assert!(!name_is_dns_subdomain("abc-", false).is_empty());
    assert!(!name_is_dns_label("-", true).is_empty());
    assert!(name_is_dns1035_label("a-", true).is_empty());
    assert!(name_is_path_segment("..", true).is_empty());
    assert!(!name_is_path_segment("..", false).is_empty());
}

#[test]
fn addresses_may_have_leading_zeros() {
    for good in ["10.9.8.7", "010.009.8.7", "2001:DB8::1", "::ffff:01.2.3.4"] {
        assert!(parse_ip(good).is_some(), "{good:?}");
    }
    for bad in ["", "10.9.8", "1.2.3.4/8", "256.1.1.1", "x"] {
        assert!(parse_ip(bad).is_none(), "{bad:?}");
    }
    for good in ["10.9.8.7/24", "2001:DB8::/64", "0.0.0.0/0", "10.9.8.0/024"] {
        assert!(parse_cidr(good).is_some(), "{good:?}");
    }
    for bad in ["10.9.8.0", "10.9.8.0/33", "1.2.3.0/+8", "x/8"] {
        assert!(parse_cidr(bad).is_none(), "{bad:?}");
    }
}
