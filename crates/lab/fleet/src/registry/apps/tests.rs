//! Platforms of the application images.

use platform::{Document, Matcher, Search, SearchStep, document};

use super::*;

/// The image a node selects from an index, or an empty string.
fn found(repository: &str, node: &str) -> String {
    let apps = shelved().unwrap();
    let app = apps.iter().find(|app| app.repository == repository);
    let published = &app.unwrap().image;
    let root = published.root.clone().unwrap();
    let (_, media_type, bytes) = published
        .documents
        .iter()
        .find(|(digest, ..)| *digest == root)
        .unwrap();
    let read: Document = document::read(bytes, Some(media_type.as_str())).unwrap();
    let mut search = Search::new(Matcher::node(&node.parse().unwrap()));
    match search.begin(root, read) {
        SearchStep::Found(found) => found.image.platform.to_string(),
        SearchStep::Missing(_) => String::new(),
        SearchStep::Fetch(fetch) => panic!("{fetch:?}"),
    }
}

#[test]
fn nodes_select_their_platform() {
    let windows = |node: &str| found("apps/windows", node);
    assert_eq!(
        windows("windows(10.0.20348)/amd64"),
        "windows(10.0.20348.2849)/amd64"
    );
    assert_eq!(windows("windows(10.0.18362)/amd64"), "");
    assert_eq!(windows("linux/amd64"), "");
    assert_eq!(found("apps/arm64-only", "linux/amd64"), "");
    assert_ne!(found("apps/arm64-only", "linux/arm64"), "");
    assert_ne!(found("apps/everywhere", "linux/s390x"), "");
}

#[test]
fn application_images_are_reproducible() {
    let roots =
        |apps: Vec<StaticImage>| -> Vec<_> { apps.into_iter().map(|it| it.image.root).collect() };
    assert_eq!(roots(shelved().unwrap()), roots(shelved().unwrap()));
}
