use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn platform(text: &str) -> Platform {
    text.parse().unwrap()
}

/// Everything that a node runs, the best first.
fn runs(matcher: &Matcher, images: &[&str]) -> Vec<String> {
    let mut good: Vec<(Rank, &str)> = images
        .iter()
        .filter_map(|image| Some((matcher.judge(&platform(image)).ok()?, *image)))
        .collect();
    good.sort_by_key(|(rank, _)| *rank);
    good.into_iter()
        .map(|(_, image)| image.to_owned())
        .collect()
}

/// The order of the list is the one that an index should not depend on.
const LINUX: [&str; 24] = [
    "linux/386",
    "linux/amd64",
    "linux/amd64/v2",
    "linux/amd64/v3",
    "linux/amd64/v4",
    "linux/arm/v4",
    "linux/arm/v5",
    "linux/arm/v6",
    "linux/arm/v7",
    "linux/arm/v8",
    "linux/arm64",
    "linux/arm64/v8.1",
    "linux/arm64/v8.5",
    "linux/arm64/v8.6",
    "linux/arm64/v8.7",
    "linux/arm64/v9",
    "linux/arm64/v9.1",
    "linux/arm64/v9.2",
    "linux/ppc64le",
    "linux/riscv64",
    "linux/s390x",
    "windows/amd64",
    "darwin/arm64",
    "freebsd/amd64",
];

#[rstest]
#[case("linux/amd64", "amd64 386")]
#[case("linux/amd64/v1", "amd64 386")]
#[case("linux/amd64/v3", "amd64/v3 amd64/v2 amd64 386")]
#[case("linux/amd64/v99999999999", "amd64/v4 amd64/v3 amd64/v2 amd64 386")]
#[case("linux/amd64/odd", "386")]
#[case("linux/386", "386")]
#[case("linux/arm", "arm/v7 arm/v6 arm/v5")]
#[case("linux/arm/v8", "arm/v8 arm/v7 arm/v6 arm/v5")]
#[case("linux/arm/v6", "arm/v6 arm/v5")]
#[case("linux/arm/v5", "arm/v5")]
#[case("linux/arm/v4", "arm/v4")]
#[case("linux/arm64", "arm64 arm/v8 arm/v7 arm/v6 arm/v5")]
#[case("linux/arm64/v8.1", "arm64/v8.1 arm64 arm/v8 arm/v7 arm/v6 arm/v5")]
#[case(
    "linux/arm64/v9",
    "arm64/v9 arm64/v8.5 arm64/v8.1 arm64 arm/v8 arm/v7 arm/v6 arm/v5"
)]
#[case(
    "linux/arm64/v9.1",
    "arm64/v9.1 arm64/v9 arm64/v8.6 arm64/v8.5 arm64/v8.1 arm64 arm/v8 arm/v7 arm/v6 arm/v5"
)]
#[case("linux/arm64/v8.10", "")]
#[case("linux/arm64/v9.8", "")]
#[case("linux/arm64/odd", "")]
#[case("linux/s390x", "s390x")]
#[case("linux/ppc64le", "ppc64le")]
#[case("linux/riscv64", "riscv64")]
#[case("linux/ppc64le/power9", "")]
fn nodes_run_platforms_in_order(#[case] node: &str, #[case] expected: &str) {
    let expected: Vec<String> = expected
        .split_whitespace()
        .map(|image| format!("linux/{image}"))
        .collect();
    assert_eq!(runs(&Matcher::node(&platform(node)), &LINUX), expected);
}

#[rstest]
#[case("linux/amd64", &["linux/amd64"])]
#[case("linux/amd64/v2", &["linux/amd64/v2"])]
#[case("linux/arm64/v8", &["linux/arm64"])]
#[case("linux/arm", &["linux/arm/v7"])]
#[case("windows/amd64", &["windows/amd64"])]
fn exactly(#[case] wanted: &str, #[case] expected: &[&str]) {
    assert_eq!(runs(&Matcher::exact(&platform(wanted)), &LINUX), expected);
}

/// The order of an importer that knows nothing but the architecture: the plain form, then variants.
#[rstest]
#[case("amd64", "amd64 amd64/v2 amd64/v3 amd64/v4")]
#[case("x86_64", "amd64 amd64/v2 amd64/v3 amd64/v4")]
#[case(
    "arm64",
    "arm64 arm64/v8.1 arm64/v8.5 arm64/v8.6 arm64/v8.7 arm64/v9 arm64/v9.1 arm64/v9.2"
)]
#[case("arm", "arm/v7 arm/v6 arm/v5 arm/v4 arm/v8")]
#[case("s390x", "s390x")]
#[case("mips", "")]
fn by_architecture_alone(#[case] wanted: &str, #[case] expected: &str) {
    let expected: Vec<String> = expected
        .split_whitespace()
        .map(|image| format!("linux/{image}"))
        .collect();
    assert_eq!(
        runs(&Matcher::architecture("linux", wanted), &LINUX),
        expected
    );
}

#[rstest]
#[case("linux/amd64", "windows/amd64", Unfit::Os)]
#[case("linux/amd64", "linux/s390x", Unfit::Architecture)]
#[case("linux/amd64", "linux/amd64/v2", Unfit::Variant)]
#[case("linux/amd64", "linux(+gpu)/amd64", Unfit::OsFeatures(vec!["gpu".to_owned()]))]
#[case(
    "windows(10.0.17763)/amd64",
    "windows(10.0.20348)/amd64",
    Unfit::OsVersion
)]
#[case("windows(10.0.17763)/amd64", "windows(new)/amd64", Unfit::OsVersion)]
#[case("windows/amd64", "windows/386", Unfit::Architecture)]
fn reasons(#[case] node: &str, #[case] image: &str, #[case] why: Unfit) {
    assert_eq!(
        Matcher::node(&platform(node)).judge(&platform(image)),
        Err(why)
    );
}

#[test]
fn windows_prefers_the_newest_image_by_number() {
    let node = platform("windows(10.0.26100.1)/amd64");
    let images = [
        "windows/amd64",
        "windows(10.0.20348.999)/amd64",
        "windows(10.0.17763.1)/amd64",
        "windows(10.0.20348.3091+win32k)/amd64",
        "windows(10.0.26200.1)/amd64",
    ];
    let expected = [
        "windows(10.0.20348.3091+win32k)/amd64",
        "windows(10.0.20348.999)/amd64",
        "windows/amd64",
    ];
    assert_eq!(runs(&Matcher::node(&node), &images), expected);
    let isolated = runs(&Matcher::isolated(&node, Isolation::HyperV), &images);
    assert_eq!(isolated.len(), 4);
    assert_eq!(isolated[2], "windows(10.0.17763.1)/amd64");
    // Without a version of its own, a host takes everything.
    assert_eq!(
        runs(&Matcher::node(&platform("windows/amd64")), &images).len(),
        5
    );
}

#[test]
fn versions_of_linux_do_not_count() {
    let matcher = Matcher::node(&platform("linux(5.0.1)/amd64"));
    assert!(matcher.matches(&platform("linux(6.1.2)/amd64")));
}

#[test]
fn more_features_that_are_there_are_better() {
    let matcher = Matcher::node(&platform("linux(+gpu+simd)/amd64"));
    let images = [
        "linux/386",
        "linux/amd64",
        "linux(+gpu)/amd64",
        "linux(+gpu+simd)/amd64",
        "linux(+gpu+simd+x)/amd64",
    ];
    let expected = [
        "linux(+gpu+simd)/amd64",
        "linux(+gpu)/amd64",
        "linux/amd64",
        "linux/386",
    ];
    assert_eq!(runs(&matcher, &images), expected);
}

#[test]
fn missing_os_matches_the_requested_one() {
    let image = Platform::new("", "aarch64");
    assert!(Matcher::node(&platform("linux/arm64")).matches(&image));
    assert!(Matcher::architecture("linux", "arm64").matches(&image));
}

fn any_platform() -> impl Strategy<Value = Platform> {
    let arch = prop_oneof![
        Just("amd64"),
        Just("x86_64"),
        Just("386"),
        Just("i386"),
        Just("arm"),
        Just("armhf"),
        Just("armel"),
        Just("arm64"),
        Just("aarch64"),
        Just("s390x"),
        Just(""),
        Just("odd"),
    ];
    let os = prop_oneof![Just("linux"), Just("windows"), Just("Linux"), Just("")];
    let variant = prop_oneof![
        Just(String::new()),
        "v?[0-9]{1,2}(\\.[0-9])?",
        "v[0-9]{5,12}",
        ".{0,4}",
    ];
    let version = prop_oneof![
        Just(String::new()),
        "10\\.0\\.(17763|20348|26100)(\\.[0-9]{1,4})?",
        ".{0,8}"
    ];
    let features = prop::collection::vec("[a-c]|win32k", 0..3);
    (os, arch, variant, version, features).prop_map(|(os, arch, variant, version, features)| {
        Platform {
            os_features: features,
            ..Platform::new(os, arch)
                .with_variant(variant)
                .with_os_version(version)
        }
    })
}

proptest! {
    #[test]
    fn spelling_does_not_matter(node in any_platform(), image in any_platform()) {
        for (written, meant) in [
            (Matcher::node(&node), Matcher::node(&node.normalised())),
            (Matcher::exact(&node), Matcher::exact(&node.normalised())),
            (Matcher::architecture(&node.os, &node.architecture), Matcher::architecture(&node.normalised().os, &node.architecture)),
        ] {
            prop_assert_eq!(&written, &meant);
            prop_assert_eq!(written.judge(&image), written.judge(&image.normalised()));
        }
    }

    #[test]
    fn exact_is_the_best_that_a_node_runs(node in any_platform(), image in any_platform()) {
        let exact = Matcher::exact(&node).judge(&image);
        let found = Matcher::node(&node).judge(&image);
        match (&exact, &found) {
            (Ok(exact), Ok(found)) => {
                prop_assert_eq!(exact, found);
                prop_assert_eq!(found.step(), 0);
            }
            // Only an odd variant of arm64 runs nothing, not even itself.
            (Ok(_), Err(why)) => prop_assert!(*why == Unfit::Variant || *why == Unfit::Architecture, "{why}"),
            (Err(_), Ok(found)) => prop_assert!(found.step() > 0),
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn hyper_v_runs_no_less(node in any_platform(), image in any_platform()) {
        if Matcher::node(&node).matches(&image) {
            prop_assert!(Matcher::isolated(&node, Isolation::HyperV).matches(&image));
        }
    }
}
