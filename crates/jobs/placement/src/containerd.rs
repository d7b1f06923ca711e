//! The configuration that containerd takes on nodes with Windows, so that they have the handlers that
//! RuntimeClasses name.
//!
//! Sections are those of version 3 (`io.containerd.cri.v1.runtime`, `io.containerd.cri.v1.images`).
//! containerd itself reads the platform of a handler and does nothing with it; `medley cri` chooses images
//! by it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use platform::windows::{Isolation, Version};

use crate::handler::Handler;

/// The shim that runs Windows.
const SHIM: &str = "io.containerd.runhcs.v1";

/// Writes the sections for nodes that are to run images of these builds: the handler that shares the kernel
/// of the node, and one of Hyper-V for each build. `sandbox` is the image of sandboxes, if it is not the
/// usual one.
pub fn config(builds: &BTreeSet<Version>, architecture: &str, sandbox: Option<&str>) -> String {
    let mut text =
        String::from("version = 3\n\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "default_runtime_name = {:?}",
        Handler::PROCESS.to_string()
    );
    section(&mut text, Handler::PROCESS, None, architecture, sandbox);
    for build in builds {
        let handler = Handler::hyper_v(build.build);
        section(&mut text, handler, Some(*build), architecture, sandbox);
    }
    text
}

/// The runtime of a handler, and the platform of its images.
fn section(
    text: &mut String,
    handler: Handler,
    build: Option<Version>,
    architecture: &str,
    sandbox: Option<&str>,
) {
    let told = match (build, build.and_then(Version::product)) {
        (None, _) => "What the node is, sharing its kernel.".to_owned(),
        (Some(build), Some(product)) => format!("{product} ({build}) under Hyper-V."),
        (Some(build), None) => format!("Windows {build} under Hyper-V."),
    };
    let runtime = format!("plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.{handler}");
    let _ = write!(text, "\n# {told}\n[{runtime}]\nruntime_type = {SHIM:?}\n");
    let mut options = Vec::new();
    if let Some(sandbox) = sandbox {
        options.push(format!("SandboxImage = {sandbox:?}"));
    }
    if let Some(build) = build {
        options.push(format!("SandboxPlatform = \"windows/{architecture}\""));
        options.push(format!("SandboxOsVersion = \"{build}\""));
    }
    if handler.isolation == Isolation::HyperV {
        options.push("SandboxIsolation = 1".to_owned());
        options.push("ScaleCpuLimitsToSandbox = true".to_owned());
    }
    if !options.is_empty() {
        let _ = write!(text, "\n[{runtime}.options]\n{}\n", options.join("\n"));
    }
    if let Some(platform) = handler.platform(architecture) {
        let _ = write!(
            text,
            "\n[plugins.\"io.containerd.cri.v1.images\".runtime_platforms.{handler}]\nplatform = \"{platform}\"\n"
        );
    }
}
