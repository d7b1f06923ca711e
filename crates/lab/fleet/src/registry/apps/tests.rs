//! What the images of applications are.

use platform::{Document, Matcher, Search, SearchStep, document};

use super::*;

/// The image that a node finds in an index, or nothing.
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
fn nodes_find_what_is_for_them() {
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
fn they_are_the_same_every_time() {
    let roots =
        |apps: Vec<Shelved>| -> Vec<_> { apps.into_iter().map(|it| it.image.root).collect() };
    assert_eq!(roots(shelved().unwrap()), roots(shelved().unwrap()));
}
