//! Quota, garbage collection, pinned images, and damaged stores.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testkit::{Tar, wait_until};
use tonic::Code;

use crate::node::{Node, NodeFixture, named, which};

/// An image of a size, which cannot be compressed.
fn large(world: &mut NodeFixture, name: &str, bytes: usize) -> String {
    let mut dice = name.len() as u64 + 1;
    let noise: Vec<u8> = (0..bytes)
        .map(|_| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
            dice.to_be_bytes()[0]
        })
        .collect();
    let layer = Tar::new()
        .file("etc/which", 0o644, name)
        .file("noise", 0o644, noise)
        .finish();
    let config = json!({"os": "linux", "architecture": "amd64"});
    let image = world.layout().image_of(&config, &[&layer]).unwrap();
    world.push(&image, name)
}

async fn used(node: &Node) -> u64 {
    let info = node.client.fs_info().await.unwrap();
    info.image_filesystems[0].used_bytes.unwrap().value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_kept_and_explained() {
    let mut world = NodeFixture::new().await;
    let first = large(&mut world, "a:1", 300_000);
    let second = large(&mut world, "bb:1", 300_000);
    let mut wishes = world.wishes();
    wishes.limit = Some(1_000_000);
    let node = world.node(wishes);
    let client = &node.client;
    client.pull(named(&first), None).await.unwrap();
    let before = used(&node).await;
    assert!((600_000..1_000_000).contains(&before), "{before}");
    // Its layer fits, its unpacked content does not.
    let refused = client.pull(named(&second), None).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    testkit::has(
        refused.message(),
        &[
            "limit of 1000000",
            "remove images, or raise the limit",
            &second,
        ],
    );
    assert!(used(&node).await <= 1_000_000);
    assert_eq!(which(client, named(&first)).await, "a:1");
    // Once there is space, the pull succeeds; earlier downloads do not count twice.
    client.remove(named(&first)).await.unwrap();
    client.pull(named(&second), None).await.unwrap();
    let third = large(&mut world, "ccc:1", 2_000_000);
    let refused = client.pull(named(&third), None).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(which(client, named(&second)).await, "bb:1");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreferenced_content_is_collected_and_leased_content_stays() {
    let mut world = NodeFixture::new().await;
    let shared = Tar::new().file("shared", 0o644, "shared").finish();
    let config = json!({"os": "linux", "architecture": "amd64"});
    let make = |world: &mut NodeFixture, name: &str| {
        let own = Tar::new().file("etc/which", 0o644, name).finish();
        let image = world.layout().image_of(&config, &[&shared, &own]).unwrap();
        world.push(&image, name)
    };
    let (first, second) = (make(&mut world, "a:1"), make(&mut world, "b:1"));
    let node = world.node(world.wishes());
    let client = &node.client;
    client.pull(named(&first), None).await.unwrap();
    client.pull(named(&second), None).await.unwrap();
    let blobs = node.root.join("blobs/sha256");
    let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
    // Each has a manifest, a config and a layer of its own.
    assert_eq!(count(&blobs), 7);
    client.remove(named(&first)).await.unwrap();
    assert_eq!(count(&blobs), 4);
    assert_eq!(count(&node.root.join("snapshots/sha256")), 1);
    // Concurrent pulls and removals never remove content a pull needs.
    for _ in 0..5 {
        let (pulled, removed) = tokio::join!(
            client.pull(named(&first), None),
            client.remove(named(&second))
        );
        pulled.unwrap();
        removed.unwrap();
        assert_eq!(which(client, named(&first)).await, "a:1");
        let (pulled, removed) = tokio::join!(
            client.pull(named(&second), None),
            client.remove(named(&first))
        );
        pulled.unwrap();
        removed.unwrap();
        assert_eq!(which(client, named(&second)).await, "b:1");
    }
    client.remove(named(&second)).await.unwrap();
    assert_eq!(count(&blobs), 0);
    assert_eq!(used(&node).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_images_are_flagged_and_can_be_removed() {
    let mut world = NodeFixture::new().await;
    let (pause, other) = (
        world.simple("pause:3.10", "pause"),
        world.simple("x:1", "x"),
    );
    let mut wishes = world.wishes();
    wishes.config = Some(format!("pinned = [{pause:?}]\n[handlers.a]"));
    let node = world.node(wishes);
    let client = &node.client;
    for (image, pinned) in [(&pause, true), (&other, false)] {
        client.pull(named(image), None).await.unwrap();
        let found = client.status(named(image)).await.unwrap().unwrap();
        assert_eq!(found.pinned, pinned);
    }
    client.remove(named(&pause)).await.unwrap();
    assert_eq!(client.status(named(&pause)).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_outlive_the_process_and_only_one_process_has_them() {
    let mut world = NodeFixture::new().await;
    let image = world.simple("stays:1", "stays");
    let node = world.node(world.wishes());
    let id = node.client.pull(named(&image), None).await.unwrap();
    let found = node.client.status(named(&image)).await.unwrap();
    let socket = node.socket.clone();
    node.stop().await;
    assert!(!socket.exists());
    let node = world.node(world.wishes());
    assert_eq!(node.client.status(named(&id)).await.unwrap(), found);
    assert_eq!(which(&node.client, named(&image)).await, "stays");
}

/// Damage to the folder of a store.
type Damage = fn(&Path);

/// Damage while the service was stopped, and whether the image survives it.
#[tokio::test(flavor = "multi_thread")]
async fn damage_of_the_store_is_detected() {
    let cases: [(&str, Damage, bool); 8] = [
        ("nothing", |_| {}, true),
        (
            "documents are damaged",
            |root| {
                for blob in fs::read_dir(root.join("blobs/sha256")).unwrap() {
                    fs::write(blob.unwrap().path(), "{}").unwrap();
                }
            },
            false,
        ),
        (
            "blobs are gone",
            |root| {
                fs::remove_dir_all(root.join("blobs")).unwrap();
            },
            false,
        ),
        (
            "the snapshot is gone",
            |root| {
                fs::remove_dir_all(root.join("snapshots")).unwrap();
            },
            false,
        ),
        (
            "the machine stopped before all was on the disk",
            |root| {
                for snapshot in fs::read_dir(root.join("snapshots/sha256")).unwrap() {
                    let about = snapshot.unwrap().path().join("about.json");
                    let text = r#"{"bytes":1,"entries":1,"leftOut":0,"boot":"another"}"#;
                    fs::write(about, text).unwrap();
                }
            },
            false,
        ),
        (
            "what is known is half written",
            |root| {
                let path = root.join("images.json");
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, &text[..text.len() / 2]).unwrap();
            },
            false,
        ),
        (
            "what is known is gone",
            |root| {
                fs::remove_file(root.join("images.json")).unwrap();
            },
            false,
        ),
        (
            "half of everything was left behind",
            |root| {
                fs::create_dir_all(root.join("unpacking/half/rootfs/etc")).unwrap();
                fs::create_dir_all(root.join("trash/old")).unwrap();
                fs::create_dir_all(root.join("snapshots/sha256/nonsense")).unwrap();
                let half = format!("ingest/sha256-{}", "0".repeat(64));
                fs::write(root.join(half), "half").unwrap();
                fs::write(root.join("images.json.part"), "half").unwrap();
            },
            true,
        ),
    ];
    let mut world = NodeFixture::new().await;
    let image = world.simple("survives:1", "survives");
    for (what, happened, survives) in cases {
        let node = world.node(world.wishes());
        node.client.pull(named(&image), None).await.unwrap();
        let root = node.root.clone();
        // The data of the last pull has been synced to disk.
        let chain = fs::read_dir(root.join("snapshots/sha256")).unwrap().next();
        let about = chain.unwrap().unwrap().path().join("about.json");
        wait_until(
            "the snapshot is on the disk",
            Duration::from_mins(1),
            || async { Ok((!fs::read_to_string(&about)?.contains("boot")).then_some(())) },
        )
        .await
        .unwrap();
        node.stop().await;
        happened(&root);
        let node = world.node(world.wishes());
        let found = node.client.status(named(&image)).await.unwrap();
        assert_eq!(found.is_some(), survives, "{what}");
        assert_eq!(
            node.client.list(None).await.unwrap().len(),
            usize::from(survives)
        );
        assert_eq!(fs::read_dir(root.join("unpacking")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(root.join("trash")).unwrap().count(), 0);
        node.client.pull(named(&image), None).await.unwrap();
        assert_eq!(
            which(&node.client, named(&image)).await,
            "survives",
            "{what}"
        );
        node.stop().await;
    }
}
