//! Who needs which rights for golden images: each layer, and the people who say how images are kept.
//!
//! A layer has what it needs by itself: whoever runs one of them beside upstream operators grants the
//! rules of that one.

#[cfg(test)]
mod tests;

use api::golden::{GROUP, PLURAL, WEBHOOK};
use api::hco::TEMPLATES;
use api::rbac::{
    READ, and_read, editor, only, register_check, rule, see_definitions, tell_events, viewer,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::ssp;

/// The role of whoever looks on.
pub const VIEWER: &str = "medley-images-viewer";
/// The role of whoever says how images are kept.
pub const EDITOR: &str = "medley-images-editor";

const CDI: &str = "cdi.kubevirt.io";
const HCO: &str = "hco.kubevirt.io";
const SSP: &str = "ssp.kubevirt.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// What the layer from nodes to an SSP may do.
pub fn hco_rules() -> Vec<PolicyRule> {
    let mut rules = common();
    rules.extend([
        rule(HCO, &["hyperconvergeds/status"], &["patch"]),
        // Who makes an object that goes with another has to be allowed to delete it
        // (OwnerReferencesPermissionEnforcement).
        rule(SSP, &["ssps"], &and_read(&["create", "patch", "delete"])),
        rule(CDI, &["dataimportcrons"], &READ),
    ]);
    rules
}

/// What the layer from an SSP to crons, sources and templates may do.
pub fn ssp_rules() -> Vec<PolicyRule> {
    let mut rules = common();
    let all = and_read(&["create", "patch", "delete"]);
    let changed = and_read(&["patch"]);
    rules.extend([
        rule(SSP, &["ssps"], &changed),
        rule(SSP, &["ssps/status"], &["patch"]),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
        rule(CDI, &["dataimportcrons", "datasources"], &all),
        // An import that is to outlive its cron loses a label.
        rule(CDI, &["datavolumes"], &changed),
        rule("", &["persistentvolumeclaims"], &changed),
        rule("snapshot.storage.k8s.io", &["volumesnapshots"], &changed),
        rule("template.openshift.io", &["templates"], &all),
        rule("", &["namespaces"], &and_read(&["create"])),
    ]);
    // Everybody is let see and copy images, by one role. A role that is not there yet has no name by
    // which it could be told from others.
    let roles = ["roles", "rolebindings"];
    rules.extend([
        rule(RBAC, &roles, &["create"]),
        PolicyRule {
            resource_names: Some(vec![ssp::view::NAME.to_owned()]),
            ..rule(RBAC, &roles, &["get", "patch", "delete"])
        },
    ]);
    // Who grants something has to have it; most of it is there already.
    let granted = ssp::view::rules().into_iter();
    rules.extend(granted.filter(|it| it.verbs == ["create"]));
    rules
}

/// What the layer of virtual machines may do.
pub fn vm_rules() -> Vec<PolicyRule> {
    let mut rules = common();
    rules.extend([
        rule("kubevirt.io", &["virtualmachines"], &and_read(&["patch"])),
        rule(CDI, &["datasources", "datavolumes"], &READ),
        rule("", &["persistentvolumeclaims"], &READ),
    ]);
    rules
}

/// What the check of all layers may do: look at what a machine starts from and at other SSPs, and
/// register itself.
pub fn webhook_rules() -> Vec<PolicyRule> {
    vec![
        register_check(WEBHOOK),
        // Whether somebody may copy what is in another namespace.
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

/// What all of them look at.
fn common() -> Vec<PolicyRule> {
    vec![
        see_definitions(),
        tell_events(),
        rule("", &["nodes"], &READ),
        only(TEMPLATES, rule("", &["configmaps"], &READ)),
        rule(HCO, &["hyperconvergeds"], &READ),
        rule(GROUP, &[PLURAL], &READ),
    ]
}

/// The roles of people, the second with what the first has. What images a whole cluster starts from is
/// not for who may edit a namespace.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
