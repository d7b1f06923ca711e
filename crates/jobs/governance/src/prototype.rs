//! The prototype's own operator beside Medley.
//!
//! Both reconcile VirtPlatformConfigs, and both apply targets as the field manager `virt-advisor-operator`. The field manager
//! does not tell which of them wrote a field, so the operator is found by its Deployment and its Lease.

use api::mode::{ModeInputs, ModeSetting, Ownership, decide};
use api::operators::{GenuineOperator, RunningOperator};

/// The operator (`config/default` and `cmd/main.go` of tiraboschi/virt-advisor-operator).
pub const OPERATOR: GenuineOperator = GenuineOperator {
    title: "the virt-advisor-operator",
    deployment: "virt-advisor-operator-controller-manager",
    lease: Some("8f83cc6e.kubevirt.io"),
    namespaces: &[],
};

/// The name of the controller in messages.
const COMPONENT: &str = "governance";

/// Who reconciles VirtPlatformConfigs. `installed` is false without their CRD.
///
/// There is no setting: a configuration that both operators reconcile would be planned and applied by both, and one that
/// none should reconcile has the action Ignore.
pub fn ownership(installed: bool, running: Option<&RunningOperator>) -> Ownership {
    decide(&ModeInputs {
        component: COMPONENT,
        setting: ModeSetting::Auto,
        policy: "",
        enabled: true,
        missing: (!installed).then_some("virtplatformconfigs.advisor.kubevirt.io"),
        running,
    })
}

#[cfg(test)]
mod tests {
    use api::cdi::Named;
    use api::mode::Mode;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::alone(true, false, Mode::Manage)]
    #[case::beside(true, true, Mode::Assist)]
    #[case::not_installed(false, false, Mode::Off)]
    fn configurations_have_one_reconciler(
        #[case] installed: bool,
        #[case] beside: bool,
        #[case] mode: Mode,
    ) {
        let running = RunningOperator {
            operator: OPERATOR,
            deployment: Some(Named {
                namespace: "openshift-cnv".to_owned(),
                name: OPERATOR.deployment.to_owned(),
            }),
            restorer: None,
            lease: None,
        };
        let found = ownership(installed, beside.then_some(&running));
        assert_eq!(found.mode, mode);
        let names_it = found.message.contains(
            "scale Deployment openshift-cnv/virt-advisor-operator-controller-manager to 0",
        );
        assert_eq!(names_it, beside, "{}", found.message);
    }
}
