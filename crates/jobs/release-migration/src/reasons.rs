//! Reasons of releases: events, and conditions of a ReleasePolicy and of a ClusterVersion.

use api::reasons::{Conditions, Event, Reason};
use api::{condition_reasons, conditions, events};

const POLICY: &str = "ReleasePolicy";
const VERSION: &str = "ClusterVersion";

/// Event reasons.
pub const EVENTS: &[Event] = events! {
    Normal "ReleaseStarted" POLICY => "the cluster is on its way to another release";
    Normal "OperatorArrived" POLICY => "an operator has arrived at the release";
    Normal "ReleaseComplete" POLICY => "the release is complete";
    Warning "ClaimedEarly" POLICY => "ClusterVersion claims that the release is complete, but it is not";
    Warning "ReleaseFailing" POLICY => "the update fails or is slow";
    Warning "SlowClusterOperator" POLICY => "an operator takes longer than expected";
    Warning "PayloadMissing" POLICY => "the files of the release are missing";
    Warning "PayloadUnreadable" POLICY => "the files of the release cannot be fetched";
    Warning "PayloadBroken" POLICY => "the files of the release are invalid";
    Warning "PayloadMismatch" POLICY => "the files are those of another release";
    Warning "ForeignOwner" POLICY
        => "another manager writes the status of the ClusterVersion although spec.mode is Own";
    Warning "Forbidden" POLICY => "RBAC forbids Medley to write the status of the ClusterVersion";
};

/// Condition types and reasons.
pub const CONDITIONS: &[Conditions] = conditions! {
    of POLICY, "PayloadReady": "The files of the release are loaded." with [ABSENT, NO_RELEASE] {
        "True" "PayloadLoaded": "The files are loaded.";
        "False" "PayloadMissing": "The files are missing."
            => "Provide them in a ConfigMap or folder; see docs/release-migration.md.";
        "False" "PayloadUnreadable": "The files cannot be fetched."
            => "The message has the source; check credentials and mirrors.";
        "False" "PayloadBroken": "The files are invalid." => "`medley release lint` lists the problems.";
        "False" "PayloadMismatch": "The files are those of another release."
            => "Provide those of the release named in the message.";
    }
    of POLICY, "Complete": "The release is complete." with [ABSENT, NOT_READY, FAILURES, OBSERVED] {
        "True" "Arrived": "Every operator and every node that counts has arrived.";
        "False" "Installing": "Some operators or pools have not; the message names them.";
    }
    of POLICY,
        "Progressing": "The cluster is on its way.",
        "Failing": "The update does not progress."
    with [ABSENT, NOT_READY, FAILURES, OBSERVED] {
        "True" "Updating": "It is on its way.";
        "True, False, Unknown" "AsExpected": "No further reason.";
        "Unknown" "SlowClusterOperator": "An operator takes longer than expected."
            => "`medley release explain` lists what it waits for.";
        "True, False" "InvalidClusterVersion": "The requested update is invalid."
            => "Correct spec.desiredUpdate of the ClusterVersion.";
    }
    of POLICY, "Agrees": "ClusterVersion reports the same completion as Medley." with [ABSENT, NOT_READY] {
        "True" "Agrees": "Both report the same.";
        "True" "Own": "Medley maintains the ClusterVersion itself.";
        "False" "ClaimedEarly": "ClusterVersion claims that the release is complete, but it is not."
            => "Wait before adding nodes of another architecture; `medley release status` lists the operators that have not arrived.";
        "False" "NotNoticed": "The release is complete, and ClusterVersion does not report it yet.";
    }
    of POLICY, "KeepsClusterVersion": "Medley writes the status of ClusterVersion." with [ABSENT, NOT_READY] {
        "True" "Own": "spec.mode of the policy is Own.";
        "False" "Observing": "spec.mode of the policy is Observe.";
        "False" "ForeignOwner": "Another manager writes the status."
            => "Stop the other manager, or set spec.mode of the policy to Observe.";
        "False" "Forbidden": "RBAC forbids the write." => "Apply deploy/optional/release-owner.yaml.";
    }
};

/// Conditions of a ClusterVersion that Medley maintains. Reasons and messages are those of OpenShift; often the reason
/// is empty.
pub const KEPT: &[Conditions] = conditions! {
    of VERSION,
        "Available": "A release was applied.",
        "Progressing": "The cluster is on its way.",
        "Failing": "The update does not progress."
    with [FAILURES] {
        "True, False" "": "No further reason.";
        "Unknown" "SlowClusterOperator": "An operator takes longer than expected."
            => "`medley release explain` lists what it waits for.";
        "True, False" "InvalidClusterVersion": "The requested update is invalid." => "Correct spec.desiredUpdate.";
    }
    of VERSION, "Invalid": "The requested update is invalid." {
        "True" "InvalidClusterVersion": "The request is invalid."
            => "Correct spec.desiredUpdate as the message describes.";
    }
    of VERSION, "ImplicitlyEnabledCapabilities": "Capabilities are enabled that were not requested." {
        "False" "AsExpected": "There are none.";
    }
    of VERSION, "ReleaseAccepted": "The release was loaded and verified." {
        "True" "PayloadLoaded": "It was.";
        "False, Unknown" "RetrievePayload": "Its files cannot be fetched."
            => "See the condition PayloadReady of the ReleasePolicy.";
        "False" "LoadPayload": "Its files are invalid." => "`medley release lint` lists the problems.";
        "False" "VerifyPayloadVersion": "Its files are those of another release."
            => "Request the version of the files.";
    }
    of VERSION, "RetrievedUpdates": "The available updates are known." {
        "True" "": "It is.";
        "False" "VersionNotFound": "The current release is not among the known ones.";
    }
    of VERSION, "Upgradeable": "Minor updates are possible." {
        "False" "ClusterVersionOverridesSet": "An override makes an object unmanaged." => "Remove spec.overrides.";
        "False" "ClusterOperatorsNotUpgradeable": "An operator reports Upgradeable=False."
            => "The message has its name and reason.";
        "False" "MultipleReasons": "Several of these." => "The message names them.";
    }
};

const ABSENT: &[Reason] = condition_reasons! {
    "Unknown" "KindsNotInstalled": "This is not an OpenShift cluster.";
    "Unknown" "NoClusterVersion": "There is no ClusterVersion.";
};

const NO_RELEASE: &[Reason] = condition_reasons! {
    "Unknown" "NoRelease": "The release of the cluster is unknown.";
};

const NOT_READY: &[Reason] = condition_reasons! {
    "Unknown" "PayloadNotReady": "Unknown without the files of the release." => "See the condition PayloadReady.";
};

/// Why an update does not progress; see [`crate::failure::Reason`].
const FAILURES: &[Reason] = condition_reasons! {
    "True, False" "ClusterOperatorNoVersions": "The manifest of an operator declares no versions."
        => "It is a defect of the release.";
    "True, False" "ClusterOperatorsNoVersions": "The manifests of operators declare no versions."
        => "It is a defect of the release.";
    "True, False" "ClusterOperatorNotAvailable": "An operator is not available." => "Check its ClusterOperator.";
    "True, False" "ClusterOperatorsNotAvailable": "Operators are not available." => "Check their ClusterOperators.";
    "True, False" "ClusterOperatorDegraded": "An operator is degraded." => "Check its ClusterOperator.";
    "True, False" "ClusterOperatorsDegraded": "Operators are degraded." => "Check their ClusterOperators.";
    "True, False" "ClusterOperatorUpdating": "An operator has not arrived.";
    "True, False" "ClusterOperatorsUpdating": "Operators have not arrived.";
    "True, False" "MachineConfigPoolUpdating": "Nodes of a MachineConfigPool are not updated.";
    "True, False" "MachineConfigPoolsUpdating": "Nodes of MachineConfigPools are not updated.";
    "True, False" "UpdatePayloadResourceNotFound": "An object of the release does not exist."
        => "It may have been deleted; the message names it.";
    "True, False" "MultipleErrors": "Several of these." => "The message names them.";
};

/// What the cluster-version operator reports about manifests that are no ClusterOperators.
const OBSERVED: &[Reason] = condition_reasons! {
    "True, False" "ClusterVersionFailing": "The cluster version operator reports a failure of its own."
        => "The message has its reason; check the manifest that it names.";
    "True, False" "ManifestsUpdating": "The cluster version operator has not applied every manifest.";
};

#[cfg(test)]
mod tests {
    use super::{FAILURES, OBSERVED};
    use crate::failure::Reason;

    #[test]
    fn every_failure_is_explained() {
        for reason in [
            Reason::NoVersions,
            Reason::NotAvailable,
            Reason::Degraded,
            Reason::Updating,
            Reason::Pool,
            Reason::NotFound,
            Reason::ClusterVersion,
            Reason::Manifests,
            Reason::Multiple,
        ] {
            for several in [false, true] {
                let word = reason.word(several);
                let mut all = FAILURES.iter().chain(OBSERVED);
                assert!(all.any(|it| it.name == word), "{word}");
            }
        }
    }
}
