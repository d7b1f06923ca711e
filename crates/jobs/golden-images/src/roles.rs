//! RBAC rules for golden images: of each layer, and of users.
//!
//! Each layer has all rules that it needs, so that one layer can run beside upstream operators with
//! its own rules only.

#[cfg(test)]
mod tests;

use api::golden::{GROUP, PLURAL, WEBHOOK};
use api::hco::TEMPLATES;
use api::operators::GenuineOperator;
use api::rbac::{
    READ, and_read, editor, maintain_webhook, only, read_crds, rule, viewer, write_events,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::layers::Layer;
use crate::ssp;

/// The ClusterRole for reading policies.
pub const VIEWER: &str = "medley-images-viewer";
/// The ClusterRole for editing policies.
pub const EDITOR: &str = "medley-images-editor";

const CDI: &str = "cdi.kubevirt.io";
const HCO: &str = "hco.kubevirt.io";
const SSP: &str = "ssp.kubevirt.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The RBAC rules of the layer from nodes to the SSP.
pub fn hco_rules() -> Vec<PolicyRule> {
    let mut rules = common(Layer::Hco);
    rules.extend([
        rule(HCO, &["hyperconvergeds/status"], &["patch"]),
        // Creating an object with an owner reference needs the permission to delete it where
        // OwnerReferencesPermissionEnforcement is on.
        rule(SSP, &["ssps"], &and_read(&["create", "patch", "delete"])),
        rule(CDI, &["dataimportcrons"], &READ),
    ]);
    rules
}

/// The RBAC rules of the layer from the SSP to DataImportCrons, DataSources and templates.
pub fn ssp_rules() -> Vec<PolicyRule> {
    let mut rules = common(Layer::Ssp);
    let all = and_read(&["create", "patch", "delete"]);
    let changed = and_read(&["patch"]);
    rules.extend([
        rule(SSP, &["ssps"], &changed),
        rule(SSP, &["ssps/status"], &["patch"]),
        rule(CDI, &["dataimportcrons", "datasources"], &all),
        // An import that has to outlive its DataImportCron loses a label.
        rule(CDI, &["datavolumes"], &changed),
        rule("", &["persistentvolumeclaims"], &changed),
        rule("snapshot.storage.k8s.io", &["volumesnapshots"], &changed),
        rule("template.openshift.io", &["templates"], &all),
        rule("", &["namespaces"], &and_read(&["create"])),
    ]);
    // One role lets all users view and clone images. `create` cannot be restricted by
    // resourceNames, because a new object has no name yet at authorization.
    let roles = ["roles", "rolebindings"];
    rules.extend([
        rule(RBAC, &roles, &["create"]),
        PolicyRule {
            resource_names: Some(vec![ssp::view::NAME.to_owned()]),
            ..rule(RBAC, &roles, &["get", "patch", "delete"])
        },
    ]);
    // RBAC escalation prevention: a role can only be created by a subject that has its permissions.
    // The other rules are included above.
    let granted = ssp::view::rules().into_iter();
    let of_subresources = |it: &PolicyRule| {
        let mut resources = it.resources.iter().flatten();
        resources.any(|it| it.contains('/'))
    };
    rules.extend(granted.filter(of_subresources));
    rules
}

/// The RBAC rules of the layer for virtual machines.
pub fn vm_rules() -> Vec<PolicyRule> {
    let mut rules = common(Layer::Vm);
    rules.extend([
        rule("kubevirt.io", &["virtualmachines"], &and_read(&["patch"])),
        rule(CDI, &["datasources", "datavolumes"], &READ),
        rule("", &["persistentvolumeclaims"], &READ),
    ]);
    rules
}

/// The RBAC rules of the webhook of all layers: reading what a VM boots from and other SSPs, and
/// registering itself.
pub fn webhook_rules() -> Vec<PolicyRule> {
    vec![
        maintain_webhook(WEBHOOK),
        // Checks whether a user may clone from another namespace.
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
        rule(SSP, &["ssps"], &["list"]),
        rule(CDI, &["datasources", "datavolumes"], &["get"]),
        rule("", &["persistentvolumeclaims"], &["get"]),
    ]
}

/// The RBAC rules of a layer for its mode: the policy and its status, and the genuine operator.
pub(crate) fn mode_rules(layer: Layer) -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, &[PLURAL], &READ),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ];
    rules.extend(layer.operator().iter().flat_map(GenuineOperator::rules));
    rules
}

/// The RBAC rules that a layer of these needs besides its own: what it watches.
fn common(layer: Layer) -> Vec<PolicyRule> {
    let mut rules = mode_rules(layer);
    rules.extend([
        read_crds(),
        write_events(),
        rule("", &["nodes"], &READ),
        // One ConfigMap by name: reading all of a cluster would include credentials that users keep
        // in them.
        only(TEMPLATES, rule("", &["configmaps"], &READ)),
        rule(HCO, &["hyperconvergeds"], &READ),
    ]);
    rules
}

/// The ClusterRoles of users; the editor's includes the viewer's rules. The boot images of a whole
/// cluster are not for users who may only edit a namespace.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
