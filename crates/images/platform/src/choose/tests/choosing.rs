//! Single cases: what is chosen, and why nothing is.

use rstest::rstest;

use super::*;

fn node(text: &str) -> Matcher {
    Matcher::node(&platform_of(text))
}

/// An index whose entries say these platforms; what is chosen is known by its position.
fn choose(platforms: &[&str], matcher: Matcher) -> Result<(usize, Why), String> {
    let mut registry = Registry::default();
    let entries: Vec<Value> = platforms
        .iter()
        .enumerate()
        .map(|(n, platform)| stated(&registry.image(&n.to_string(), platform), platform))
        .collect();
    let root = registry.index(&entries);
    let found = registry.search(&root, matcher);
    assert_eq!(
        registry.fetched, 0,
        "entries that say their platform need no reading"
    );
    found
        .map(|found| (found.image.position, found.why))
        .map_err(|why| why.category().to_owned())
}

#[rstest]
#[case(&["linux/amd64", "linux/arm64"], "linux/arm64", (1, Why::Stated))]
#[case(&["linux/amd64", "linux/arm64/v8"], "linux/arm64", (1, Why::Stated))]
// The best, not the first.
#[case(&["linux/386", "linux/amd64"], "linux/amd64", (1, Why::Stated))]
#[case(&["linux/amd64", "linux/amd64/v3"], "linux/amd64/v3", (1, Why::Stated))]
#[case(&["linux/amd64/v4", "linux/amd64", "linux/amd64/v2"], "linux/amd64/v3", (2, Why::Fallback))]
#[case(&["linux/386", "linux/s390x"], "linux/amd64", (0, Why::Fallback))]
#[case(&["linux/arm/v6", "linux/arm/v7"], "linux/arm64", (1, Why::Fallback))]
// Of equals the first.
#[case(&["linux/amd64", "linux/amd64"], "linux/amd64", (0, Why::Stated))]
#[case(&["linux/arm64/v8", "linux/arm64"], "linux/arm64", (0, Why::Stated))]
#[case(
    &["windows(10.0.17763.1)/amd64", "windows(10.0.20348.999)/amd64", "windows(10.0.20348.3091)/amd64"],
    "windows(10.0.20348)/amd64",
    (2, Why::Stated)
)]
fn nodes(#[case] index: &[&str], #[case] wanted: &str, #[case] expected: (usize, Why)) {
    assert_eq!(choose(index, node(wanted)), Ok(expected));
}

#[rstest]
#[case(&["linux/amd64", "linux/arm64", "linux/s390x"], "arm64", (1, Why::Stated))]
#[case(&["linux/amd64", "linux/arm64", "linux/s390x"], "x86_64", (0, Why::Stated))]
#[case(&["windows/amd64", "linux/amd64"], "amd64", (1, Why::Stated))]
#[case(&["linux/arm64/v9", "linux/arm64/v8"], "arm64", (1, Why::Stated))]
#[case(&["linux/amd64/v3"], "amd64", (0, Why::Fallback))]
fn disks(#[case] index: &[&str], #[case] architecture: &str, #[case] expected: (usize, Why)) {
    assert_eq!(
        choose(index, Matcher::architecture("linux", architecture)),
        Ok(expected)
    );
}

#[rstest]
#[case(&["linux/386", "linux/amd64"], Matcher::architecture("linux", "arm64"), "ArchitectureNotFound")]
#[case(&["linux/386"], Matcher::architecture("linux", "amd64"), "ArchitectureNotFound")]
#[case(&["linux/amd64", "windows/arm64"], node("linux/arm64"), "ArchitectureNotFound")]
#[case(&["windows/amd64"], node("linux/amd64"), "OSNotFound")]
#[case(&["linux/amd64/v3", "linux/arm64"], node("linux/amd64"), "VariantNotFound")]
#[case(&["windows(10.0.26100)/amd64"], node("windows(10.0.20348)/amd64"), "OSVersionNotFound")]
#[case(&["linux(+gpu)/amd64"], node("linux/amd64"), "OSFeaturesNotFound")]
#[case(&[], node("linux/amd64"), "EmptyIndex")]
fn nothing(#[case] index: &[&str], #[case] matcher: Matcher, #[case] category: &str) {
    assert_eq!(choose(index, matcher), Err(category.to_owned()));
}

#[test]
fn missing_architecture_lists_the_available_ones() {
    let mut registry = Registry::default();
    let entries = ["linux/s390x", "linux/amd64", "linux/amd64"]
        .map(|platform| stated(&Digest::sha256(platform.as_bytes()), platform));
    let root = registry.index(&entries);
    let why = registry
        .search(&root, Matcher::architecture("linux", "absent"))
        .unwrap_err();
    assert_eq!(
        why.to_string(),
        "choosing an image for linux/absent: the index has none, all are for another architecture; \
         it has linux/amd64, linux/s390x"
    );
    let NoMatch::NotFound {
        available, nearest, ..
    } = why
    else {
        panic!("{why}");
    };
    assert_eq!(nearest, Unfit::Architecture);
    assert_eq!(
        available,
        [platform_of("linux/amd64"), platform_of("linux/s390x")]
    );
}

#[test]
fn attestations_are_left_out() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/arm64");
    let root = registry.index(&[
        attestation(&image),
        stated(&image, "linux/arm64"),
        attestation(&image),
    ]);
    let found = registry.search(&root, node("linux/arm64")).unwrap();
    assert_eq!(
        (found.image.digest, found.image.path),
        (image.clone(), vec![root])
    );
    let root = registry.index(&[attestation(&image)]);
    let why = registry.search(&root, node("linux/arm64")).unwrap_err();
    assert_eq!(
        why,
        NoMatch::Empty {
            wanted: platform_of("linux/arm64"),
            skipped: 1
        }
    );
}

#[test]
fn entries_without_a_platform_are_the_last_resort() {
    let mut registry = Registry::default();
    let (silent_one, stated_one) = (
        registry.image("a", "linux/arm64"),
        registry.image("b", "linux/arm64"),
    );
    let other = registry.image("c", "linux/s390x");
    let root = registry.index(&[silent(&silent_one), stated(&stated_one, "linux/arm64")]);
    let found = registry.search(&root, node("linux/arm64")).unwrap();
    assert_eq!((found.image.digest, found.why), (stated_one, Why::Stated));

    let root = registry.index(&[
        stated(&other, "linux/s390x"),
        silent(&other),
        silent(&silent_one),
    ]);
    let found = registry.search(&root, node("linux/arm64")).unwrap();
    assert_eq!((&found.image.digest, found.why), (&silent_one, Why::Config));
    assert_eq!(found.image.position, 2);
    assert!(found.image.manifest.is_some() && found.image.config.is_some());
    assert_eq!(
        registry.fetched, 4,
        "a manifest and a config of each that is silent"
    );

    let why = registry.search(&root, node("linux/ppc64le")).unwrap_err();
    assert_eq!(why.category(), "ArchitectureNotFound");
    assert!(
        why.to_string().ends_with("it has linux/arm64, linux/s390x"),
        "{why}"
    );
}

/// An empty platform counts as missing.
#[test]
fn empty_platforms_are_read_from_the_config() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/arm64");
    let mut entry = silent(&image);
    entry["platform"] = json!({ "os": "linux", "architecture": "" });
    let root = registry.index(&[entry]);
    assert_eq!(
        registry.search(&root, node("linux/arm64")).unwrap().why,
        Why::Config
    );
}

#[test]
fn indexes_in_indexes_are_opened_in_their_turn() {
    let mut registry = Registry::default();
    let amd64 = registry.image("a", "linux/amd64");
    let arm64 = registry.image("b", "linux/arm64");
    let inner = registry.index(&[stated(&amd64, "linux/amd64"), silent(&arm64)]);
    let outer = registry.index(&[nested(&inner), nested(&inner)]);
    let found = registry.search(&outer, node("linux/arm64")).unwrap();
    assert_eq!(found.image.digest, arm64);
    assert_eq!(found.image.path, [outer.clone(), inner.clone()]);
    // The second time the same index is not read again.
    registry.fetched = 0;
    let why = registry.search(&outer, node("linux/s390x")).unwrap_err();
    assert_eq!(
        (registry.fetched, why.category()),
        (3, "ArchitectureNotFound")
    );
    // An index with a platform that does not match is not opened.
    let mut entry = nested(&inner);
    entry["platform"] = json!({ "os": "windows", "architecture": "amd64" });
    let root = registry.index(&[entry]);
    assert_eq!(
        registry
            .search(&root, node("linux/arm64"))
            .unwrap_err()
            .category(),
        "OSNotFound"
    );
}

/// Neither the Content-Type nor the media type of the entry has to be right.
#[test]
fn entry_without_a_type_is_detected_by_its_content() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/arm64");
    let inner = registry.index(&[stated(&image, "linux/arm64")]);
    for (digest, path) in [(&image, 1), (&inner, 2)] {
        let root = registry.index(&[json!({
            "digest": digest, "size": 1, "platform": { "os": "linux", "architecture": "arm64" },
        })]);
        let found = registry.search(&root, node("linux/arm64")).unwrap();
        assert_eq!(
            (&found.image.digest, found.image.path.len(), found.why),
            (&image, path, Why::Stated)
        );
    }
}

#[test]
fn nesting_has_a_limit() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/arm64");
    let mut root = registry.index(&[stated(&image, "linux/arm64")]);
    for _ in 1..MAX_DEPTH {
        root = registry.index(&[nested(&root)]);
    }
    assert_eq!(
        registry
            .search(&root, node("linux/arm64"))
            .unwrap()
            .image
            .path
            .len(),
        MAX_DEPTH
    );
    let deeper = registry.index(&[nested(&root)]);
    let why = registry.search(&deeper, node("linux/arm64")).unwrap_err();
    assert_eq!(why.category(), "IndexTooLarge");
    assert!(!registry.discover(&deeper).complete);
}

#[test]
fn reading_has_a_limit() {
    let mut registry = Registry::default();
    let entries: Vec<Value> = (0..200)
        .map(|n| silent(&registry.image(&n.to_string(), "linux/s390x")))
        .collect();
    let root = registry.index(&entries);
    let why = registry.search(&root, node("linux/arm64")).unwrap_err();
    assert_eq!(why.category(), "IndexTooLarge");
    assert_eq!(registry.fetched, 2 * MAX_FETCHES);
}

/// Indexes of the greatest size, each of which opens the next before the rest of its own entries.
#[test]
fn waiting_has_a_limit() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/arm64");
    let mut root = registry.index(&[stated(&image, "linux/arm64")]);
    for level in 1..=5 {
        let mut entries = vec![silent(&Digest::sha256(b"gone")); crate::document::MAX_ENTRIES];
        entries[0] = nested(&root);
        root = registry.index(&entries);
        let found = registry.search(&root, node("linux/arm64"));
        let category = found.as_ref().map_err(NoMatch::category).map(|_| ());
        assert_eq!(
            category,
            if level < 5 {
                Ok(())
            } else {
                Err("IndexTooLarge")
            },
            "{level}"
        );
    }
}

#[test]
fn one_image_that_stands_alone() {
    let mut registry = Registry::default();
    let root = registry.image("a", "linux/arm64/v8");
    let found = registry
        .search(&root, Matcher::architecture("linux", "arm64"))
        .unwrap();
    assert_eq!((found.why, found.image.path.len()), (Why::OnlyOne, 0));
    assert_eq!(found.image.digest, root);
    let why = registry
        .search(&root, Matcher::architecture("linux", "amd64"))
        .unwrap_err();
    assert_eq!(why.category(), "NotAnIndex");
    assert_eq!(
        why.to_string(),
        "choosing an image for linux/amd64: this is not an index, but one image for linux/arm64/v8"
    );
}

#[test]
fn an_artifact_is_no_image() {
    let mut registry = Registry::default();
    let chart = registry.push(&json!({
        "schemaVersion": 2,
        "config": { "mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": Digest::sha256(b"x"), "size": 1 },
        "layers": [],
    }));
    let why = registry.search(&chart, node("linux/amd64")).unwrap_err();
    assert_eq!(why.category(), "NotAnImage");
    assert!(why.to_string().contains("helm"), "{why}");
    // In an index it is only one that is left out.
    let image = registry.image("a", "linux/amd64");
    let root = registry.index(&[silent(&chart), silent(&image)]);
    assert_eq!(
        registry
            .search(&root, node("linux/amd64"))
            .unwrap()
            .image
            .digest,
        image
    );
    let listing = registry.discover(&root);
    assert_eq!(
        (listing.images.len(), listing.skipped, listing.complete),
        (1, 1, true)
    );
}

#[test]
fn missing_documents_are_skipped_or_reported() {
    let mut registry = Registry::default();
    let gone = Digest::sha256(b"gone");
    let image = registry.image("a", "linux/amd64");
    let root = registry.index(&[silent(&gone), silent(&image)]);
    assert_eq!(
        registry
            .search(&root, node("linux/amd64"))
            .unwrap()
            .image
            .digest,
        image
    );
    let why = registry.search(&root, node("linux/arm64")).unwrap_err();
    assert_eq!(
        why,
        NoMatch::Unavailable {
            wanted: platform_of("linux/arm64"),
            missing: gone
        }
    );
    let listing = registry.discover(&root);
    assert_eq!((listing.images.len(), listing.complete), (1, false));
}

#[test]
fn unrequested_documents_are_ignored() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/amd64");
    let root = registry.index(&[silent(&image)]);
    let mut search = Search::new(node("linux/amd64"));
    let step = search.begin(root.clone(), registry.document(&root));
    assert!(matches!(step, SearchStep::Fetch(Fetch::Document(_))));
    assert_eq!(search.config(ImageConfig::default()), step);
    let config = search.document(registry.document(&image));
    assert!(matches!(config, SearchStep::Fetch(Fetch::Config(_))));
    assert_eq!(search.document(registry.document(&root)), config);
}

#[test]
fn discovery_lists_all_and_the_best_of_each_architecture() {
    let mut registry = Registry::default();
    let v3 = registry.image("v3", "linux/amd64/v3");
    let amd64 = registry.image("amd64", "linux/amd64");
    let again = registry.image("again", "linux/amd64");
    let arm64 = registry.image("arm64", "linux/arm64/v8");
    let windows = registry.image("windows", "windows/amd64");
    let s390x = registry.image("s390x", "linux/s390x");
    let inner = registry.index(&[silent(&s390x)]);
    let root = registry.index(&[
        stated(&v3, "linux/amd64/v3"),
        stated(&amd64, "linux/amd64"),
        stated(&again, "linux/amd64"),
        nested(&inner),
        stated(&arm64, "linux/arm64/v8"),
        attestation(&arm64),
        stated(&windows, "windows/amd64"),
    ]);
    let listing = registry.discover(&root);
    let shown: Vec<String> = listing
        .images
        .iter()
        .map(|image| image.platform.to_string())
        .collect();
    assert_eq!(
        shown,
        [
            "linux/amd64/v3",
            "linux/amd64",
            "linux/amd64",
            "linux/s390x",
            "linux/arm64/v8",
            "windows/amd64"
        ]
    );
    assert_eq!((listing.skipped, listing.complete), (1, true));
    let best: Vec<(String, &Digest)> = listing
        .by_architecture("linux")
        .into_iter()
        .map(|(architecture, image)| (architecture, &image.digest))
        .collect();
    let expected = [("amd64", &amd64), ("arm64", &arm64), ("s390x", &s390x)];
    assert_eq!(
        best,
        expected.map(|(name, digest)| (name.to_owned(), digest))
    );
    let alone = registry.discover(&arm64);
    assert_eq!(alone.images.len(), 1);
    assert_eq!(alone.images[0].path, []);
}

#[test]
fn the_config_has_the_last_word() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/amd64");
    let root = registry.index(&[stated(&image, "linux/arm64/v8")]);
    let found = registry.search(&root, node("linux/arm64")).unwrap().image;
    let config = |platform: &str| ImageConfig {
        platform: platform_of(platform),
        ..Default::default()
    };
    assert_eq!(found.check(&config("linux/aarch64")), Ok(()));
    let why = found.check(&config("linux/amd64")).unwrap_err();
    assert!(
        why.to_string()
            .ends_with("says that it is for linux/arm64/v8, but its config says linux/amd64"),
        "{why}"
    );
    assert!(found.check(&config("windows/arm64")).is_err());
}

#[test]
fn one_look_at_one_index() {
    let mut registry = Registry::default();
    let image = registry.image("a", "linux/386");
    let root = registry.push(&json!({
        "mediaType": LIST,
        "manifests": [silent(&image), nested(&image), attestation(&image), stated(&image, "linux/386"), stated(&image, "linux/arm64")],
    }));
    let Document::Index(index) = registry.document(&root) else {
        panic!("not an index");
    };
    let matcher = node("linux/amd64");
    let survey = survey(&index, Some(&matcher));
    let order: Vec<(usize, Next)> = survey
        .attempts
        .iter()
        .map(|a| (a.position, a.next))
        .collect();
    assert_eq!(
        order,
        [(3, Next::Take), (0, Next::ReadConfig), (1, Next::Open)]
    );
    assert_eq!(survey.best(&matcher).unwrap().position, 3);
    let refused: Vec<Refusal> = survey.refused.iter().map(|r| r.why.clone()).collect();
    assert_eq!(
        refused,
        [
            Refusal::NoImage(NoImage::Attestation),
            Refusal::Unfit(Unfit::Architecture)
        ]
    );
    let everything = super::super::survey(&index, None);
    assert_eq!(everything.attempts.len(), 4);
    assert_eq!(everything.refused.len(), 1);
}
