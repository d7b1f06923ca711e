//! The plugin of kubectl, for krew's index. Archives and their digests are there when a version is released:
//! the bot of krew fills in both from the tag.

use std::fmt::Write as _;

use super::{Files, WRITTEN};
use crate::HOME;

/// Systems that archives are made for.
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
  shortDescription: Run clusters whose nodes are not alike
  description: |
    Plans, previews, approves and undoes the tuning of operators; keeps boot images
    for every architecture; chooses CPU models that machines can migrate with; tells
    whether a cluster has arrived at a multi-arch release; and says where pods can
    run by what their images are for.
  caveats: |
    Most commands are about objects that the operator of Medley keeps. Install it with
      kubectl medley manifests | kubectl apply --server-side -f -
    and see with `kubectl medley check` whether all is well.
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
