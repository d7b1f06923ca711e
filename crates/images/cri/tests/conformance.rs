//! What critest checks of image services, spec by spec, and what the kubelet relies on.

use std::time::Duration;

use cri::api::{self, AuthConfig};
use futures::future::join_all;
use rstest::rstest;
use serde_json::json;
use testkit::{PASSWORD, Registry, RegistryOptions, Tar, USERNAME};
use tonic::Code;

use crate::node::{NodeFixture, Wishes, named, rootfs, which};

#[tokio::test(flavor = "multi_thread")]
async fn public_images_by_tag_without_tag_and_by_digest() {
    let mut world = NodeFixture::new().await;
    let tagged = world.simple("tagged:test", "tagged");
    let latest = world.simple("untagged:latest", "latest");
    let untagged = world.name("untagged");
    let node = world.node(world.wishes());
    let client = &node.client;

    let id = client.pull(named(&tagged), None).await.unwrap();
    let found = client.status(named(&tagged)).await.unwrap().unwrap();
    assert_eq!(found.id, id);
    assert_eq!(found.repo_tags, [tagged.as_str()]);
    assert!(found.size > 0);
    client.remove(named(&id)).await.unwrap();
    assert_eq!(client.status(named(&tagged)).await.unwrap(), None);

    client.pull(named(&untagged), None).await.unwrap();
    let found = client.status(named(&untagged)).await.unwrap().unwrap();
    assert_eq!(found.repo_tags, [latest.as_str()]);
    assert_eq!(found.repo_digests.len(), 1);
    let by_digest = found.repo_digests[0].clone();
    client.remove(named(&latest)).await.unwrap();

    client.pull(named(&by_digest), None).await.unwrap();
    let found = client.status(named(&by_digest)).await.unwrap().unwrap();
    assert_eq!(found.repo_tags, Vec::<String>::new());
    assert_eq!(found.repo_digests, [by_digest.as_str()]);
    // A tag besides a digest is ignored.
    let (name, digest) = by_digest.split_once('@').unwrap();
    let both = format!("{name}:whatever@{digest}");
    client.pull(named(&both), None).await.unwrap();
    let found = client.status(named(&both)).await.unwrap().unwrap();
    assert_eq!(found.repo_tags, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_deadline_is_reported() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("late:1", "late");
    let node = world.node(world.wishes());
    let soon = node.client.within(Duration::from_millis(1));
    let late = soon.pull(named(&image), None).await.unwrap_err();
    // The client also enforces the deadline, and reports another code if it is first.
    let told = [Code::DeadlineExceeded, Code::Cancelled];
    assert!(told.contains(&late.code()), "{late}");
    node.client.pull(named(&image), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_references_lead_to_the_same_answer() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("all:1", "all");
    let node = world.node(world.wishes());
    let client = &node.client;
    let id = client.pull(named(&image), None).await.unwrap();
    let found = client.status(named(&image)).await.unwrap().unwrap();
    let hash = id.strip_prefix("sha256:").unwrap();
    for reference in [&id, hash, &hash[..13], &found.repo_digests[0]] {
        let again = client.status(named(reference)).await.unwrap();
        assert_eq!(again.as_ref(), Some(&found), "{reference}");
    }
    for nonsense in ["", "UPPER", "sha256:12", "ffffffffffff"] {
        assert_eq!(client.status(named(nonsense)).await.unwrap(), None);
    }
    // Filters are for names, repositories and ids.
    for filter in [image.as_str(), image.trim_end_matches(":1"), &id, hash] {
        let listed = client.list(Some(named(filter))).await.unwrap();
        assert_eq!(listed, std::slice::from_ref(&found), "{filter}");
    }
    assert_eq!(client.list(Some(named("all:2"))).await.unwrap(), []);
    let all = client.list(Some(named(""))).await.unwrap();
    assert_eq!(all, [found]);
}

#[rstest]
#[case("1002", Some(1002), "")]
#[case("www-data", None, "www-data")]
#[case("1003:users", Some(1003), "")]
#[case("www-data:www-data", None, "www-data")]
#[case("", None, "")]
#[tokio::test(flavor = "multi_thread")]
async fn user_of_an_image_is_reported(
    #[case] user: &str,
    #[case] uid: Option<i64>,
    #[case] username: &str,
) {
    let mut world = NodeFixture::new().await;
    let config = json!({"os": "linux", "architecture": "amd64", "config": {"User": user}});
    let image = world.image(&config, "user");
    let image = world.push(&image, "user:1");
    let node = world.node(world.wishes());
    node.client.pull(named(&image), None).await.unwrap();
    let found = node.client.status(named(&image)).await.unwrap().unwrap();
    assert_eq!(found.uid.map(|uid| uid.value), uid);
    assert_eq!(found.username, username);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_and_tags_are_counted_right() {
    let mut world = NodeFixture::new().await;
    let others: Vec<String> = (1..=3)
        .map(|n| world.simple(&format!("other-{n}:latest"), &n.to_string()))
        .collect();
    let same = world.image(&json!({"os": "linux", "architecture": "amd64"}), "same");
    let mut tags: Vec<String> = (1..=3)
        .map(|n| world.push(&same, &format!("tags:{n}")))
        .collect();
    let second = Registry::start().await.unwrap();
    second
        .push(&world.layout().source("pushed"), "elsewhere:3")
        .unwrap();
    let elsewhere = format!("{}/elsewhere:3", second.host());
    let mut wishes = world.wishes();
    wishes.plain.push(second.host());
    let node = world.node(wishes);
    let client = &node.client;
    let pulled = others.iter().map(|image| client.pull(named(image), None));
    let mut ids: Vec<String> = join_all(pulled)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    for image in client.list(None).await.unwrap() {
        assert_eq!(image.repo_tags.len(), 1);
        client.remove(named(&image.id)).await.unwrap();
    }
    // The same image from two registries is one image with both names.
    tags.push(elsewhere);
    for tag in &tags {
        client.pull(named(tag), None).await.unwrap();
    }
    let listed = client.list(None).await.unwrap();
    assert_eq!(listed.len(), 1);
    let mut found = listed[0].repo_tags.clone();
    found.sort();
    tags.sort();
    assert_eq!(found, tags);
    // Removing one name removes all others.
    client.remove(named(&tags[0])).await.unwrap();
    for tag in &tags {
        assert_eq!(client.status(named(tag)).await.unwrap(), None);
    }
    assert_eq!(client.list(None).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_moves_leaves_the_older_image_its_digest() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("moves:1", "before");
    let node = world.node(world.wishes());
    let client = &node.client;
    let before = client.pull(named(&image), None).await.unwrap();
    world.simple("moves:1", "after");
    let after = client.pull(named(&image), None).await.unwrap();
    assert_ne!(before, after);
    assert_eq!(which(client, named(&image)).await, "after");
    let old = client.status(named(&before)).await.unwrap().unwrap();
    assert_eq!(old.repo_tags, Vec::<String>::new());
    assert_eq!(old.repo_digests.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_removals_succeed() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("gone:1", "gone");
    let node = world.node(world.wishes());
    let client = &node.client;
    let id = client.pull(named(&image), None).await.unwrap();
    assert_eq!(client.list(None).await.unwrap().len(), 1);
    let removals = (0..5).map(|_| async {
        client.remove(named(&id)).await.unwrap();
        assert_eq!(client.status(named(&id)).await.unwrap(), None);
        assert_eq!(client.list(None).await.unwrap(), []);
    });
    join_all(removals).await;
    client.remove(named("never/was:there")).await.unwrap();
    let unnamed = client.remove(named("")).await.unwrap_err();
    assert_eq!(unnamed.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_every_image_once_and_no_empty_message() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("one:0", "one");
    let node = world.node(world.wishes());
    let client = &node.client;
    assert_eq!(
        client.stream().await.unwrap(),
        Vec::<Vec<api::Image>>::new()
    );
    client.pull(named(&image), None).await.unwrap();
    let streamed = client.stream().await.unwrap();
    assert_eq!(streamed, [client.list(None).await.unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_systems_and_version_are_reported() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("fs:1", "fs");
    let node = world.node(world.wishes());
    let client = &node.client;
    let before = client.fs_info().await.unwrap();
    client.pull(named(&image), None).await.unwrap();
    let after = client.fs_info().await.unwrap();
    for info in [&before, &after] {
        let [usage] = info.image_filesystems.as_slice() else {
            panic!("{info:?}");
        };
        assert!(usage.timestamp > 0);
        let place = &usage.fs_id.as_ref().unwrap().mountpoint;
        assert_eq!(*place, node.root.display().to_string());
        assert_eq!(info.container_filesystems.len(), 1);
    }
    let used = |info: &api::ImageFsInfoResponse| {
        let usage = &info.image_filesystems[0];
        (
            usage.used_bytes.unwrap().value,
            usage.inodes_used.unwrap().value,
        )
    };
    assert_eq!(used(&before), (0, 0));
    assert!(used(&after).0 > 1000 && used(&after).1 > 3, "{after:?}");
    client.remove(named(&image)).await.unwrap();
    assert_eq!(used(&client.fs_info().await.unwrap()), (0, 0));

    let version: api::VersionResponse = client.ask(api::VERSION, &api::Nothing {}).await.unwrap();
    assert_eq!(version.runtime_name, "medley");
    let status = "/runtime.v1.RuntimeService/Status";
    let refused = client.ask::<api::Nothing>(status, &api::Nothing {}).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_credentials_are_not_shared() {
    let options = RegistryOptions {
        password: true,
        ..RegistryOptions::default()
    };
    let registry = Registry::start_with(options).await.unwrap();
    let world = NodeFixture::new().await;
    let image = world.image(&json!({"os": "linux", "architecture": "amd64"}), "secret");
    let mut layout = testkit::Layout::new(&world.folder.path().join("layout")).unwrap();
    layout.name("it", &image).unwrap();
    registry.push(&layout.source("it"), "private:1").unwrap();
    let image = format!("{}/private:1", registry.host());
    let node = world.node(Wishes {
        plain: vec![registry.host()],
        ..Wishes::default()
    });
    let client = &node.client;
    let auth = AuthConfig {
        username: USERNAME.to_owned(),
        password: PASSWORD.to_owned(),
        ..AuthConfig::default()
    };
    let wrong = AuthConfig {
        password: "guessed".to_owned(),
        ..auth.clone()
    };
    let elsewhere = AuthConfig {
        server_address: "https://elsewhere.example/v1/".to_owned(),
        ..auth.clone()
    };
    for auth in [None, Some(wrong), Some(elsewhere)] {
        let refused = client.pull(named(&image), auth).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(!refused.message().contains(PASSWORD), "{refused}");
    }
    let here = AuthConfig {
        server_address: registry.host(),
        ..auth
    };
    client.pull(named(&image), Some(here)).await.unwrap();
    // Without credentials, a cached private image is not returned.
    let refused = client.pull(named(&image), None).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let both = AuthConfig {
        auth: "dGVzdGVyOmh1bnRlcjI=".to_owned(),
        ..AuthConfig::default()
    };
    client.pull(named(&image), Some(both)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn images_with_equal_layers_share_a_snapshot() {
    let mut world = NodeFixture::new().await;
    let layer = Tar::new().file("shared", 0o644, "shared").finish();
    let make = |label: &str| {
        let config = json!({
            "os": "linux", "architecture": "amd64", "config": {"Labels": {"l": label}},
        });
        world.layout().image_of(&config, &[&layer]).unwrap()
    };
    let (first, second) = (make("a"), make("b"));
    let (first, second) = (world.push(&first, "a:1"), world.push(&second, "b:1"));
    let node = world.node(world.wishes());
    let client = &node.client;
    let ids = (
        client.pull(named(&first), None).await.unwrap(),
        client.pull(named(&second), None).await.unwrap(),
    );
    assert_ne!(ids.0, ids.1);
    let place = rootfs(client, named(&first)).await;
    assert_eq!(place, rootfs(client, named(&second)).await);
    client.remove(named(&first)).await.unwrap();
    assert!(place.join("shared").is_file());
    client.remove(named(&second)).await.unwrap();
    assert!(!place.exists());
}
