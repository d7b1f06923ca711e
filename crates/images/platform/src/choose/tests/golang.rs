//! The index of `golang:latest` in the appendix of the proposal: nine platforms, and for each the entry
//! that is its own.

use rstest::rstest;

use super::*;

/// The entries, in their order.
const ENTRIES: [(&str, &str); 9] = [
    (
        "sha256:a50a9364e9170ab5f5b03389ed33b9271b4a7b6bbb0ab41c4035adb3078927bc",
        "linux/amd64",
    ),
    (
        "sha256:30526a829a37fe2ba8231c06142879f7f6873bc6ebe78bc99674f8ea0e111815",
        "linux/arm/v7",
    ),
    (
        "sha256:a05d345bf4635df552ce9635708676c607d2b833278396470bf5788eea0a4b1c",
        "linux/arm64/v8",
    ),
    (
        "sha256:b11bad2ef5ef90ab7e5589d9a5af51bc3f65335278e73f95b18db2057c0505ae",
        "linux/386",
    ),
    (
        "sha256:a7db5fe778800809dc1cacd6ae4a1c33ce3f4eb8f39d722b358d7fb27b3a1f1c",
        "linux/ppc64le",
    ),
    (
        "sha256:a0a8410be5cb7970e00d98dff42e26afad237c08a746cdf375a1b1ad3e4df08c",
        "linux/s390x",
    ),
    (
        "sha256:a6bf1ef2d20ecbf73d5d1729182a37377bd8820a0871a0422f27bcad6b928d76",
        "windows(10.0.14393.3274)/amd64",
    ),
    (
        "sha256:5141a4422a77e493d48012f65f35c413f4d4ca7da5f450d96227b0c15b3de3e8",
        "windows(10.0.17134.1069)/amd64",
    ),
    (
        "sha256:d22e5bf156af4df25a24cb268e955df3503cd91b50cd43b9bcf4bccf7a3c0804",
        "windows(10.0.17763.805)/amd64",
    ),
];

#[rstest]
#[case("linux/amd64", 0)]
#[case("linux/arm/v7", 1)]
#[case("linux/arm64", 2)]
#[case("linux/386", 3)]
#[case("linux/ppc64le", 4)]
#[case("linux/s390x", 5)]
#[case("windows(10.0.14393.4169)/amd64", 6)]
#[case("windows(10.0.17134.1)/amd64", 7)]
#[case("windows(10.0.17763.5329)/amd64", 8)]
fn each_of_its_platforms_gets_its_own_entry(#[case] node: &str, #[case] position: usize) {
    let mut registry = Registry::default();
    let entries: Vec<Value> = ENTRIES
        .iter()
        .map(|(digest, platform)| stated(&digest.parse().unwrap(), platform))
        .collect();
    let root = registry.index(&entries);
    let found = registry
        .search(&root, Matcher::node(&platform_of(node)))
        .unwrap();
    assert_eq!(found.image.position, position);
    assert_eq!(found.image.digest.to_string(), ENTRIES[position].0);
    assert_eq!(registry.fetched, 0, "the index says it all");
}
