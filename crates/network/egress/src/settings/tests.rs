//! The rules of `golang.org/x/net/http/httpproxy`, in tables.

use proptest::prelude::*;
use rstest::rstest;

use super::{ProxyScheme, ProxySettings};

fn settings(no_proxy: &str) -> ProxySettings {
    ProxySettings::new("http://plain:3128", "http://secure:3128", no_proxy).unwrap()
}

fn proxy(settings: &ProxySettings, url: &str) -> Option<String> {
    let proxy = settings.proxy_for(&url.parse().unwrap());
    proxy.map(ToString::to_string)
}

#[rstest]
#[case::by_scheme("http://quay.io/", Some("http://plain:3128"))]
#[case::by_scheme("https://quay.io/", Some("http://secure:3128"))]
#[case::other_schemes_are_direct("ftp://quay.io/", None)]
#[case::localhost("https://localhost:6443/", None)]
#[case::localhost_in_capitals("https://LOCALHOST:6443/", None)]
#[case::not_a_part_of_localhost("https://api.localhost/", Some("http://secure:3128"))]
#[case::loopback("https://127.0.0.1:6443/", None)]
#[case::loopback("https://127.9.9.9/", None)]
#[case::loopback_v6("https://[::1]:6443/", None)]
#[case::mapped_loopback("https://[::ffff:127.0.0.1]/", None)]
#[case::any_other_address("https://10.0.0.1/", Some("http://secure:3128"))]
fn scheme_and_loopback_decide_without_exceptions(
    #[case] url: &str,
    #[case] expected: Option<&str>,
) {
    assert_eq!(proxy(&settings(""), url).as_deref(), expected);
}

#[rstest]
#[case::domain("foo.com", "https://foo.com/", true)]
#[case::subdomain("foo.com", "https://bar.foo.com/", true)]
#[case::not_a_longer_label("foo.com", "https://barfoo.com/", false)]
#[case::not_the_parent("bar.foo.com", "https://foo.com/", false)]
#[case::leading_dot_excludes_subdomains(".y.com", "https://x.y.com/", true)]
#[case::leading_dot_excludes_subdomains_only(".y.com", "https://y.com/", false)]
#[case::star_label("*.y.com", "https://x.y.com/", true)]
#[case::star_label("*.y.com", "https://y.com/", false)]
#[case::star_is_no_pattern("x*.com", "https://xy.com/", false)]
#[case::everything("*", "https://10.1.2.3/", true)]
#[case::everything("a, * ,b", "https://quay.io/", true)]
#[case::upper_case("FOO.com", "https://foo.COM/", true)]
#[case::spaces(" a , foo.com ", "https://foo.com/", true)]
#[case::only_commas_separate("a foo.com", "https://foo.com/", false)]
#[case::port("foo.com:8443", "https://foo.com:8443/", true)]
#[case::other_port("foo.com:8443", "https://foo.com/", false)]
#[case::usual_port("foo.com:443", "https://foo.com/", true)]
#[case::usual_port_of_http("foo.com:80", "http://foo.com/", true)]
#[case::port_of_subdomains("foo.com:443", "https://a.foo.com/", true)]
#[case::empty_port("foo.com:", "https://foo.com:9/", true)]
#[case::port_that_is_no_number("foo.com:https", "https://foo.com/", false)]
#[case::no_host(":443", "https://foo.com/", false)]
#[case::only_a_dot(".", "https://foo.com/", false)]
#[case::address("1.2.3.4", "https://1.2.3.4/", true)]
#[case::other_address("1.2.3.4", "https://1.2.3.40/", false)]
#[case::address_and_port("1.2.3.4:80", "https://1.2.3.4/", false)]
#[case::address_and_port("1.2.3.4:443", "https://1.2.3.4/", true)]
#[case::cidr("10.0.0.0/8", "https://10.255.0.1:6443/", true)]
#[case::cidr_with_host_bits("10.1.2.3/8", "https://10.255.0.1/", true)]
#[case::outside_of_cidr("10.0.0.0/8", "https://11.0.0.1/", false)]
#[case::cidr_does_not_resolve_names("0.0.0.0/0", "https://foo.com/", false)]
#[case::v6("2001:db8::1", "https://[2001:db8::1]/", true)]
#[case::v6_and_port("[2001:db8::1]:443", "https://[2001:db8::1]/", true)]
#[case::v6_and_other_port("[2001:db8::1]:80", "https://[2001:db8::1]/", false)]
#[case::v6_cidr("2001:db8::/32", "https://[2001:db8:1::2]/", true)]
#[case::mapped_address("1.2.3.4", "https://[::ffff:1.2.3.4]/", true)]
#[case::mapped_address_in_cidr("1.2.3.0/24", "https://[::ffff:1.2.3.4]/", true)]
#[case::domains_never_match_addresses("3.4", "https://1.2.3.4/", false)]
#[case::international_name("bücher.example", "https://www.xn--bcher-kva.example/", true)]
#[case::cluster(
    "10.0.0.0/16,.svc,.cluster.local",
    "https://kubernetes.default.svc:443/",
    true
)]
fn no_proxy_excludes(#[case] no_proxy: &str, #[case] url: &str, #[case] direct: bool) {
    assert_eq!(proxy(&settings(no_proxy), url).is_none(), direct);
}

#[rstest]
#[case("http://proxy:3128", "http://proxy:3128")]
#[case("proxy:3128", "http://proxy:3128")]
#[case("proxy.example.com", "http://proxy.example.com:80")]
#[case("10.0.0.1:3128", "http://10.0.0.1:3128")]
#[case("http://[2001:db8::1]:3128", "http://[2001:db8::1]:3128")]
#[case("https://proxy", "https://proxy:443")]
#[case("socks5://proxy", "socks5://proxy:1080")]
#[case("socks5h://proxy:99", "socks5://proxy:99")]
#[case("user:secret@proxy:3128", "http://proxy:3128")]
#[case(" http://proxy:3128/ ", "http://proxy:3128")]
fn proxies_may_lack_a_scheme(#[case] value: &str, #[case] expected: &str) {
    let settings = ProxySettings::new("", value, "").unwrap();
    assert_eq!(
        proxy(&settings, "https://quay.io/").as_deref(),
        Some(expected)
    );
    assert_eq!(proxy(&settings, "http://quay.io/"), None);
}

#[rstest]
#[case("ftp://user:hunter2@proxy:21", "\"ftp\"")]
#[case("http://user:hunter2@proxy:port", "port")]
fn wrong_values_are_named_without_their_password(#[case] value: &str, #[case] why: &str) {
    let error = ProxySettings::new("", value, "").unwrap_err().to_string();
    assert!(
        error.contains("HTTPS_PROXY") && error.contains(why),
        "{error}"
    );
    assert!(error.contains("http://HOST:PORT"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[rstest]
#[case::upper_case_first(&[("HTTPS_PROXY", "upper"), ("https_proxy", "lower")], Some("http://upper:80"))]
#[case::lower_case(&[("https_proxy", "lower")], Some("http://lower:80"))]
#[case::empty_counts_as_unset(&[("HTTPS_PROXY", ""), ("https_proxy", "lower")], Some("http://lower:80"))]
#[case::all_proxy_is_not_read(&[("ALL_PROXY", "all"), ("HTTP_PROXY", "plain")], None)]
#[case::exceptions(&[("HTTPS_PROXY", "upper"), ("no_proxy", "quay.io")], None)]
fn variables_are_read(#[case] variables: &[(&str, &str)], #[case] expected: Option<&str>) {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let settings = ProxySettings::read(variable).unwrap();
    assert_eq!(proxy(&settings, "https://quay.io/").as_deref(), expected);
}

#[test]
fn credentials_are_decoded_and_never_shown() {
    let url = "http://us%40er:p%3Ass%2Fword@proxy:3128";
    let settings = ProxySettings::new(url, url, "").unwrap();
    let header = settings.authorization(&"http://quay.io/".parse().unwrap());
    let header = header.unwrap();
    assert!(header.is_sensitive());
    assert_eq!(header, "Basic dXNAZXI6cDpzcy93b3Jk");
    // The server would read it.
    assert_eq!(
        settings.authorization(&"https://quay.io/".parse().unwrap()),
        None
    );
    let shown = format!("{settings:?} {}", settings.https.as_ref().unwrap());
    assert!(shown.contains("proxy:3128"), "{shown}");
    assert!(
        !shown.contains("ss/word") && !shown.contains("p%3A"),
        "{shown}"
    );
}

#[test]
fn variables_have_the_same_effect_in_another_program() {
    for (http, https, no_proxy) in [
        (
            "http://us%40er:p%3Ass@proxy:3128",
            "https://proxy",
            ".svc, 10.0.0.0/8",
        ),
        ("", "socks5://[2001:db8::1]", ""),
        ("proxy", "", "*"),
        ("", "", ".svc"),
    ] {
        let settings = ProxySettings::new(http, https, no_proxy).unwrap();
        let variables = settings.variables();
        let read = ProxySettings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        });
        let read = read.unwrap();
        if settings.is_empty() {
            assert!(variables.is_empty(), "{variables:?}");
        } else {
            assert_eq!(read, settings);
        }
    }
}

#[test]
fn proxy_of_a_kubeconfig_has_no_exceptions() {
    let settings = ProxySettings::always("socks5://bastion").unwrap();
    for url in [
        "https://localhost:6443/",
        "http://127.0.0.1/",
        "https://api/",
    ] {
        let proxy = settings.proxy_for(&url.parse().unwrap()).unwrap();
        assert_eq!(proxy.scheme(), ProxyScheme::Socks5);
    }
    assert!(ProxySettings::always("").unwrap().is_empty());
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(proxy in ".{0,40}", no_proxy in ".{0,60}", host in "[a-z0-9.]{1,20}") {
        if let Ok(settings) = ProxySettings::new(&proxy, &proxy, &no_proxy)
            && let Ok(url) = format!("https://{host}/").parse()
        {
            let _ = settings.proxy_for(&url);
        }
    }
}
