//! Image documents (indexes, manifests, configs) and references.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use platform::choose::MAX_FETCHES;
use platform::media::ACCEPT;
use platform::{
    Digest, Discovery, DiscoveryStep, Document, Fetch, ImageConfig, Matcher, Platform, Reference,
    Search, SearchStep, Source, document,
};

/// A parsed document survives a round trip through JSON, and a search of it ends with a matching
/// image or a reason.
pub fn document(data: &[u8]) {
    let config = document::read_config(data).ok();
    let sent = [None, Some("text/plain")]
        .into_iter()
        .chain(ACCEPT.map(Some));
    for sent in sent {
        let Ok(read) = document::read(data, sent) else {
            continue;
        };
        let written = match &read {
            Document::Index(index) => serde_json::to_vec(index),
            Document::Manifest(manifest) => serde_json::to_vec(manifest),
        };
        let written = written.expect("a parsed document can be serialised");
        assert_eq!(document::read(&written, None).as_ref(), Ok(&read));
        search(&read, config.as_ref());
        discover(&read, config.as_ref());
    }
}

/// Searches for an image; every descriptor resolves to the document itself.
fn search(read: &Document, config: Option<&ImageConfig>) {
    let matcher = Matcher::architecture("linux", "arm64");
    let mut search = Search::new(matcher.clone());
    let mut step = search.begin(Digest::sha256(b"root"), read.clone());
    for _ in 0..=MAX_FETCHES {
        step = match (step, config) {
            (SearchStep::Fetch(Fetch::Document(_)), _) => search.document(read.clone()),
            (SearchStep::Fetch(Fetch::Config(_)), Some(config)) => search.config(config.clone()),
            (SearchStep::Fetch(Fetch::Config(_)), None) => search.unavailable(),
            (SearchStep::Found(found), _) => {
                let platform = &found.image.platform;
                assert!(matcher.matches(platform), "{platform} does not match");
                return;
            }
            (SearchStep::Missing(why), _) => {
                assert!(!why.to_string().is_empty());
                return;
            }
        };
    }
    panic!("it asks for more than {MAX_FETCHES} documents: {step:?}");
}

fn discover(read: &Document, config: Option<&ImageConfig>) {
    let mut discovery = Discovery::new();
    let mut step = discovery.begin(Digest::sha256(b"root"), read.clone());
    for _ in 0..=MAX_FETCHES {
        step = match (step, config) {
            (DiscoveryStep::Fetch(Fetch::Document(_)), _) => discovery.document(read.clone()),
            (DiscoveryStep::Fetch(Fetch::Config(_)), Some(config)) => {
                discovery.config(config.clone())
            }
            (DiscoveryStep::Fetch(Fetch::Config(_)), None) => discovery.unavailable(),
            (DiscoveryStep::Listed(listing), _) => {
                assert!(listing.by_architecture("linux").len() <= listing.images.len());
                return;
            }
        };
    }
    panic!("it asks for more than {MAX_FETCHES} documents: {step:?}");
}

/// A parsed reference survives a round trip through its text, and contains no characters with a meaning for
/// servers, shells or terminals.
pub fn reference(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(reference) = round_trips::<Reference>(text) {
        let safe = |c: char| c.is_ascii_alphanumeric() || "._-/:@[]".contains(c);
        let shown = reference.to_string();
        assert!(shown.chars().all(safe), "{shown:?}");
        let name = reference.name();
        assert!(name.split('/').all(|part| part != ".."), "{name:?}");
    }
    round_trips::<Source>(text);
    round_trips::<Platform>(text);
    round_trips::<Digest>(text);
}

fn round_trips<T>(text: &str) -> Option<T>
where
    T: FromStr<Err: Debug + PartialEq> + Display + Debug + PartialEq,
{
    let read: T = text.parse().ok()?;
    assert_eq!(read.to_string().parse().as_ref(), Ok(&read), "{text:?}");
    Some(read)
}
