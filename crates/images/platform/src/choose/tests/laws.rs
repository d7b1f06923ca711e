//! What holds whatever the index is.

use proptest::prelude::*;

use super::*;

const PLATFORMS: [&str; 14] = [
    "linux/386",
    "linux/amd64",
    "linux/x86_64/v2",
    "linux/amd64/v3",
    "linux/arm/v5",
    "linux/arm/v7",
    "linux/arm64",
    "linux/aarch64/v8",
    "linux/arm64/v9",
    "linux/s390x",
    "linux(+gpu)/amd64",
    "windows(10.0.20348.1)/amd64",
    "windows(10.0.20348.999)/amd64",
    "windows(10.0.26100.1)/amd64",
];

fn wanted() -> impl Strategy<Value = Matcher> {
    let platform = prop::sample::select(&PLATFORMS[..]).prop_map(platform_of);
    (platform, 0..3u8).prop_map(|(platform, rule)| match rule {
        0 => Matcher::node(&platform),
        1 => Matcher::exact(&platform),
        _ => Matcher::architecture(&platform.os, &platform.architecture),
    })
}

fn index_of(platforms: &[&str]) -> Index {
    let manifests = platforms
        .iter()
        .enumerate()
        .map(|(n, platform)| {
            let digest = Digest::sha256(format!("{n}{platform}").as_bytes());
            serde_json::from_value(stated(&digest, platform)).unwrap()
        })
        .collect();
    Index {
        manifests,
        ..Index::default()
    }
}

fn begin(matcher: &Matcher, index: Index) -> SearchStep {
    let root = Digest::sha256(b"root");
    Search::new(matcher.clone()).begin(root, Document::Index(index))
}

/// Documents of all kinds, whose entries lead to each other.
fn document() -> impl Strategy<Value = Document> {
    let entry = (
        0..6u8,
        0..4u8,
        prop::option::of(prop::sample::select(&PLATFORMS[..])),
    );
    let entries = prop::collection::vec(entry, 0..6);
    (entries, any::<bool>()).prop_map(|(entries, is_index)| {
        let entries: Vec<Descriptor> = entries
            .into_iter()
            .map(|(name, kind, platform)| {
                let digest = Digest::sha256(&[name]);
                let mut value = match platform {
                    Some(platform) => stated(&digest, platform),
                    None => silent(&digest),
                };
                match kind {
                    0 => value["mediaType"] = json!(INDEX),
                    1 => value["mediaType"] = json!(""),
                    2 => value["mediaType"] = json!("odd"),
                    _ => {}
                }
                serde_json::from_value(value).unwrap()
            })
            .collect();
        if is_index {
            return Document::Index(Index {
                manifests: entries,
                ..Index::default()
            });
        }
        let config = json!({ "mediaType": CONFIG, "digest": Digest::sha256(b"c"), "size": 1 });
        let bytes = json!({ "config": config, "layers": [] }).to_string();
        read(bytes.as_bytes(), None).unwrap()
    })
}

proptest! {
    /// Shuffled, the choice is as good, and the same if there is only one as good.
    #[test]
    fn order_only_decides_between_equals(
        (platforms, shuffled) in prop::collection::vec(prop::sample::select(&PLATFORMS[..]), 0..10)
            .prop_flat_map(|platforms| (Just(platforms.clone()), Just(platforms).prop_shuffle())),
        matcher in wanted(),
    ) {
        match (begin(&matcher, index_of(&platforms)), begin(&matcher, index_of(&shuffled))) {
            (SearchStep::Found(one), SearchStep::Found(other)) => {
                prop_assert_eq!(one.rank, other.rank);
                prop_assert_eq!(one.why, other.why);
                let best: Vec<usize> = platforms
                    .iter()
                    .enumerate()
                    .filter(|(_, platform)| matcher.judge(&platform_of(platform)) == Ok(one.rank))
                    .map(|(position, _)| position)
                    .collect();
                prop_assert_eq!(best.first(), Some(&one.image.position));
                if best.len() == 1 {
                    prop_assert_eq!(one.image.platform, other.image.platform);
                }
            }
            (one, other) => prop_assert_eq!(one, other),
        }
    }

    /// Nothing that would do is better than what is chosen, and nothing is chosen only if nothing would.
    #[test]
    fn the_best_is_chosen(platforms in prop::collection::vec(prop::sample::select(&PLATFORMS[..]), 0..10), matcher in wanted()) {
        let best = platforms.iter().filter_map(|platform| matcher.judge(&platform_of(platform)).ok()).min();
        let found = match begin(&matcher, index_of(&platforms)) {
            SearchStep::Found(found) => Some(found.rank),
            SearchStep::Missing(_) => None,
            SearchStep::Fetch(fetch) => panic!("{fetch:?}"),
        };
        prop_assert_eq!(found, best);
    }

    /// For every architecture, discovery has what a search for it finds.
    #[test]
    fn discovery_agrees_with_search(platforms in prop::collection::vec(prop::sample::select(&PLATFORMS[..]), 0..10)) {
        let index = index_of(&platforms);
        let root = Digest::sha256(b"root");
        let step = Discovery::new().begin(root, Document::Index(index.clone()));
        let DiscoveryStep::Listed(listing) = step else {
            panic!("{step:?}");
        };
        prop_assert_eq!(listing.images.len(), platforms.len());
        for (architecture, image) in listing.by_architecture("linux") {
            let step = begin(&Matcher::architecture("linux", &architecture), index.clone());
            let SearchStep::Found(found) = step else {
                panic!("{step:?}");
            };
            prop_assert_eq!(&found.image, image);
        }
    }

    /// A walk terminates for any input, and equal input gives an equal result.
    #[test]
    fn every_walk_ends(root in document(), answers in prop::collection::vec(document(), 1..5), config in prop::sample::select(&PLATFORMS[..]), matcher in wanted(), miss in 0..5usize) {
        let run = || {
            let mut search = Search::new(matcher.clone());
            let mut step = search.begin(Digest::sha256(&[0]), root.clone());
            for turn in 0..=2 * MAX_FETCHES {
                step = match step {
                    SearchStep::Fetch(_) if turn % 5 == miss => search.unavailable(),
                    SearchStep::Fetch(Fetch::Document(_)) => search.document(answers[turn % answers.len()].clone()),
                    SearchStep::Fetch(Fetch::Config(_)) => search.config(ImageConfig {
                        platform: platform_of(config),
                        ..ImageConfig::default()
                    }),
                    end => return Some(end),
                };
            }
            None
        };
        let end = run();
        prop_assert!(end.is_some(), "it goes on and on");
        prop_assert_eq!(run(), end);
    }
}
