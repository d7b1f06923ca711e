//! `example-profile`: demonstrates the structure of a profile, with a harmless ConfigMap.

use api::advisor::{Impact, ProfileOptions, TargetRef};
use serde_json::json;

use super::kinds::CONFIG_MAPS;
use super::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal};
use crate::intent::{Intent, Intents};
use crate::snapshot::Snapshot;

const ABOUT: ProfileInfo = ProfileInfo {
    name: "example-profile",
    description: "Example profile for demonstration purposes only",
    category: "example",
    impact_summary: "None - Example profile with no real resources",
    impact: Impact::Low,
    documentation_url: "https://github.com/medley-dev/medley/blob/main/docs/profiles/example-profile.md",
    advertised: false,
};

/// The profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Example;

impl Profile for Example {
    fn about(&self) -> &ProfileInfo {
        &ABOUT
    }

    fn uses(&self) -> &[KindUse] {
        const { &[CONFIG_MAPS] }
    }

    fn prerequisites(&self, _options: &ProfileOptions) -> Vec<Prerequisite> {
        Vec::new()
    }

    fn intents(&self, _options: &ProfileOptions, _snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let target = TargetRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "example-config".to_owned(),
            namespace: Some("openshift-cnv".to_owned()),
        };
        let item = Intent {
            name: "configure-example-component",
            desired: json!({
                "apiVersion": target.api_version,
                "kind": target.kind,
                "metadata": { "name": target.name, "namespace": target.namespace },
                "data": { "example-key": "example-value" },
            }),
            target,
            managed: vec!["data".to_owned()],
            impact: Impact::Low,
            message: "ConfigMap 'example-config' will be configured with an example".to_owned(),
            depends_on: Vec::new(),
        };
        Ok(Intents {
            items: vec![item],
            ..Intents::default()
        })
    }
}
