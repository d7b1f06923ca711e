//! The same name for several handlers: several images, each visible to its own handler only.

use serde_json::{Value, json};
use tonic::Code;

use crate::node::{NodeFixture, annotated, named, of, which};

const CONFIG: &str = r#"
default = "runc"
[handlers.runc]
[handlers.other]
[handlers.arm]
platform = "linux/arm64"
[plugins."io.containerd.cri.v1.images".runtime_platforms.ws2019]
platform = "windows(10.0.17763)/amd64"
[plugins."io.containerd.cri.v1.images".runtime_platforms.ws2022]
platform = "windows(10.0.20348)/amd64"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.ws2022-hyperv.options]
SandboxPlatform = "windows/amd64"
SandboxOsVersion = "10.0.20348"
SandboxIsolation = 1
[plugins."io.containerd.cri.v1.images".runtime_platforms.ws2016]
platform = "windows(10.0.14393)/amd64"
"#;

/// The index of the proposal, shortened: two Linux platforms, three builds of Windows, and an
/// attestation.
fn mixed(world: &mut NodeFixture, name: &str) -> String {
    let of = |architecture: &str| json!({"os": "linux", "architecture": architecture});
    let build =
        |version: &str| json!({"os": "windows", "architecture": "amd64", "os.version": version});
    let mut images: Vec<Value> = Vec::new();
    for (config, content) in [
        (of("amd64"), "linux/amd64"),
        (of("arm64"), "linux/arm64"),
        (build("10.0.14393.3274"), "14393"),
        (build("10.0.17763.805"), "17763"),
        (build("10.0.20348.2113"), "20348"),
    ] {
        images.push(world.image(&config, content));
    }
    let mut attestation = images[0].clone();
    attestation["platform"] = json!({"os": "unknown", "architecture": "unknown"});
    images.push(attestation);
    let index = world.layout().index(&images).unwrap();
    world.push(&index, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handlers_that_pull_one_name_at_once_get_two_images() {
    let mut world = NodeFixture::new().await;
    let image = mixed(&mut world, "golang:latest");
    let mut wishes = world.wishes();
    wishes.config = Some(CONFIG.to_owned());
    let node = world.node(wishes);
    let client = &node.client;
    let (first, second) = tokio::join!(
        client.pull(of(&image, "ws2019"), None),
        client.pull(of(&image, "ws2022"), None)
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(first, second);
    assert_eq!(which(client, of(&image, "ws2019")).await, "17763");
    assert_eq!(which(client, of(&image, "ws2022")).await, "20348");
    // No other handler has it yet.
    for handler in ["", "arm", "ws2016"] {
        assert_eq!(client.status(of(&image, handler)).await.unwrap(), None);
    }
    for (handler, content) in [
        ("", "linux/amd64"),
        ("arm", "linux/arm64"),
        ("ws2016", "14393"),
        // Hyper-V runs all builds that are not newer than the host, and prefers the newest.
        ("ws2022-hyperv", "20348"),
    ] {
        client.pull(of(&image, handler), None).await.unwrap();
        assert_eq!(which(client, of(&image, handler)).await, content);
    }
    // Ids are unique, and each image reports its handler.
    let all = client.list(None).await.unwrap();
    let mut ids: Vec<&str> = all.iter().map(|image| image.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((all.len(), ids.len()), (6, 6));
    for found in &all {
        let spec = found.spec.as_ref().unwrap();
        assert_eq!(found.repo_tags, [image.as_str()]);
        assert_eq!(spec.image, image);
        let again = client.status(of(&image, &spec.runtime_handler)).await;
        assert_eq!(again.unwrap().as_ref(), Some(found));
    }
    // Removal affects only the image of the handler.
    client.remove(of(&image, "ws2019")).await.unwrap();
    assert_eq!(client.status(of(&image, "ws2019")).await.unwrap(), None);
    assert_eq!(which(client, of(&image, "ws2022")).await, "20348");
    // The kubelet removes by id alone.
    client.remove(named(&second)).await.unwrap();
    assert_eq!(client.status(of(&image, "ws2022")).await.unwrap(), None);
    assert_eq!(which(client, of(&image, "ws2022-hyperv")).await, "20348");
    assert_eq!(which(client, named(&image)).await, "linux/amd64");
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_of_one_platform_have_images_of_their_own() {
    let mut world = NodeFixture::new().await;
    let image = mixed(&mut world, "shared:1");
    let mut wishes = world.wishes();
    wishes.config = Some(CONFIG.to_owned());
    let node = world.node(wishes);
    let client = &node.client;
    let default = client.pull(named(&image), None).await.unwrap();
    let other = client.pull(of(&image, "other"), None).await.unwrap();
    let named_default = client.pull(of(&image, "runc"), None).await.unwrap();
    assert_ne!(default, other);
    assert_ne!(default, named_default);
    // A handler does not see images of another one, even by id.
    assert_eq!(client.status(of(&default, "other")).await.unwrap(), None);
    assert_eq!(client.pull(of(&image, "other"), None).await.unwrap(), other);
    client.remove(named(&default)).await.unwrap();
    assert_eq!(which(client, of(&image, "other")).await, "linux/amd64");
    let left = client.list(None).await.unwrap();
    assert_eq!(left.len(), 2);
    let of_other = client.list(Some(of("", "other"))).await.unwrap();
    assert_eq!(of_other.len(), 1);
    assert_eq!(of_other[0].id, other);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_handlers_are_refused() {
    let mut world = NodeFixture::new().await;
    let image = mixed(&mut world, "a:1");
    let mut wishes = world.wishes();
    wishes.config = Some(CONFIG.to_owned());
    let node = world.node(wishes);
    let client = &node.client;
    for spec in [
        of(&image, "kata"),
        annotated(&image, &[(cri::HANDLER, "kata")]),
    ] {
        let refused = client.pull(spec.clone(), None).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        testkit::has(
            refused.message(),
            &[
                "unknown runtime handler \"kata\"",
                "known are arm, other, runc",
            ],
        );
        assert_eq!(client.status(spec.clone()).await.unwrap(), None);
        client.remove(spec).await.unwrap();
    }
    assert_eq!(client.list(None).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_name_handler_system_and_architecture() {
    let mut world = NodeFixture::new().await;
    let image = mixed(&mut world, "b:1");
    let mut wishes = world.wishes();
    wishes.config = Some(CONFIG.to_owned());
    let node = world.node(wishes);
    let client = &node.client;
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[(cri::HANDLER, "ws2019")], "17763"),
        (&[(cri::ARCHITECTURE, "aarch64")], "linux/arm64"),
        (
            &[(cri::HANDLER, "ws2022"), (cri::OS, "linux")],
            "linux/amd64",
        ),
        (&[("app", "other things that pods say")], "linux/amd64"),
    ];
    for (annotations, content) in cases {
        let spec = annotated(&image, annotations);
        let id = client.pull(spec.clone(), None).await.unwrap();
        assert_eq!(which(client, spec.clone()).await, content);
        let found = client.status(spec).await.unwrap().unwrap();
        assert_eq!(found.id, id);
        let kept = found.spec.unwrap().annotations;
        assert!(!kept.contains_key("app"), "{kept:?}");
    }
    // The field takes precedence over the annotation.
    let mut both = annotated(&image, &[(cri::HANDLER, "ws2019")]);
    both.runtime_handler = "arm".to_owned();
    client.pull(both.clone(), None).await.unwrap();
    assert_eq!(which(client, both).await, "linux/arm64");
    // An image pulled with an annotation differs from the one without.
    assert_eq!(which(client, named(&image)).await, "linux/amd64");
    client
        .remove(annotated(&image, &[(cri::ARCHITECTURE, "arm64")]))
        .await
        .unwrap();
    assert_eq!(which(client, named(&image)).await, "linux/amd64");
    let gone = annotated(&image, &[(cri::ARCHITECTURE, "arm64")]);
    assert_eq!(client.status(gone).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn image_without_matching_platform_is_rejected() {
    let mut world = NodeFixture::new().await;
    let arm = world.image(&json!({"os": "linux", "architecture": "arm64"}), "arm");
    // A single manifest, which containerd would pull for any platform.
    let alone = world.push(&arm, "alone:1");
    let index = world.layout().index(&[arm]).unwrap();
    let index = world.push(&index, "index:1");
    let mut wishes = world.wishes();
    wishes.config = Some(CONFIG.to_owned());
    let node = world.node(wishes);
    for image in [&alone, &index] {
        let refused = node.client.pull(named(image), None).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        testkit::has(refused.message(), &["linux/amd64", "linux/arm64", image]);
        node.client.pull(of(image, "arm"), None).await.unwrap();
    }
}
