use rstest::rstest;

use super::*;

fn host() -> Platform {
    Platform::new("linux", "amd64")
}

fn read(text: &str) -> Result<Handlers, ConfigError> {
    Handlers::read([("cri.toml", text)], &host())
}

#[test]
fn own_format_is_read() {
    let handlers = read(
        r#"
        default = "runc"
        pinned = ["busybox", "registry.k8s.io/pause:3.10"]
        [handlers.runc]
        [handlers.ws2019]
        platform = "windows(10.0.17763)/amd64"
        isolation = "hyperv"
        snapshotter = "windows"
        "#,
    )
    .unwrap();
    assert_eq!(handlers.names(), ["runc", "ws2019"]);
    assert_eq!(handlers.find("").unwrap().platform, host());
    assert_eq!(handlers.find("").unwrap(), handlers.find("runc").unwrap());
    let windows = handlers.find("ws2019").unwrap();
    assert_eq!(windows.platform.to_string(), "windows(10.0.17763)/amd64");
    assert_eq!(windows.isolation, Isolation::HyperV);
    assert_eq!(windows.snapshotter, "windows");
    assert!(handlers.find("kata").is_none());
    assert!(handlers.pins("docker.io/library/busybox:latest"));
    assert!(handlers.pins("registry.k8s.io/pause:3.10"));
    assert!(!handlers.pins("registry.k8s.io/pause:3.9"));
}

#[test]
fn containerd_format_is_read() {
    let handlers = read(
        r#"
        version = 3
        root = "/var/lib/containerd"
        [plugins."io.containerd.cri.v1.images"]
        discard_unpacked_layers = false
        [plugins."io.containerd.cri.v1.images".pinned_images]
        sandbox = "registry.k8s.io/pause:3.10"
        [plugins."io.containerd.cri.v1.images".runtime_platforms.kata-arm]
        platform = "linux/arm64/v8"
        snapshotter = "devmapper"
        [plugins."io.containerd.cri.v1.runtime".containerd]
        default_runtime_name = "runc"
        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        snapshotter = "overlayfs"
        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runhcs-wcow-hypervisor]
        runtime_type = "io.containerd.runhcs.v1"
        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runhcs-wcow-hypervisor.options]
        SandboxPlatform = "windows/amd64"
        SandboxOsVersion = "10.0.17763"
        SandboxIsolation = 1
        "#,
    )
    .unwrap();
    assert_eq!(
        handlers.names(),
        ["kata-arm", "runc", "runhcs-wcow-hypervisor"]
    );
    let of = |name: &str| handlers.find(name).unwrap().clone();
    assert_eq!(of("").platform, host());
    assert_eq!(of("runc").snapshotter, "overlayfs");
    assert_eq!(of("kata-arm").platform.to_string(), "linux/arm64/v8");
    assert_eq!(of("kata-arm").snapshotter, "devmapper");
    let windows = of("runhcs-wcow-hypervisor");
    assert_eq!(windows.platform.to_string(), "windows(10.0.17763)/amd64");
    assert_eq!(windows.isolation, Isolation::HyperV);
    assert!(handlers.pins("registry.k8s.io/pause:3.10"));
}

/// Version 2 has everything in one plugin, and its migration writes a key without the last letter.
#[test]
fn containerd_version_2_format_is_read() {
    let handlers = read(
        r#"
        version = 2
        [plugins."io.containerd.grpc.v1.cri"]
        sandbox_image = "registry.k8s.io/pause:3.8"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.other]
        platform = "linux/s390x"
        [plugins."io.containerd.cri.v1.images".runtime_platform.runc]
        snapshotter = "nydus"
        "#,
    )
    .unwrap();
    assert_eq!(handlers.find("runc").unwrap().snapshotter, "nydus");
    assert_eq!(handlers.find("runc").unwrap().platform, host());
    let other = handlers.find("other").unwrap();
    assert_eq!(other.platform.architecture, "s390x");
    assert!(handlers.pins("registry.k8s.io/pause:3.8"));
    assert!(handlers.find("").is_none());
    let with = handlers.or_default(&host());
    assert_eq!(with.find("").unwrap().platform, host());
    assert_eq!(with.names(), ["other", "runc"]);
}

#[rstest]
#[case("handlers = 1", "reading cri.toml: handlers: ")]
#[case("[handlers.a]\nplatfrom = \"linux\"", "platfrom")]
#[case("[handlers.a]\nisolation = \"much\"", "much")]
#[case("[handlers.a", "reading cri.toml: ")]
#[case("", "expected [handlers.NAME]")]
#[case("[handlers.a]\nplatform = \"*/*\"", "handler a")]
#[case("default = \"b\"\n[handlers.a]", "not among its handlers: a")]
#[case("pinned = [\"A\"]\n[handlers.a]", "pinned image \"A\"")]
fn errors_name_the_problem(#[case] text: &str, #[case] message: &str) {
    let error = read(text).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}
