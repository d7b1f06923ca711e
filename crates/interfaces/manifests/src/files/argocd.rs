//! A patch of Argo CD's settings: the health of VirtPlatformConfigs, and the fields that are not Git's.

use api::advisor::{FIELD_MANAGER, GROUP};
use serde_json::json;

use super::{Files, WRITTEN, unfolded};
use crate::Error;

/// The health check. Argo CD runs it with the object in `obj`.
const HEALTH: &str = include_str!("argocd/health.lua");

/// Fields that a person sets to approve a plan, and that Argo CD must not set back.
const APPROVAL: &str = "jsonPointers:\n- /spec/action\n- /spec/approval\n";

/// The files for Argo CD.
pub(super) fn files() -> Result<Files, Error> {
    let kind = format!("{GROUP}_VirtPlatformConfig");
    let settings = json!({
        "data": {
            format!("resource.customizations.health.{kind}"): HEALTH,
            format!("resource.customizations.ignoreDifferences.{kind}"): APPROVAL,
            "resource.customizations.ignoreDifferences.all":
                format!("managedFieldsManagers:\n- {FIELD_MANAGER}\n"),
        },
    });
    let text = format!("{WRITTEN}{}", unfolded(&settings)?);
    Ok(Files::from([("argocd/argocd-cm.yaml".to_owned(), text)]))
}
