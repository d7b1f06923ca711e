use proptest::prelude::*;
use rstest::rstest;
use tokio::time::{Duration, Instant};
use url::Url;

use super::*;

fn demand(headers: &[&str]) -> Option<Demand> {
    Demand::read(headers.iter().copied())
}

fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Demand {
    Demand::Bearer {
        realm: realm.to_owned(),
        service: service.map(str::to_owned),
        scope: scope.map(str::to_owned),
    }
}

#[rstest]
#[case(&[r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/fedora:pull""#],
    Some(bearer("https://auth.docker.io/token", Some("registry.docker.io"), Some("repository:library/fedora:pull"))))]
// Schemes and parameter names are case-insensitive; whitespace is free.
#[case(&[r#"bEARER  Realm = "https://a/" , SERVICE = x"#], Some(bearer("https://a/", Some("x"), None)))]
// Unquoted, and an empty scope counts as missing.
#[case(&[r#"Bearer realm=https://a/t,scope="""#], Some(bearer("https://a/t", None, None)))]
#[case(&[r#"Bearer realm="a\"b""#], Some(bearer("a\"b", None, None)))]
// A comma in a quoted text does not end it.
#[case(&[r#"Bearer realm="https://a/",scope="repository:x:pull,push",service="s""#],
    Some(bearer("https://a/", Some("s"), Some("repository:x:pull,push"))))]
// Of several, `Bearer`.
#[case(&[r#"Basic realm="r", Bearer realm="https://a/""#], Some(bearer("https://a/", None, None)))]
#[case(&[r#"Basic realm="r""#, r#"Bearer realm="https://a/""#], Some(bearer("https://a/", None, None)))]
#[case(&[r#"Negotiate, Basic realm="r""#], Some(Demand::Basic))]
#[case(&["Negotiate YWJj==, Basic"], Some(Demand::Basic))]
#[case(&["Basic"], Some(Demand::Basic))]
// A Bearer challenge without a realm cannot be answered.
#[case(&["Bearer"], None)]
#[case(&[r#"Bearer service="x""#, "Basic"], Some(Demand::Basic))]
#[case(&["Digest realm=x"], None)]
#[case(&[r#"realm="https://a/""#], None)]
#[case(&[], None)]
#[case(&["", ",,,", "\"", "=", "Bearer realm=\""], Some(bearer("", None, None)))]
fn challenges_are_read(#[case] headers: &[&str], #[case] expected: Option<Demand>) {
    assert_eq!(demand(headers), expected);
}

#[test]
fn oversized_headers_are_ignored() {
    let long = format!("Bearer realm=\"{}\"", "x".repeat(9000));
    assert_eq!(demand(&[&long]), None);
    let many = format!("{}Basic", "Other, ".repeat(40));
    assert_eq!(demand(&[&many]), None);
}

#[rstest]
#[case(
    "https://auth.docker.io/token",
    "https://registry-1.docker.io",
    true,
    true
)]
#[case("https://auth.docker.io:8443/token?a=b", "https://quay.io", true, true)]
// Never from https to http; over http only to the same host, or without credentials.
#[case(
    "http://auth.docker.io/token",
    "https://registry-1.docker.io",
    false,
    false
)]
#[case(
    "http://registry.example:5000/token",
    "http://registry.example:5000",
    true,
    true
)]
#[case(
    "http://auth.example/token",
    "http://registry.example:5000",
    true,
    false
)]
#[case(
    "http://auth.example/token",
    "http://registry.example:5000",
    false,
    true
)]
#[case(
    "https://auth.example/token",
    "http://registry.example:5000",
    true,
    true
)]
// Internal addresses only if they are the registry's.
#[case(
    "http://169.254.169.254/latest/meta-data",
    "http://registry.example",
    false,
    false
)]
#[case("https://169.254.169.254/", "https://registry.example", false, false)]
#[case("https://10.0.0.1/token", "https://registry.example", false, false)]
#[case("https://10.0.0.1:5000/token", "https://10.0.0.1:5000", true, true)]
#[case("https://10.0.0.1:5001/token", "https://10.0.0.1:5000", true, false)]
#[case("https://127.0.0.1/", "https://registry.example", false, false)]
#[case("https://localhost/", "https://registry.example", false, false)]
#[case("https://a.localhost./", "https://registry.example", false, false)]
#[case("https://0.0.0.0/", "https://registry.example", false, false)]
#[case("https://[::1]/", "https://registry.example", false, false)]
#[case(
    "https://[::ffff:127.0.0.1]/",
    "https://registry.example",
    false,
    false
)]
#[case("https://[fe80::1]/", "https://registry.example", false, false)]
#[case("https://[fd00:ec2::254]/", "https://registry.example", false, false)]
#[case("https://0x7f000001/", "https://registry.example", false, false)]
#[case("https://2130706433/", "https://registry.example", false, false)]
#[case("https://100.64.0.1/", "https://registry.example", false, false)]
#[case("https://8.8.8.8/", "https://registry.example", false, true)]
// The same address with another scheme is another origin.
#[case("http://127.0.0.1:5000/t", "https://127.0.0.1:5000", false, false)]
// Not URLs, or with userinfo.
#[case("/token", "https://registry.example", false, false)]
#[case("ftp://auth.example/", "https://registry.example", false, false)]
#[case("file:///etc/passwd", "https://registry.example", false, false)]
#[case(
    "https://user:pw@auth.example/",
    "https://registry.example",
    false,
    false
)]
#[case("", "https://registry.example", false, false)]
fn realms_are_checked(
    #[case] realm: &str,
    #[case] registry: &str,
    #[case] credentials: bool,
    #[case] accepted: bool,
) {
    let registry = Url::parse(registry).unwrap();
    let found = check(realm, &registry, credentials, &[]);
    assert_eq!(found.is_ok(), accepted, "{found:?}");
}

#[test]
fn configured_realms_are_trusted() {
    let registry = Url::parse("https://127.0.0.1:5000").unwrap();
    let trusted = ["127.0.0.1:5001".to_owned()];
    assert!(check("https://127.0.0.1:5001/token", &registry, true, &trusted).is_ok());
    assert!(check("https://127.0.0.1:5002/token", &registry, true, &trusted).is_err());
}

#[rstest]
#[case("https://quay.io/v2/", "https://cdn.example/x", true)]
#[case("https://quay.io/v2/", "https://10.1.2.3/x", true)]
#[case("https://quay.io/v2/", "https://169.254.169.254/x", false)]
#[case("https://quay.io/v2/", "https://127.0.0.1/x", false)]
#[case("http://127.0.0.1:5000/v2/", "http://127.0.0.1:6000/x", true)]
#[case("http://127.0.0.1:5000/v2/", "http://169.254.169.254/x", false)]
fn redirects_lead_to_no_inner_address(#[case] from: &str, #[case] to: &str, #[case] fine: bool) {
    let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
    assert_eq!(check_literal(&from, &to).is_ok(), fine);
}

#[rstest]
#[case(r#"{"token":"a"}"#, "a", 54)]
#[case(r#"{"access_token":"b","expires_in":300}"#, "b", 270)]
#[case(r#"{"token":"","access_token":"b","expires_in":1}"#, "b", 54)]
#[case(
    r#"{"token":"a","access_token":"b","expires_in":300,"refresh_token":"c"}"#,
    "a",
    270
)]
#[case(r#"{"token":"a","expires_in":-5}"#, "a", 54)]
#[case(r#"{"token":"a","expires_in":99999999999999999999}"#, "a", 54)]
#[case(r#"{"token":"a","expires_in":18446744073709551615}"#, "a", 19440)]
fn tokens_are_read(#[case] body: &str, #[case] value: &str, #[case] seconds: u64) {
    let now = Instant::now();
    let token = Token::read(body.as_bytes(), now).unwrap();
    assert_eq!(token.value.expose(), value);
    assert!(token.is_valid(now + Duration::from_secs(seconds - 1)));
    assert!(!token.is_valid(now + Duration::from_secs(seconds)));
    assert_eq!(format!("{:?}", token.value), "***");
}

#[rstest]
#[case("")]
#[case("[]")]
#[case("{}")]
#[case(r#"{"token":""}"#)]
#[case(r#"{"token":"a\r\nX-Evil: 1"}"#)]
#[case(r#"{"token":7}"#)]
fn invalid_tokens_are_rejected(#[case] body: &str) {
    assert!(Token::read(body.as_bytes(), Instant::now()).is_err());
}

proptest! {
    #[test]
    fn challenges_never_panic(header in "\\PC{0,200}") {
        let _ = demand(&[&header]);
    }

    #[test]
    fn challenges_of_tokens_are_found(
        realm in "[a-z:/.]{1,30}", service in "[a-z.]{1,10}", other in "[A-Z][a-z]{1,8}"
    ) {
        prop_assume!(!other.eq_ignore_ascii_case("bearer"));
        let header = format!("{other} a=b, Bearer service=\"{service}\", realm=\"{realm}\"");
        prop_assert_eq!(demand(&[&header]), Some(bearer(&realm, Some(&service), None)));
    }

    #[test]
    fn realms_never_panic(realm in "\\PC{0,80}") {
        let _ = check(&realm, &Url::parse("https://a.example").unwrap(), true, &[]);
    }

    #[test]
    fn tokens_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Token::read(&body, Instant::now());
    }
}
