//! The kubectl plugin for krew's index. Archives and digests exist once a version is released: the
//! krew-release-bot fills in both from the tag.

use std::fmt::Write as _;

use super::{Files, WRITTEN};
use crate::HOME;

/// Platforms of the archives.
const SYSTEMS: [(&str, &str); 4] = [
    ("linux", "amd64"),
    ("linux", "arm64"),
    ("darwin", "amd64"),
    ("darwin", "arm64"),
];

pub(super) fn files() -> Files {
    let mut text = format!(
        "{WRITTEN}# A template of https://github.com/rajatjindal/krew-release-bot, which fills in archives and their digests.
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: medley
spec:
  version: {{{{ .TagName }}}}
  homepage: {HOME}
  shortDescription: Run heterogeneous Kubernetes clusters
  description: |
    Plans, previews, approves and reverts the configuration of operators; keeps boot
    images for every architecture; chooses CPU models that virtual machines can migrate
    with; verifies that a cluster has completed a multi-arch release; and explains which
    nodes can run a pod by the platforms of its images.
  caveats: |
    Most commands work on objects of the Medley operator. Install it with
      kubectl medley manifests | kubectl apply --server-side -f -
    and check the installation with `kubectl medley check`.
  platforms:
"
    );
    for (os, arch) in SYSTEMS {
        let archive =
            format!("{HOME}/releases/download/{{{{ .TagName }}}}/medley-{os}-{arch}.tar.gz");
        let _ = write!(
            text,
            "  - selector:
      matchLabels:
        os: {os}
        arch: {arch}
    {{{{addURIAndSha \"{archive}\" .TagName }}}}
    bin: kubectl-medley
    files:
    - from: medley
      to: kubectl-medley
    - from: LICENSE
      to: .
"
        );
    }
    Files::from([("krew/medley.yaml".to_owned(), text)])
}
