//! The containerd configuration of Windows nodes that provides the handlers named by RuntimeClasses.
//!
//! Sections follow configuration version 3 (`io.containerd.cri.v1.runtime`, `io.containerd.cri.v1.images`). containerd
//! parses the platform of a handler but does not select images by it; `medley cri` does.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use platform::windows::{Isolation, Version};

use crate::handler::Handler;

/// The containerd shim for Windows containers.
const SHIM: &str = "io.containerd.runhcs.v1";

/// Renders the sections for nodes that run images of these builds: a handler for process isolation, and a Hyper-V
/// handler for each build. `sandbox` overrides the default sandbox image.
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

/// Renders the runtime section of a handler, and the platform of its images.
fn section(
    text: &mut String,
    handler: Handler,
    build: Option<Version>,
    architecture: &str,
    sandbox: Option<&str>,
) {
    let comment = match (build, build.and_then(Version::product)) {
        (None, _) => "What the node is, sharing its kernel.".to_owned(),
        (Some(build), Some(product)) => format!("{product} ({build}) under Hyper-V."),
        (Some(build), None) => format!("Windows {build} under Hyper-V."),
    };
    let runtime = format!("plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.{handler}");
    let _ = write!(
        text,
        "\n# {comment}\n[{runtime}]\nruntime_type = {SHIM:?}\n"
    );
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
