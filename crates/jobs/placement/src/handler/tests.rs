//! Names of handlers.

use rstest::rstest;

use super::*;

#[rstest]
#[case("runhcs-wcow-process", Some(Handler::PROCESS))]
#[case("runhcs-wcow-hypervisor-17763", Some(Handler::hyper_v(17763)))]
#[case("runhcs-wcow-hypervisor", Some(Handler { isolation: Isolation::HyperV, build: None }))]
#[case("runc", None)]
#[case("runhcs-wcow-hypervisors", None)]
#[case("", None)]
fn names_say_what_runs(#[case] name: &str, #[case] expected: Option<Handler>) {
    assert_eq!(Handler::parse(name), expected);
    if let Some(handler) = expected {
        assert_eq!(handler.to_string(), name);
    }
}

#[test]
fn somebodys_own_handler_of_hyper_v_is_for_no_build() {
    let handler = Handler::parse("runhcs-wcow-hypervisor-big").unwrap();
    assert_eq!(
        (handler.isolation, handler.build),
        (Isolation::HyperV, None)
    );
}

#[test]
fn a_handler_for_a_build_says_its_platform() {
    let platform = Handler::hyper_v(17763).platform("amd64").unwrap();
    assert_eq!(platform.to_string(), "windows(10.0.17763)/amd64");
    assert_eq!(Handler::PROCESS.platform("amd64"), None);
}
