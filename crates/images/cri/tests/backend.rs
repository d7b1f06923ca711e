//! Gradual adoption: requests for other handlers are forwarded unchanged to an existing service.

use bytes::Bytes;
use cri::api::{self, ImageSpec};
use prost::Message as _;
use serde_json::json;
use tonic::Code;

use crate::node::{Node, NodeFixture, Wishes, named, of, which};

/// A node that serves handler `arm` itself, and forwards others to a service in another folder.
fn nodes(world: &NodeFixture) -> (Node, Node) {
    let behind = world.folder.path().join("behind");
    std::fs::create_dir(&behind).unwrap();
    let mut wishes = world.wishes();
    wishes.config = Some("default = \"runc\"\n[handlers.runc]\n[handlers.kata]".to_owned());
    let behind = Node::start(&behind, wishes);
    let mut wishes = world.wishes();
    wishes.config = Some("[handlers.arm]\nplatform = \"linux/arm64\"".to_owned());
    wishes.backend = Some(behind.socket.clone());
    (world.node(wishes), behind)
}

fn index(world: &mut NodeFixture, name: &str) -> String {
    let images: Vec<_> = ["amd64", "arm64"]
        .iter()
        .map(|arch| world.image(&json!({"os": "linux", "architecture": arch}), arch))
        .collect();
    let index = world.layout().index(&images).unwrap();
    world.push(&index, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_that_are_not_ours_are_those_of_the_service_behind() {
    let mut world = NodeFixture::new().await;
    let image = index(&mut world, "both:1");
    let (node, behind) = nodes(&world);
    let client = &node.client;
    let theirs = client.pull(named(&image), None).await.unwrap();
    let ours = client.pull(of(&image, "arm"), None).await.unwrap();
    let kata = client.pull(of(&image, "kata"), None).await.unwrap();
    assert_eq!(which(&behind.client, named(&image)).await, "amd64");
    assert_eq!(which(client, of(&image, "arm")).await, "arm64");
    assert_eq!(which(client, named(&image)).await, "amd64");
    assert_eq!(behind.client.list(None).await.unwrap().len(), 2);
    // All are listed, each once.
    let mut ids: Vec<String> = client
        .list(None)
        .await
        .unwrap()
        .into_iter()
        .map(|image| image.id)
        .collect();
    let mut streamed: Vec<String> = client
        .stream()
        .await
        .unwrap()
        .into_iter()
        .flatten()
        .map(|image| image.id)
        .collect();
    let mut expected = vec![theirs.clone(), ours.clone(), kata];
    expected.sort();
    ids.sort();
    streamed.sort();
    assert_eq!(ids, expected);
    assert_eq!(streamed, expected);
    // An id is resolved by the service that has it.
    for id in &expected {
        assert_eq!(client.status(named(id)).await.unwrap().unwrap().id, *id);
    }
    client.remove(named(&ours)).await.unwrap();
    assert_eq!(client.status(of(&image, "arm")).await.unwrap(), None);
    client.remove(named(&theirs)).await.unwrap();
    assert_eq!(behind.client.status(named(&image)).await.unwrap(), None);
    assert_eq!(client.list(None).await.unwrap().len(), 1);
    // An unknown handler is rejected by name.
    let refused = client.pull(of(&image, "gone"), None).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    testkit::has(refused.message(), &["known are kata, runc"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_services_and_file_systems_are_passed_through() {
    let world = NodeFixture::new().await;
    let (node, behind) = nodes(&world);
    let version: api::VersionResponse = node
        .client
        .ask(api::VERSION, &api::Nothing {})
        .await
        .unwrap();
    assert_eq!(version.runtime_name, "medley");
    let other = "/runtime.v1.RuntimeService/Status";
    let refused = node
        .client
        .ask::<api::Nothing>(other, &api::Nothing {})
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let info = node.client.fs_info().await.unwrap();
    let places: Vec<String> = info
        .image_filesystems
        .iter()
        .map(|usage| usage.fs_id.clone().unwrap().mountpoint)
        .collect();
    let own = [&node.root, &behind.root].map(|root| root.display().to_string());
    assert_eq!(places, own);
    // Containers are where the runtime is.
    assert_eq!(info.container_filesystems.len(), 1);
    let place = info.container_filesystems[0].fs_id.as_ref().unwrap();
    assert_eq!(place.mountpoint, own[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_backend_is_reported_and_may_return() {
    let mut world = NodeFixture::new().await;
    let image = index(&mut world, "later:1");
    let (node, behind) = nodes(&world);
    let client = &node.client;
    behind.stop().await;
    let unavailable = client.pull(named(&image), None).await.unwrap_err();
    assert_eq!(unavailable.code(), Code::Unavailable, "{unavailable}");
    testkit::has(unavailable.message(), &["behind/cri.sock"]);
    // Handlers served here keep working.
    client.pull(of(&image, "arm"), None).await.unwrap();
    assert_eq!(which(client, of(&image, "arm")).await, "arm64");
    let again = Node::start(&world.folder.path().join("behind"), world.wishes());
    client.pull(named(&image), None).await.unwrap();
    assert_eq!(again.client.list(None).await.unwrap().len(), 1);
}

/// Unknown fields are forwarded: a newer version of the API may have them.
#[tokio::test(flavor = "multi_thread")]
async fn requests_and_answers_are_not_changed_on_their_way() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Newer {
        #[prost(message, optional, tag = "1")]
        image: Option<ImageSpec>,
        #[prost(string, tag = "777")]
        unknown: String,
    }
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::<Bytes>::new()));
    let world = NodeFixture::new().await;
    let socket = world.folder.path().join("echo.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let seen = std::sync::Arc::clone(&asked);
    let echo = tower::service_fn(move |request: http::Request<tonic::body::Body>| {
        let seen = std::sync::Arc::clone(&seen);
        async move {
            let service = tower::service_fn(move |request: tonic::Request<Bytes>| {
                let bytes = request.into_inner();
                seen.lock().unwrap().push(bytes.clone());
                async move { Ok::<_, tonic::Status>(tonic::Response::new(bytes)) }
            });
            let mut grpc = tonic::server::Grpc::new(cri::rpc::Passing);
            Ok::<_, std::convert::Infallible>(grpc.unary(service, request).await)
        }
    });
    let incoming = futures::stream::unfold(listener, |listener| async {
        Some((listener.accept().await.map(|(stream, _)| stream), listener))
    });
    let serving = tonic::transport::Server::builder().serve_with_incoming(echo, Box::pin(incoming));
    let echo = tokio::spawn(serving);
    let node = world.node(Wishes {
        config: Some("[handlers.arm]\nplatform = \"linux/arm64\"".to_owned()),
        backend: Some(socket),
        ..Wishes::default()
    });
    let message = Newer {
        image: Some(named("whatever:1")),
        unknown: "from the future".to_owned(),
    };
    for path in [
        api::image_service::PULL_IMAGE,
        api::image_service::IMAGE_STATUS,
        api::image_service::REMOVE_IMAGE,
        "/runtime.v1.RuntimeService/RunPodSandbox",
        "/some.other.Service/Call",
    ] {
        let answer: Newer = node.client.ask(path, &message).await.unwrap();
        assert_eq!(answer, message, "{path}");
    }
    let expected = Bytes::from(message.encode_to_vec());
    assert!(asked.lock().unwrap().iter().all(|bytes| *bytes == expected));
    assert_eq!(asked.lock().unwrap().len(), 5);
    // Lists are merged, including unknown fields.
    let message = Newer {
        image: None,
        ..message
    };
    let list = api::image_service::LIST_IMAGES;
    let answer: Newer = node.client.ask(list, &message).await.unwrap();
    assert_eq!(answer, message);
    echo.abort();
}
