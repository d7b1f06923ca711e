use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn host() -> Platform {
    Platform::new("linux", "arm").with_variant("v6")
}

fn with_features(platform: Platform, features: &[&str]) -> Platform {
    Platform {
        os_features: features
            .iter()
            .map(|feature| (*feature).to_owned())
            .collect(),
        ..platform
    }
}

/// From the tables of containerd's `platforms`.
#[rstest]
#[case("linux/arm64", Platform::new("linux", "arm64"))]
#[case("linux/arm64/v8", Platform::new("linux", "arm64").with_variant("v8"))]
#[case("linux/arm64/8", Platform::new("linux", "arm64").with_variant("v8"))]
#[case("linux/aarch64/v9.0", Platform::new("linux", "arm64").with_variant("v9"))]
#[case("linux/arm", Platform::new("linux", "arm"))]
#[case("linux/arm/v6", Platform::new("linux", "arm").with_variant("v6"))]
#[case("linux/arm/v7", Platform::new("linux", "arm").with_variant("v7"))]
#[case("linux/armel", Platform::new("linux", "arm").with_variant("v6"))]
#[case("linux/armhf", Platform::new("linux", "arm"))]
#[case("Linux/x86_64", Platform::new("linux", "amd64"))]
#[case("linux/amd64/v1", Platform::new("linux", "amd64"))]
#[case("linux/amd64/V3", Platform::new("linux", "amd64").with_variant("v3"))]
#[case("linux/i386/v9", Platform::new("linux", "386"))]
#[case("macOS/arm64", Platform::new("darwin", "arm64"))]
#[case("plan10/odd_arch", Platform::new("plan10", "odd_arch"))]
#[case("Aarch64", Platform::new("linux", "arm64"))]
#[case("x86-64", Platform::new("linux", "amd64"))]
#[case("s390x", Platform::new("linux", "s390x"))]
#[case("armhf", Platform::new("linux", "arm"))]
#[case("windows(10.0.17763)/amd64", Platform::new("windows", "amd64").with_os_version("10.0.17763"))]
#[case("windows()/amd64", Platform::new("windows", "amd64"))]
#[case(
    "windows(10.0.17763+win32k)/amd64",
    with_features(Platform::new("windows", "amd64").with_os_version("10.0.17763"), &["win32k"])
)]
#[case("linux(+unsorted+erofs+erofs)/amd64", with_features(Platform::new("linux", "amd64"), &["erofs", "unsorted"]))]
#[case(
    "windows(10.0.17763%2Bbuild.42+win32k)/amd64",
    with_features(Platform::new("windows", "amd64").with_os_version("10.0.17763+build.42"), &["win32k"])
)]
#[case("windows(50%25done)/amd64", Platform::new("windows", "amd64").with_os_version("50%done"))]
#[case("linux(%C3%A9)/amd64", Platform::new("linux", "amd64").with_os_version("é"))]
fn specifiers(#[case] text: &str, #[case] expected: Platform) {
    let found: Platform = text.parse().unwrap();
    assert_eq!(found, expected);
    assert_eq!(found.to_string().parse(), Ok(found));
}

#[rstest]
#[case("linux", "linux/arm/v6")]
#[case("windows(10.0.17763)", "windows(10.0.17763)/arm/v6")]
#[case("macos", "darwin/arm/v6")]
#[case("s390x", "linux/s390x")]
#[case("arm", "linux/arm")]
#[case("linux/amd64", "linux/amd64")]
fn missing_parts_are_those_of_the_host(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(
        Platform::parse_on(text, &host()).unwrap().to_string(),
        expected
    );
}

#[rstest]
#[case("", "part \"\" is malformed")]
#[case("*", "wildcards are not supported")]
#[case("linux/*", "wildcards are not supported")]
#[case("linux", "names no architecture; write linux/amd64")]
#[case("intel", "neither an operating system nor an architecture")]
#[case("amd64(1)", "neither an operating system nor an architecture")]
#[case("linux/", "part \"\" is malformed")]
#[case("/amd64", "part \"\" is malformed")]
#[case("linux//v7", "part \"\" is malformed")]
#[case("linux/amd 64", "part \"amd 64\" is malformed")]
#[case("li.nux/amd64", "part \"li.nux\" is malformed")]
#[case(
    "linux/arm/v7/x",
    "expected os[(version+feature)]/architecture[/variant]"
)]
#[case("linux(/amd64", "options \"\" are malformed")]
#[case("linux(1)x/amd64", "options \"1)x\" are malformed")]
#[case("linux(1+)/amd64", "options \"1+)\" are malformed")]
#[case("linux(%)/amd64", "options \"%)\" are malformed")]
#[case("linux(%2)/amd64", "options \"%2)\" are malformed")]
#[case("linux(%zz)/amd64", "options \"%zz)\" are malformed")]
#[case("linux(%ff)/amd64", "options \"%ff)\" are malformed")]
fn refused(#[case] text: &str, #[case] why: &str) {
    let error = text.parse::<Platform>().unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn long_texts_are_refused_shortly() {
    let error = "x".repeat(2000).parse::<Platform>().unwrap_err();
    assert!(error.to_string().len() < 200);
    let many = format!("linux({})/amd64", "+f".repeat(65));
    assert!(matches!(
        many.parse::<Platform>(),
        Err(PlatformError::Options { .. })
    ));
}

#[rstest]
#[case("I386", "v3", "386", "")]
#[case("386", "v3", "386", "v3")]
#[case("x86_64", "v1", "amd64", "")]
#[case("x86-64", "V2", "amd64", "v2")]
#[case("AArch64", "8", "arm64", "")]
#[case("arm64", "v8.0", "arm64", "")]
#[case("arm64", "9.0", "arm64", "v9")]
#[case("arm64", "v8.1", "arm64", "v8.1")]
#[case("armhf", "", "arm", "v7")]
#[case("armel", "v7", "arm", "v6")]
#[case("arm", "", "arm", "v7")]
#[case("arm", "5", "arm", "v5")]
#[case("arm", "8", "arm", "v8")]
#[case("S390X", "", "s390x", "")]
fn names_of_architectures(
    #[case] name: &str,
    #[case] variant: &str,
    #[case] expected: &str,
    #[case] expected_variant: &str,
) {
    let platform = Platform::new("linux", name)
        .with_variant(variant)
        .normalised();
    assert_eq!(
        (platform.architecture.as_str(), platform.variant.as_str()),
        (expected, expected_variant)
    );
    assert_eq!(known_architecture(name), Some(expected));
}

#[test]
fn unknown_architectures_stay_as_they_are() {
    assert_eq!(known_architecture("vax"), None);
    assert_eq!(known_architecture(""), None);
    assert_eq!(
        Platform::new("linux", "VAX").normalised().architecture,
        "vax"
    );
    assert_eq!(Platform::new("", "amd64").normalised().os, "");
}

#[test]
fn json_is_that_of_an_index() {
    let value = json!({
        "os": "windows", "architecture": "amd64",
        "os.version": "10.0.20348.1", "os.features": ["win32k"], "variant": "v2",
    });
    let platform: Platform = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(
        platform.to_string(),
        "windows(10.0.20348.1+win32k)/amd64/v2"
    );
    assert_eq!(serde_json::to_value(&platform).unwrap(), value);
    let plain = json!({ "os": "linux", "architecture": "amd64" });
    let platform: Platform = serde_json::from_value(plain.clone()).unwrap();
    assert_eq!(serde_json::to_value(&platform).unwrap(), plain);
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({ "os": null, "architecture": null, "variant": null, "os.version": null, "os.features": null }), true)]
#[case(json!({ "features": ["sse4"], "extra": { "deep": [1] } }), true)]
#[case(json!({ "os": 7 }), false)]
#[case(json!({ "os.features": "win32k" }), false)]
#[case(json!({ "os.features": vec!["x"; 65] }), false)]
#[case(json!(null), false)]
fn odd_json(#[case] value: serde_json::Value, #[case] empty: bool) {
    let found = serde_json::from_value::<Platform>(value);
    assert_eq!(found.ok(), empty.then(Platform::default));
}

#[test]
fn shown_on_one_line_whatever_it_is() {
    let odd = Platform::new("li\nnux", "a/b").with_os_version("1 2");
    assert_eq!(odd.to_string(), "li%0Anux(1%202)/a%2Fb");
    assert_eq!(Platform::default().to_string(), "unknown");
    assert_eq!(Platform::new("", "arm64").to_string(), "unknown/arm64");
    assert!(Platform::new("unknown", "Unknown").is_unknown());
    assert!(!Platform::new("", "").is_unknown());
}

proptest! {
    #[test]
    fn normalising_twice_is_normalising_once(os in ".{0,6}|linux|macOS", arch in "(?i)(x86_64|aarch64|arm|armhf|armel|i386|amd64|arm64)|.{0,6}", variant in "v?[0-9](\\.[0-9])?|.{0,4}", features in prop::collection::vec("[a-b]{0,1}", 0..4)) {
        let once = Platform { os_features: features, ..Platform::new(os, arch).with_variant(variant) }.normalised();
        prop_assert_eq!(once.normalised(), once);
    }

    #[test]
    fn display_and_parse_round_trip(text in "(linux|windows|macOS|[a-z]{1,5})(\\([0-9.]{0,8}(\\+([a-z]|%[0-7][0-9a-fA-F]){1,3}){0,2}\\))?(/(arm|arm64|armhf|amd64|x86_64|[a-z0-9]{1,6})(/v?[0-9])?)?|.{0,40}") {
        for platform in [text.parse::<Platform>(), Platform::parse_on(&text, &host())].into_iter().flatten() {
            let shown = platform.to_string();
            prop_assert_eq!(shown.parse::<Platform>(), Ok(platform.clone()));
            let json = serde_json::to_string(&platform).unwrap();
            prop_assert_eq!(serde_json::from_str::<Platform>(&json).unwrap(), platform);
        }
    }
}
