//! critest, the conformance tests of the CRI.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use testkit::{CommandOutput, peer};

use crate::images::{Images, host_architecture};

/// Specs about images that need no container. Those that need one are about the runtime.
const FOCUS: &str = r"\[k8s\.io\] (Image Manager|Image Consistency|Idempotence RemoveImage) ";

/// Registries of the images in critest.
pub(crate) const REGISTRIES: [&str; 3] = ["gcr.io", "registry.k8s.io", "k8s.gcr.io"];

/// The digest that critest pulls: of an image that only its own registry has.
const DIGEST: &str = "9700f9a2f5bf2c45f2f605a0bd3bce7cf37420ec9d3ed50ac2758413308766bf";

/// Names of the specs, by result.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) passed: BTreeSet<String>,
    /// With the reasons.
    pub(crate) failed: BTreeSet<String>,
}

/// critest, and a registry with the images that it pulls.
pub(crate) struct Critest {
    program: PathBuf,
    folder: PathBuf,
}

impl Critest {
    /// Pushes the images, and prepares the program in a folder.
    pub(crate) fn new(images: &mut Images, folder: &Path) -> anyhow::Result<Self> {
        for (name, user) in [
            ("test-image-tag:test", ""),
            ("test-image-tag:all", ""),
            ("test-image-latest:latest", ""),
            ("test-image-1:latest", ""),
            ("test-image-2:latest", ""),
            ("test-image-3:latest", ""),
            ("test-image-user-uid:latest", "1002"),
            ("test-image-user-username:latest", "www-data"),
            ("test-image-user-uid-group:latest", "1003:users"),
            ("test-image-user-username-group:latest", "www-data:www-data"),
        ] {
            // The label makes each image another one.
            let config = json!({"Labels": {"name": name}, "User": user});
            images.push(&format!("k8s-staging-cri-tools/{name}"), &config)?;
        }
        for tag in 1..=3 {
            // The same image with three tags.
            images.push(
                &format!("k8s-staging-cri-tools/test-image-tags:{tag}"),
                &json!({}),
            )?;
        }
        images.push("pause:3.9", &json!({"Labels": {"name": "pause"}}))?;
        let config = json!({"Labels": {"name": "digest"}});
        let pinned = images.image(host_architecture(), &config)?;
        images.push_as(&pinned, "k8s-staging-cri-tools/test-image-digest:latest")?;
        let digest = pinned["digest"].as_str().context("a digest")?;
        let program = folder.join("critest");
        write_with_digest(&program, digest)?;
        Ok(Self {
            program,
            folder: folder.to_owned(),
        })
    }

    /// Runs the specs on an image service.
    pub(crate) fn run(&self, socket: &Path) -> anyhow::Result<Results> {
        let endpoint = format!("unix://{}", socket.display());
        let report = self.folder.join("report.json");
        let output = Command::new(&self.program)
            .current_dir(&self.folder)
            .args(["-config", "/nonexistent"])
            .args(["-runtime-endpoint", &endpoint, "-image-endpoint", &endpoint])
            .args(["-ginkgo.focus", FOCUS])
            .arg("-ginkgo.json-report")
            .arg(&report)
            .output()
            .context("running critest")?;
        // It fails if a spec fails; the report has which.
        let output = CommandOutput::of(&output);
        let text = fs::read_to_string(&report).with_context(|| format!("{output:?}"))?;
        let suites: Value = serde_json::from_str(&text).context("the report of critest")?;
        let specs = suites[0]["SpecReports"].as_array();
        let specs = specs.with_context(|| format!("no specs in {text}"))?;
        let mut results = Results::default();
        for spec in specs {
            let name = name_of(spec);
            let state = spec["State"].as_str().unwrap_or_default();
            // Those that the filter leaves out are skipped. Setup and teardown of the suite are not specs, but may fail.
            let is_spec = spec["LeafNodeType"] == "It";
            if state == "passed" && is_spec {
                results.passed.insert(name);
            } else if !matches!(state, "passed" | "skipped") {
                let message = spec["Failure"]["Message"].as_str().unwrap_or_default();
                results.failed.insert(format!("{name}: {state}: {message}"));
            }
        }
        Ok(results)
    }
}

fn name_of(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"].as_array();
    let names = containers.into_iter().flatten();
    let names: Vec<&str> = names
        .chain([&spec["LeafNodeText"]])
        .filter_map(Value::as_str)
        .collect();
    names.join(" ")
}

/// Writes a copy of critest that pulls another digest, and is otherwise the same: it is a constant, and content for the
/// original one cannot be made.
fn write_with_digest(copy: &Path, digest: &str) -> anyhow::Result<()> {
    let hash = digest.strip_prefix("sha256:").context("a SHA-256 digest")?;
    ensure!(hash.len() == DIGEST.len(), "{digest} has another length");
    let program = peer("critest")?;
    fs::copy(&program, copy).context("copying critest")?;
    let edited = Command::new("sed")
        .env("LC_ALL", "C")
        .args(["--in-place", &format!("s/{DIGEST}/{hash}/g")])
        .arg(copy)
        .status()
        .context("editing critest")?;
    ensure!(edited.success(), "editing critest: sed ended with {edited}");
    ensure!(
        fs::read(&program)? != fs::read(copy)?,
        "critest does not pull {DIGEST} any more"
    );
    Ok(())
}
