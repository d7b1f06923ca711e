use api::openshift::ClusterVersion;
use jiff::SignedDuration;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::payload::Architecture;

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn release(version: &str, image: &str) -> Release {
    Release {
        version: version.to_owned(),
        image: image.to_owned(),
        ..Release::default()
    }
}

fn entry(state: &str, version: &str, image: &str) -> UpdateHistory {
    UpdateHistory {
        state: state.to_owned(),
        version: version.to_owned(),
        image: image.to_owned(),
        ..UpdateHistory::default()
    }
}

fn described(history: &[UpdateHistory]) -> Vec<String> {
    let minute = |time: &Option<Time>| {
        let minutes = time.as_ref().map(|it| it.0.as_second() / 60);
        minutes.map_or_else(|| "-".to_owned(), |it| it.to_string())
    };
    let entries = history.iter().map(|it| {
        let (from, to) = (minute(&it.started_time), minute(&it.completion_time));
        format!("{} {} {} {from}..{to}", it.state, it.version, it.image)
    });
    entries.collect()
}

/// The seed's story, and corner case 9: an abandoned release stays in the history, with an end time.
#[test]
fn same_version_with_another_image_is_a_new_entry() {
    let mut history = Vec::new();
    let (doing, done) = (
        Progress::default(),
        Progress {
            completed: true,
            ..Progress::default()
        },
    );
    let mut merge = |version: &str, image: &str, progress: &Progress<'_>, minute| {
        merge(&mut history, &release(version, image), progress, at(minute));
        (phase(&history, image), described(&history))
    };
    let (phase, entries) = merge("4.18.0", "single", &doing, 0);
    assert_eq!(phase, Phase::Initializing);
    assert_eq!(entries, ["Partial 4.18.0 single 0..-"]);
    let (phase, _) = merge("4.18.0", "single", &done, 30);
    assert_eq!(phase, Phase::Reconciling);
    let (phase, entries) = merge("4.18.0", "multi", &doing, 60);
    assert_eq!(phase, Phase::Updating);
    assert_eq!(
        entries,
        [
            "Partial 4.18.0 multi 60..-",
            "Completed 4.18.0 single 0..30"
        ]
    );
    // Merging the same state again changes nothing.
    let (_, same) = merge("4.18.0", "multi", &doing, 61);
    assert_eq!(same, entries);
    let (phase, entries) = merge("4.18.1", "multi-1", &doing, 70);
    assert_eq!(phase, Phase::Updating);
    assert_eq!(
        entries,
        [
            "Partial 4.18.1 multi-1 70..-",
            "Partial 4.18.0 multi 60..70",
            "Completed 4.18.0 single 0..30",
        ]
    );
    let (phase, entries) = merge("4.18.1", "multi-1", &done, 90);
    assert_eq!(phase, Phase::Reconciling);
    assert_eq!(entries[0], "Completed 4.18.1 multi-1 70..90");
    let (_, again) = merge("4.18.1", "multi-1", &done, 99);
    assert_eq!(again, entries, "it was complete before");
}

#[rstest]
#[case(("", "i"), ("4.18.0", "i"), 1)]
#[case(("4.18.0", "i"), ("", "i"), 1)]
#[case(("4.18.0", ""), ("4.18.0", "i"), 1)]
#[case(("4.18.0", "i"), ("4.18.1", "i"), 2)]
#[case(("4.18.0", "i"), ("4.18.0", "j"), 2)]
#[case(("", "i"), ("", "j"), 2)]
#[case(("4.18.0", "i"), ("4.18.0", ""), 1)]
fn same_release_is_matched_by_image_or_version(
    #[case] old: (&str, &str),
    #[case] new: (&str, &str),
    #[case] entries: usize,
) {
    let mut history = vec![entry("", old.0, old.1)];
    let desired = release(new.0, new.1);
    merge(&mut history, &desired, &Progress::default(), at(1));
    assert_eq!(history.len(), entries, "{:?}", described(&history));
    if entries == 1 && !new.1.is_empty() {
        let all = (history[0].version.as_str(), history[0].image.as_str());
        assert_eq!(all, (old.0.max(new.0), old.1.max(new.1)));
    }
}

#[test]
fn signatures_and_risks_are_recorded() {
    let mut history = Vec::new();
    let desired = release("4.18.0", "i");
    let progress = Progress {
        completed: false,
        verified: true,
        accepted_risks: Some("r"),
    };
    merge(&mut history, &desired, &progress, at(0));
    merge(&mut history, &desired, &Progress::default(), at(1));
    assert!(history[0].verified);
    assert_eq!(history[0].accepted_risks, "r");
}

/// Oldest first, as they happened: `-` marks partial updates.
fn pruned(versions: &[&str], most: usize) -> Vec<String> {
    let mut history: Vec<_> = versions
        .iter()
        .rev()
        .map(|version| match version.strip_suffix('-') {
            Some(version) => entry("Partial", version, version),
            None => entry("Completed", version, version),
        })
        .collect();
    prune(&mut history, most);
    history.iter().rev().map(|it| it.version.clone()).collect()
}

#[test]
fn least_important_entry_is_pruned() {
    // The five newest and the oldest are kept.
    let newest = ["4.4.1-", "4.4.2-", "4.4.3-", "4.4.4-", "4.4.5-"];
    let all = |middle: &[&'static str]| {
        let mut all = vec!["4.1.0"];
        all.extend(middle);
        all.extend(newest);
        all
    };
    let gone = |middle: &[&'static str]| {
        let all = all(middle);
        let kept = pruned(&all, all.len() - 1);
        let mut gone = all.iter().map(|it| it.trim_end_matches('-'));
        gone.find(|it| !kept.contains(&(*it).to_owned())).unwrap()
    };
    // Partial between two patch releases.
    assert_eq!(gone(&["4.1.1", "4.1.2-", "4.1.3", "4.2.0"]), "4.1.2");
    // No partial update: in the middle of a minor version, the older one.
    assert_eq!(gone(&["4.1.1", "4.1.2", "4.1.3", "4.2.0"]), "4.1.1");
    // Leading to a minor version outranks the middle of one.
    assert_eq!(gone(&["4.1.1", "4.1.2", "4.2.0-", "4.2.1"]), "4.1.1");
    // First and last of a minor version rank highest, except for the newest completed one.
    assert_eq!(gone(&["4.2.0-", "4.2.1", "4.3.0"]), "4.2.0");
}

proptest! {
    #[test]
    fn protected_entries_are_kept(states in prop::collection::vec((any::<bool>(), 0u8..4, 0u8..4), 8..40), most in 7usize..20) {
        let mut history: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(place, (done, minor, patch))| {
                let state = if *done { "Completed" } else { "Partial" };
                entry(state, &format!("4.{minor}.{patch}"), &place.to_string())
            })
            .collect();
        let before = history.clone();
        prune(&mut history, most);
        prop_assert_eq!(history.len(), before.len().min(most));
        prop_assert_eq!(&history[..5], &before[..5]);
        prop_assert_eq!(history.last(), before.last());
        let newest = before.iter().find(|it| it.is_completed());
        prop_assert!(newest.is_none_or(|it| history.contains(it)));
        let mut rest = before.iter();
        prop_assert!(history.iter().all(|it| rest.any(|other| other == it)), "in order");
    }

    #[test]
    fn no_consecutive_duplicate_releases(steps in prop::collection::vec((0u8..3, 0u8..3, any::<bool>()), 1..30)) {
        let mut history = Vec::new();
        for (minute, (version, image, completed)) in steps.iter().enumerate() {
            let desired = release(&format!("4.18.{version}"), &format!("i{image}"));
            let progress = Progress { completed: *completed, ..Progress::default() };
            merge(&mut history, &desired, &progress, at(i64::try_from(minute).unwrap()));
            prop_assert_eq!(&history[0].image, &desired.image);
            prop_assert!(history.iter().skip(1).all(|it| it.completion_time.is_some()));
            prop_assert!(history.windows(2).all(|it| (&it[0].version, &it[0].image) != (&it[1].version, &it[1].image)));
        }
    }
}

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

#[test]
fn changes_are_classified() {
    let image = |host: &str, letter: char| format!("{host}/r@{}", digest(letter));
    let (single, multi) = (image("quay.io", 'a'), image("quay.io", 'b'));
    let mut known = KnownPayloads::default();
    known.add(&single, Architecture::Single(Some("amd64".to_owned())));
    known.add(&multi, Architecture::Multi);
    known.add(&image("quay.io", 'c'), Architecture::Multi);
    known.add(&image("quay.io", 'd'), Architecture::Single(None));
    let history = [
        entry("Partial", "4.18.1", &image("quay.io", 'f')),
        entry("Completed", "4.18.0", &image("quay.io", 'e')),
        entry("Completed", "4.18.0", &image("quay.io", 'd')),
        entry("Completed", "4.18.0", &single),
        entry("Completed", "4.18.0", &image("quay.io", 'c')),
        entry("Completed", "4.18.0", &image("quay.io", 'b')),
        entry("Completed", "4.18.0", &image("mirror.example", 'b')),
        entry("Completed", "4.18.0", "quay.io/r:4.18.0-x86_64"),
        entry("Partial", "4.17.9", "quay.io/r:4.17.9-x86_64"),
        entry("Completed", "4.17.9", "quay.io/r:x"),
    ];
    known.add(&image("mirror.example", 'b'), Architecture::Multi);
    let changes = classify(&history, &known);
    assert_eq!(
        changes,
        [
            Change::Update {
                from: "4.18.0".to_owned(),
                complete: true
            },
            Change::SameVersion,
            Change::Rebuild,
            // Corner case 10: the migration back is not one to multi-arch.
            Change::Back,
            Change::MultiToMulti,
            Change::Remirror,
            Change::SingleToMulti,
            Change::Update {
                from: "4.17.9".to_owned(),
                complete: false
            },
            Change::SameVersion,
            Change::Install,
        ]
    );
    assert_eq!(json!(changes[4]), json!("MultiToMulti"));
}

#[test]
fn cluster_version_reveals_the_architecture() {
    let read = |spec: serde_json::Value, status: serde_json::Value| {
        let object = json!({ "metadata": { "name": "version" }, "spec": spec, "status": status });
        let version: ClusterVersion = serde_json::from_value(object).unwrap();
        KnownPayloads::of(&version)
    };
    let version = |spec, status| read(spec, status).architecture("i");
    let desired = json!({ "version": "4.18.0", "image": "i" });
    let multi = Some(Architecture::Multi);
    assert_eq!(version(json!({}), json!({ "desired": desired })), None);
    let stated = json!({ "version": "4.18.0", "image": "i", "architecture": "Multi" });
    assert_eq!(version(json!({}), json!({ "desired": stated })), multi);
    let request = json!({ "desiredUpdate": { "architecture": "Multi", "version": "4.18.0" } });
    assert_eq!(version(request, json!({ "desired": desired })), multi);
    // A cluster that gets another image by requesting Multi was not multi before.
    let history = json!([
        { "version": "4.18.0", "image": "i" }, { "version": "4.18.0", "image": "old" },
        { "version": "4.17.0", "image": "older" },
    ]);
    let request = json!({ "desiredUpdate": { "architecture": "Multi", "version": "4.18.0" } });
    let known = read(request, json!({ "desired": desired, "history": history }));
    assert_eq!(known.architecture("old"), Some(Architecture::Single(None)));
    assert_eq!(known.architecture("older"), None);
    let loaded = json!({ "desired": desired, "conditions": [{
        "type": "ReleaseAccepted", "status": "True", "reason": "PayloadLoaded",
        "message": "Payload loaded version=\"4.18.0\" image=\"i\" architecture=\"Multi\"",
    }] });
    assert_eq!(version(json!({}), loaded), multi);
}
