//! Lookup by name, before and after a new revision.

use super::*;
use crate::registry::catalog::{Architecture, image};
use crate::registry::holdings::Publication;

const FEDORA: &str = "containerdisks/fedora";

fn holdings(of: &str, revisions: &Revisions) -> Holdings {
    let data = [(of.to_owned(), revisions.text())].into();
    Holdings::read(&data, None, |error| panic!("{error}"))
}

fn tag(library: &Library, name: &str) -> Option<Document> {
    library
        .document(FEDORA, &Name::Tag(name.to_owned()))
        .unwrap()
}

#[test]
fn old_revisions_are_served_until_dropped() {
    let fedora = image("fedora").unwrap();
    let mut revisions = Revisions::first(fedora);
    let library = Library::new(holdings("fedora", &revisions), Vec::new());
    let first = tag(&library, "latest").unwrap();
    assert_eq!(tag(&library, "latest-1"), Some(first.clone()));
    revisions
        .publish(fedora, Publication::One(Architecture::Arm64))
        .unwrap();
    library.hold(holdings("fedora", &revisions));
    let second = tag(&library, "latest").unwrap();
    assert_ne!(second, first);
    assert_eq!(tag(&library, "latest-2"), Some(second));
    assert_eq!(tag(&library, "latest-1"), Some(first.clone()));
    let by_digest = Name::Digest(first.digest.clone());
    assert_eq!(
        library.document(FEDORA, &by_digest).unwrap(),
        Some(first.clone())
    );
    assert_eq!(
        library.tags(FEDORA).unwrap(),
        ["latest", "latest-1", "latest-2"]
    );
    for _ in 0..crate::registry::MAX_REVISIONS {
        revisions.publish(fedora, Publication::Rebuild).unwrap();
    }
    library.hold(holdings("fedora", &revisions));
    assert!(tag(&library, "latest").is_some());
    assert!(tag(&library, "latest-1").is_none());
    let kept = library.made.lock().published.len();
    assert!(library.document(FEDORA, &by_digest).unwrap().is_none());
    assert!(kept <= crate::registry::MAX_REVISIONS);
    let made = library.made.lock();
    assert!(made.published.len() <= crate::registry::MAX_REVISIONS);
    assert!(made.layers.len() <= CACHED_LAYERS);
}

#[test]
fn restart_keeps_digests() {
    let revisions = Revisions::first(image("fedora").unwrap());
    let one = Library::new(holdings("fedora", &revisions), Vec::new());
    let other = Library::new(holdings("fedora", &revisions), Vec::new());
    assert_eq!(tag(&one, "latest"), tag(&other, "latest"));
}

#[test]
fn content_is_scoped_to_its_repository() {
    let revisions = Revisions::first(image("fedora").unwrap());
    let library = Library::new(holdings("fedora", &revisions), Vec::new());
    let found = tag(&library, "latest").unwrap();
    let name = Name::Digest(found.digest);
    let other = "containerdisks/debian";
    assert!(library.document(other, &name).unwrap().is_none());
    assert_eq!(library.tags("containerdisks/vista"), None);
    let two = library.tags("containerdisks/centos-stream").unwrap();
    assert_eq!(two, ["10", "10-1", "9", "9-1"]);
}
