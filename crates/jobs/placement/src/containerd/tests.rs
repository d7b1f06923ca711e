//! The rendered containerd configuration.

use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap();
    json!(table)
}

/// Story 3: each handler has a section, and its platform selects the image from an index.
#[test]
fn handlers_have_sections_and_platforms() {
    let builds = [17763, 20348].map(Version::of_build).into();
    let config = read(&config(&builds, "amd64", None));
    assert_eq!(config["version"], 3);
    let runtime = &config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"];
    assert_eq!(runtime["default_runtime_name"], "runhcs-wcow-process");
    let names: Vec<&String> = runtime["runtimes"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "runhcs-wcow-hypervisor-17763",
            "runhcs-wcow-hypervisor-20348",
            "runhcs-wcow-process"
        ]
    );
    assert_eq!(
        runtime["runtimes"]["runhcs-wcow-process"],
        json!({ "runtime_type": "io.containerd.runhcs.v1" })
    );
    assert_eq!(
        runtime["runtimes"]["runhcs-wcow-hypervisor-17763"],
        json!({
            "runtime_type": "io.containerd.runhcs.v1",
            "options": {
                "SandboxPlatform": "windows/amd64",
                "SandboxOsVersion": "10.0.17763",
                "SandboxIsolation": 1,
                "ScaleCpuLimitsToSandbox": true,
            },
        })
    );
    assert_eq!(
        config["plugins"]["io.containerd.cri.v1.images"]["runtime_platforms"],
        json!({
            "runhcs-wcow-hypervisor-17763": { "platform": "windows(10.0.17763)/amd64" },
            "runhcs-wcow-hypervisor-20348": { "platform": "windows(10.0.20348)/amd64" },
        })
    );
}

#[test]
fn sandbox_image_is_configurable() {
    let builds = [Version::of_build(26100)].into();
    let text = config(&builds, "arm64", Some("registry.example/pause:3.10"));
    let config = read(&text);
    let runtimes = &config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"];
    for name in ["runhcs-wcow-process", "runhcs-wcow-hypervisor-26100"] {
        let image = &runtimes[name]["options"]["SandboxImage"];
        assert_eq!(image, "registry.example/pause:3.10");
    }
    assert!(
        text.contains("# Windows Server 2025 (10.0.26100) under Hyper-V."),
        "{text}"
    );
}
