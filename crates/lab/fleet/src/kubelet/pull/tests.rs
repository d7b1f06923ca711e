//! Sandboxes, and which registries are queried.

use platform::Platform;
use platform::windows::Isolation;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn node(platform: &str, handlers: &Value) -> Node {
    let platform: Platform = platform.parse().unwrap();
    serde_json::from_value(json!({
        "metadata": { "name": "n", "labels": {
            "kubernetes.io/os": platform.os,
            "kubernetes.io/arch": platform.architecture,
            "node.kubernetes.io/windows-build": platform.os_version,
        } },
        "status": { "runtimeHandlers": handlers },
    }))
    .unwrap()
}

fn class(handler: &str) -> Arc<RuntimeClass> {
    let class = json!({ "metadata": { "name": "c" }, "handler": handler });
    Arc::new(serde_json::from_value(class).unwrap())
}

const WINDOWS: &str = "windows(10.0.20348)/amd64";

#[rstest]
#[case::none(None, WINDOWS, Isolation::Process)]
#[case::process(Some("runhcs-wcow-process"), WINDOWS, Isolation::Process)]
#[case::hyper_v(Some("runhcs-wcow-hypervisor"), WINDOWS, Isolation::HyperV)]
#[case::of_a_build(
    Some("runhcs-wcow-hypervisor-17763"),
    "windows(10.0.17763)/amd64",
    Isolation::HyperV
)]
fn runtime_handler_determines_the_platform(
    #[case] handler: Option<&str>,
    #[case] wanted: &str,
    #[case] isolation: Isolation,
) {
    let node = node(WINDOWS, &Value::Null);
    let sandbox = Sandbox::new(handler.map(|handler| ("c", Some(class(handler)))), &node);
    assert_eq!(sandbox.refusal(), None);
    let matcher = sandbox.matcher(&node);
    assert_eq!(
        matcher,
        Matcher::isolated(&wanted.parse().unwrap(), isolation)
    );
}

#[test]
fn missing_runtime_handler_prevents_the_sandbox() {
    let node = node("linux/amd64", &json!([{ "name": "" }, { "name": "runc" }]));
    let refusal = |class| Sandbox::new(Some(("c", class)), &node).refusal;
    assert_eq!(refusal(Some(class("runc"))), None);
    assert_eq!(
        refusal(Some(class("kata"))).as_deref(),
        Some(
            "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"kata\" is configured"
        )
    );
    assert_eq!(
        refusal(None).as_deref(),
        Some("runtimeclass.node.k8s.io \"c\" not found")
    );
}

#[rstest]
#[case("127.0.0.1:5000/a:1", true)]
#[case("localhost:5000/a:1", true)]
#[case("[::1]:5000/a:1", true)]
#[case("registry.example/a:1", false)]
#[case("10.0.0.1:5000/a:1", false)]
#[case("nginx", false)]
#[case("Not An Image", false)]
fn only_loopback_registries_are_queried(#[case] image: &str, #[case] is_here: bool) {
    assert_eq!(here(image).is_some(), is_here);
}

#[test]
fn running_images_are_not_queried_again() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "p" },
        "spec": {
            "initContainers": [{ "name": "first", "image": "a" }],
            "containers": [{ "name": "one", "image": "b" }, { "name": "two", "image": "c" }],
        },
        "status": {
            "initContainerStatuses": [{
                "name": "first", "image": "a", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "terminated": { "exitCode": 0 } },
            }],
            "containerStatuses": [{
                "name": "two", "image": "c", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": {} },
            }],
        },
    }))
    .unwrap();
    assert_eq!(waiting(&pod), BTreeSet::from(["a", "b"]));
}
