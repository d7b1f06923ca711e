//! Who places pods: Medley, the multiarch-tuning-operator, or each of them the pods of some namespaces.

#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Write as _;

use api::mode::{Mode, ModeSetting, Ownership, reasons};
use api::operators::{GenuineOperator, RunningOperator};

use crate::multiarch::{MultiarchTuning, REGISTRATION};

/// The controller that lifts the gates of the multiarch-tuning-operator, which runs while a ClusterPodPlacementConfig exists
/// (`PodPlacementControllerName` in pkg/utils/const.go, and `leaderID` in cmd/main.go).
pub const OPERATOR: GenuineOperator = GenuineOperator {
    title: "the multiarch-tuning-operator",
    deployment: "pod-placement-controller",
    lease: Some("ppc-controllers-208d7abd.multiarch.openshift.io"),
    namespaces: &[],
};

/// The operator that runs that controller.
pub const INSTALLER: GenuineOperator = GenuineOperator {
    title: "the multiarch-tuning-operator",
    deployment: "multiarch-tuning-operator-controller-manager",
    lease: Some("operator-208d7abd.multiarch.openshift.io"),
    namespaces: &[],
};

/// The name of the controller in messages.
const COMPONENT: &str = "placement";
/// The webhook of the multiarch-tuning-operator is registered, and its controller does not run.
pub const UPSTREAM_STOPPED: &str = "UpstreamOperatorStopped";

/// Who places pods. `registered` is the other operator's webhook, `running` its controller.
///
/// The registration decides which pods are left to it, and not whether it runs: between the two, a pod could get both gates.
pub fn ownership(
    setting: ModeSetting,
    registered: Option<&MultiarchTuning>,
    running: Option<&RunningOperator>,
) -> Ownership {
    let title = OPERATOR.title;
    let owner = registered.map(|_| title.to_owned());
    let set = |mode: Mode, does: &str| {
        let mut message = format!(
            "PlacementPolicy default sets operatorMode {mode}, so {COMPONENT} {does}; set spec.operatorMode to Auto to let it place pods"
        );
        // Writing to a string cannot fail.
        let _ = match registered {
            Some(other) => write!(
                message,
                "; {title} places pods of {}",
                other.describe_namespaces()
            ),
            None => write!(message, "; no other operator places pods"),
        };
        Ownership {
            mode,
            owner: owner.clone(),
            reason: reasons::SET_BY_POLICY,
            message,
        }
    };
    let registered = match (setting, registered) {
        (ModeSetting::Off, _) => return set(Mode::Off, "does nothing with pods"),
        (ModeSetting::Assist, _) => {
            return set(
                Mode::Assist,
                "gates and changes no pod and warns about pods that run on no node",
            );
        }
        (ModeSetting::Auto, None) => {
            return Ownership {
                mode: Mode::Manage,
                owner: Some(COMPONENT.to_owned()),
                reason: reasons::MANAGING,
                message: format!("{COMPONENT} places pods; no other operator does"),
            };
        }
        (ModeSetting::Auto, Some(registered)) => registered,
    };
    let namespaces = registered.describe_namespaces();
    let (reason, message) = match running {
        Some(running) => (
            reasons::UPSTREAM_RUNS,
            format!(
                "{running} and places pods of {namespaces}; {COMPONENT} places those of other namespaces; `medley place take-over` shows how to let it place all, `medley place hand-back` how to let it place none"
            ),
        ),
        None => (
            UPSTREAM_STOPPED,
            format!(
                "{title} does not run, but its MutatingWebhookConfiguration {REGISTRATION} exists, so pods of {namespaces} are placed by no operator; start it, or delete the MutatingWebhookConfiguration to let {COMPONENT} place them"
            ),
        ),
    };
    Ownership {
        mode: Mode::Assist,
        owner,
        reason,
        message,
    }
}
