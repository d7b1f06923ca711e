//! Handler names.

use rstest::rstest;

use super::*;

#[rstest]
#[case("runhcs-wcow-process", Some(Handler::PROCESS))]
#[case("runhcs-wcow-hypervisor-17763", Some(Handler::hyper_v(17763)))]
#[case("runhcs-wcow-hypervisor", Some(Handler { isolation: Isolation::HyperV, build: None }))]
#[case("runc", None)]
#[case("runhcs-wcow-hypervisors", None)]
#[case("", None)]
fn handler_names_are_parsed(#[case] name: &str, #[case] expected: Option<Handler>) {
    assert_eq!(Handler::parse(name), expected);
    if let Some(handler) = expected {
        assert_eq!(handler.to_string(), name);
    }
}

#[test]
fn custom_hyper_v_handler_has_no_build() {
    let handler = Handler::parse("runhcs-wcow-hypervisor-big").unwrap();
    assert_eq!(
        (handler.isolation, handler.build),
        (Isolation::HyperV, None)
    );
}

#[test]
fn handler_of_a_build_has_its_platform() {
    let platform = Handler::hyper_v(17763).platform("amd64").unwrap();
    assert_eq!(platform.to_string(), "windows(10.0.17763)/amd64");
    assert_eq!(Handler::PROCESS.platform("amd64"), None);
}
