use proptest::prelude::*;
use rstest::rstest;

use super::*;

const BUILDS: [u16; 6] = [17763, 20348, 22621, 25398, 26100, 26200];

fn build(build: u16) -> Version {
    Version::of_build(build)
}

/// The table of the rule that containerd has: a row for every host.
#[rstest]
#[case(17763, [true, false, false, false, false, false])]
#[case(20348, [false, true, false, false, false, false])]
#[case(22621, [false, true, true, false, false, false])]
#[case(25398, [false, true, true, true, false, false])]
#[case(26100, [false, true, true, true, true, false])]
#[case(26200, [false, false, false, false, true, true])]
fn process_isolation(#[case] host: u16, #[case] runs: [bool; 6]) {
    let found = BUILDS.map(|container| build(host).runs(build(container), Isolation::Process));
    assert_eq!(found, runs);
}

#[test]
fn hyper_v_runs_containers_up_to_the_host_build() {
    for host in BUILDS {
        for container in BUILDS {
            assert_eq!(
                build(host).runs(build(container), Isolation::HyperV),
                container <= host
            );
        }
    }
}

#[test]
fn major_and_minor_have_to_be_equal() {
    let other = Version {
        minor: 1,
        ..build(20348)
    };
    assert!(!build(20348).runs(other, Isolation::Process));
    assert!(!build(20348).runs(other, Isolation::HyperV));
}

#[rstest]
#[case("10.0.17763", Some((10, 0, 17763, 0)))]
#[case("10.0.20348.3091", Some((10, 0, 20348, 3091)))]
#[case("10.0.20348.x", Some((10, 0, 20348, 0)))]
#[case("10.0.20348.1.2", Some((10, 0, 20348, 1)))]
#[case("10.0.20348.99999999999", Some((10, 0, 20348, 0)))]
#[case("10.0", None)]
#[case("10..1", None)]
#[case("256.0.1", None)]
#[case("10.0.65536", None)]
#[case("10.0.+1", None)]
#[case("", None)]
#[case("latest", None)]
fn versions(#[case] text: &str, #[case] expected: Option<(u8, u8, u16, u32)>) {
    let found = Version::parse(text).map(|v| (v.major, v.minor, v.build, v.revision));
    assert_eq!(found, expected);
}

#[test]
fn newer_updates_are_greater_as_numbers() {
    let version = |text| Version::parse(text).unwrap();
    assert!(version("10.0.20348.3091") > version("10.0.20348.999"));
}

#[rstest]
#[case("Windows Server 2016 Standard", Some("10.0.14393"))]
#[case("Windows Server 2019 Datacenter", Some("10.0.17763"))]
#[case("Windows Server 2022 Datacenter", Some("10.0.20348"))]
#[case("Windows Server 2025 Datacenter Azure Edition", Some("10.0.26100"))]
#[case("Windows Server Datacenter", None)]
#[case("Debian GNU/Linux 13 (trixie)", None)]
fn product_names_give_builds_where_known(#[case] name: &str, #[case] expected: Option<&str>) {
    let found = Version::of_product(name);
    assert_eq!(found.map(|it| it.to_string()).as_deref(), expected);
    if let Some(product) = found.and_then(Version::product) {
        assert!(name.starts_with(product), "{product}");
    }
}

#[test]
fn labels_omit_the_update_level() {
    let version = Version::parse("10.0.20348.2113").unwrap();
    assert_eq!(version.release().to_string(), "10.0.20348");
}

proptest! {
    #[test]
    fn every_host_runs_itself(major: u8, minor: u8, build: u16, revision: u32) {
        let version = Version { major, minor, build, revision };
        prop_assert!(version.runs(version, Isolation::HyperV));
        prop_assert!(version.runs(version, Isolation::Process));
        prop_assert_eq!(Version::parse(&version.to_string()), Some(version));
    }

    #[test]
    fn hyper_v_runs_everything_process_isolation_runs(host: u16, container: u16) {
        if build(host).runs(build(container), Isolation::Process) {
            prop_assert!(build(host).runs(build(container), Isolation::HyperV));
        }
    }
}
