use platform::{Matcher, MediaType};

use super::*;

fn target(handler: &str, platform: &str) -> Target {
    let platform: Platform = platform.parse().unwrap();
    Target {
        handler: handler.to_owned(),
        matcher: Matcher::node(&platform),
        platform,
        annotations: BTreeMap::new(),
    }
}

/// An image with a content, a name and a target.
fn record(content: &str, name: &str, target: &Target) -> Record {
    let digest = Digest::sha256(content.as_bytes());
    Record {
        id: digest.clone(),
        handler: target.handler.clone(),
        wanted: target.platform.clone(),
        annotations: BTreeMap::new(),
        pulled_as: name.to_owned(),
        user_specified: String::new(),
        tags: BTreeSet::from([name.to_owned()]),
        digests: BTreeSet::from([format!("example.com/a@{digest}")]),
        root: digest.clone(),
        documents: BTreeSet::from([digest.clone()]),
        manifest: digest.clone(),
        config: digest.clone(),
        platform: target.platform.clone(),
        layers: vec![Descriptor {
            media_type: MediaType::default(),
            digest: Digest::sha256(b"layer"),
            size: 7,
            platform: None,
            artifact_type: String::new(),
            annotations: BTreeMap::new(),
        }],
        chain: digest,
        size: 7,
        user: String::new(),
        pulled: Timestamp::UNIX_EPOCH,
    }
}

fn open(folder: &tempfile::TempDir) -> Records {
    Records::open(&folder.path().join("images.json")).unwrap()
}

const NAME: &str = "example.com/a:1";

#[test]
fn records_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = open(&folder);
    assert_eq!(records.all(), []);
    let linux = target("", "linux/amd64");
    let id = records.add(record("a", NAME, &linux)).unwrap();
    let again = open(&folder);
    assert_eq!(again.all(), records.all());
    assert_eq!(records.remove(&id).unwrap().unwrap().id, id);
    assert_eq!(records.remove(&id).unwrap(), None);
    assert_eq!(open(&folder).all(), []);
    let path = folder.path().join("images.json");
    fs::write(&path, r#"{"version":2,"images":[]}"#).unwrap();
    let error = Records::open(&path).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
}

#[test]
fn name_refers_to_one_image_per_target() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = open(&folder);
    let (linux, arm) = (target("", "linux/amd64"), target("arm", "linux/arm64"));
    let first = records.add(record("a", NAME, &linux)).unwrap();
    records.add(record("b", NAME, &arm)).unwrap();
    let second = records.add(record("c", NAME, &linux)).unwrap();
    assert_ne!(first, second);
    let named = Named::read(NAME);
    assert_eq!(records.find(&named, Some(&linux)).unwrap().id, second);
    let of_arm = records.find(&named, Some(&arm)).unwrap();
    assert_eq!(of_arm.tags, BTreeSet::from([NAME.to_owned()]));
    let old = records.find(&Named::Id(first), None).unwrap();
    assert_eq!(old.tags, BTreeSet::new());
    // Adding the same image again changes only its names.
    assert_eq!(records.add(record("c", "other:1", &linux)).unwrap(), second);
    assert_eq!(records.all().len(), 3);
}

/// A kubelet removes images by their ids alone, so that no two may share one.
#[test]
fn ids_are_unique_for_equal_contents() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = open(&folder);
    let targets = [
        target("", "linux/amd64"),
        target("kata", "linux/amd64"),
        target("", "linux/arm64"),
    ];
    let mut ids: Vec<Digest> = targets
        .iter()
        .map(|target| records.add(record("same", NAME, target)).unwrap())
        .collect();
    assert_eq!(ids[0], Digest::sha256(b"same"));
    for (id, target) in ids.clone().iter().zip(&targets) {
        let found = records.find(&Named::read(NAME), Some(target)).unwrap();
        assert_eq!(found.id, *id);
        assert_eq!(records.add(record("same", NAME, target)).unwrap(), *id);
    }
    // A handler given with an id has to be the handler of that image.
    let by_id = Named::Id(ids[1].clone());
    assert!(records.find(&by_id, Some(&targets[0])).is_some());
    assert!(
        records
            .find(&by_id, Some(&target("other", "linux/amd64")))
            .is_none()
    );
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}
