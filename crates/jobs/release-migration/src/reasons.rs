//! Reasons of releases: events, and conditions of a ReleasePolicy and of a ClusterVersion.

use api::reasons::{Conditions, Event, Reason, fine, normal, reason, warning};

const POLICY: &str = "ReleasePolicy";
const VERSION: &str = "ClusterVersion";

/// Event reasons.
pub const EVENTS: &[Event] = &[
    normal(
        "ReleaseStarted",
        POLICY,
        "the cluster is on its way to another release",
    ),
    normal(
        "OperatorArrived",
        POLICY,
        "an operator has arrived at the release",
    ),
    normal("ReleaseComplete", POLICY, "the release is complete"),
    warning(
        "ClaimedEarly",
        POLICY,
        "ClusterVersion claims that the release is complete, but it is not",
    ),
    warning("ReleaseFailing", POLICY, "the update fails or is slow"),
    warning(
        "SlowClusterOperator",
        POLICY,
        "an operator takes longer than expected",
    ),
    warning(
        "PayloadMissing",
        POLICY,
        "the files of the release are missing",
    ),
    warning(
        "PayloadUnreadable",
        POLICY,
        "the files of the release cannot be fetched",
    ),
    warning(
        "PayloadBroken",
        POLICY,
        "the files of the release are invalid",
    ),
    warning(
        "PayloadMismatch",
        POLICY,
        "the files are those of another release",
    ),
    warning(
        "ForeignOwner",
        POLICY,
        "another manager writes the status of the ClusterVersion although spec.mode is Own",
    ),
    warning(
        "Forbidden",
        POLICY,
        "RBAC forbids Medley to write the status of the ClusterVersion",
    ),
];

/// Condition types and reasons.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: POLICY,
        types: &[("PayloadReady", "The files of the release are loaded.")],
        reasons: &[
            ABSENT,
            NO_RELEASE,
            &[
                fine("True", "PayloadLoaded", "The files are loaded."),
                reason(
                    "False",
                    "PayloadMissing",
                    "The files are missing.",
                    "Provide them in a ConfigMap or folder; see docs/release-migration.md.",
                ),
                reason(
                    "False",
                    "PayloadUnreadable",
                    "The files cannot be fetched.",
                    "The message has the source; check credentials and mirrors.",
                ),
                reason(
                    "False",
                    "PayloadBroken",
                    "The files are invalid.",
                    "`medley release lint` lists the problems.",
                ),
                reason(
                    "False",
                    "PayloadMismatch",
                    "The files are those of another release.",
                    "Provide those of the release named in the message.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[("Complete", "The release is complete.")],
        reasons: &[
            ABSENT,
            NOT_READY,
            FAILURES,
            &[
                fine(
                    "True",
                    "Arrived",
                    "Every operator and every node that counts has arrived.",
                ),
                fine(
                    "False",
                    "Installing",
                    "Some operators or pools have not; the message names them.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[
            ("Progressing", "The cluster is on its way."),
            ("Failing", "The update does not progress."),
        ],
        reasons: &[
            ABSENT,
            NOT_READY,
            FAILURES,
            &[
                fine("True", "Updating", "It is on its way."),
                fine("True, False, Unknown", "AsExpected", "No further reason."),
                reason(
                    "Unknown",
                    "SlowClusterOperator",
                    "An operator takes longer than expected.",
                    "`medley release explain` lists what it waits for.",
                ),
                reason(
                    "True, False",
                    "InvalidClusterVersion",
                    "The requested update is invalid.",
                    "Correct spec.desiredUpdate of the ClusterVersion.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "Agrees",
            "ClusterVersion reports the same completion as Medley.",
        )],
        reasons: &[
            ABSENT,
            NOT_READY,
            &[
                fine("True", "Agrees", "Both report the same."),
                fine("True", "Own", "Medley maintains the ClusterVersion itself."),
                reason(
                    "False",
                    "ClaimedEarly",
                    "ClusterVersion claims that the release is complete, but it is not.",
                    "Wait before adding nodes of another architecture; `medley release status` lists the operators that have not arrived.",
                ),
                fine(
                    "False",
                    "NotNoticed",
                    "The release is complete, and ClusterVersion does not report it yet.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "KeepsClusterVersion",
            "Medley writes the status of ClusterVersion.",
        )],
        reasons: &[
            ABSENT,
            NOT_READY,
            &[
                fine("True", "Own", "spec.mode of the policy is Own."),
                fine("False", "Observing", "spec.mode of the policy is Observe."),
                reason(
                    "False",
                    "ForeignOwner",
                    "Another manager writes the status.",
                    "Stop the other manager, or set spec.mode of the policy to Observe.",
                ),
                reason(
                    "False",
                    "Forbidden",
                    "RBAC forbids the write.",
                    "Apply deploy/optional/release-owner.yaml.",
                ),
            ],
        ],
    },
];

/// Conditions of a ClusterVersion that Medley maintains. Reasons and messages are those of OpenShift; often the reason
/// is empty.
pub const KEPT: &[Conditions] = &[
    Conditions {
        of: VERSION,
        types: &[
            ("Available", "A release was applied."),
            ("Progressing", "The cluster is on its way."),
            ("Failing", "The update does not progress."),
        ],
        reasons: &[
            FAILURES,
            &[
                fine("True, False", "", "No further reason."),
                reason(
                    "Unknown",
                    "SlowClusterOperator",
                    "An operator takes longer than expected.",
                    "`medley release explain` lists what it waits for.",
                ),
                reason(
                    "True, False",
                    "InvalidClusterVersion",
                    "The requested update is invalid.",
                    "Correct spec.desiredUpdate.",
                ),
            ],
        ],
    },
    Conditions {
        of: VERSION,
        types: &[("Invalid", "The requested update is invalid.")],
        reasons: &[&[reason(
            "True",
            "InvalidClusterVersion",
            "The request is invalid.",
            "Correct spec.desiredUpdate as the message describes.",
        )]],
    },
    Conditions {
        of: VERSION,
        types: &[(
            "ImplicitlyEnabledCapabilities",
            "Capabilities are enabled that were not requested.",
        )],
        reasons: &[&[fine("False", "AsExpected", "There are none.")]],
    },
    Conditions {
        of: VERSION,
        types: &[("ReleaseAccepted", "The release was loaded and verified.")],
        reasons: &[&[
            fine("True", "PayloadLoaded", "It was."),
            reason(
                "False, Unknown",
                "RetrievePayload",
                "Its files cannot be fetched.",
                "See the condition PayloadReady of the ReleasePolicy.",
            ),
            reason(
                "False",
                "LoadPayload",
                "Its files are invalid.",
                "`medley release lint` lists the problems.",
            ),
            reason(
                "False",
                "VerifyPayloadVersion",
                "Its files are those of another release.",
                "Request the version of the files.",
            ),
        ]],
    },
    Conditions {
        of: VERSION,
        types: &[("RetrievedUpdates", "The available updates are known.")],
        reasons: &[&[
            fine("True", "", "It is."),
            fine(
                "False",
                "VersionNotFound",
                "The current release is not among the known ones.",
            ),
        ]],
    },
    Conditions {
        of: VERSION,
        types: &[("Upgradeable", "Minor updates are possible.")],
        reasons: &[&[
            reason(
                "False",
                "ClusterVersionOverridesSet",
                "An override makes an object unmanaged.",
                "Remove spec.overrides.",
            ),
            reason(
                "False",
                "ClusterOperatorsNotUpgradeable",
                "An operator reports Upgradeable=False.",
                "The message has its name and reason.",
            ),
            reason(
                "False",
                "MultipleReasons",
                "Several of these.",
                "The message names them.",
            ),
        ]],
    },
];

const ABSENT: &[Reason] = &[
    fine(
        "Unknown",
        "KindsNotInstalled",
        "This is not an OpenShift cluster.",
    ),
    fine("Unknown", "NoClusterVersion", "There is no ClusterVersion."),
];

const NO_RELEASE: &[Reason] = &[fine(
    "Unknown",
    "NoRelease",
    "The release of the cluster is unknown.",
)];

const NOT_READY: &[Reason] = &[reason(
    "Unknown",
    "PayloadNotReady",
    "Unknown without the files of the release.",
    "See the condition PayloadReady.",
)];

/// Why an update does not progress; see [`crate::failure::Reason`].
const FAILURES: &[Reason] = &[
    reason(
        "True, False",
        "ClusterOperatorNoVersions",
        "The manifest of an operator declares no versions.",
        "It is a defect of the release.",
    ),
    reason(
        "True, False",
        "ClusterOperatorsNoVersions",
        "The manifests of operators declare no versions.",
        "It is a defect of the release.",
    ),
    reason(
        "True, False",
        "ClusterOperatorNotAvailable",
        "An operator is not available.",
        "Check its ClusterOperator.",
    ),
    reason(
        "True, False",
        "ClusterOperatorsNotAvailable",
        "Operators are not available.",
        "Check their ClusterOperators.",
    ),
    reason(
        "True, False",
        "ClusterOperatorDegraded",
        "An operator is degraded.",
        "Check its ClusterOperator.",
    ),
    reason(
        "True, False",
        "ClusterOperatorsDegraded",
        "Operators are degraded.",
        "Check their ClusterOperators.",
    ),
    fine(
        "True, False",
        "ClusterOperatorUpdating",
        "An operator has not arrived.",
    ),
    fine(
        "True, False",
        "ClusterOperatorsUpdating",
        "Operators have not arrived.",
    ),
    fine(
        "True, False",
        "MachineConfigPoolUpdating",
        "Nodes of a MachineConfigPool are not updated.",
    ),
    fine(
        "True, False",
        "MachineConfigPoolsUpdating",
        "Nodes of MachineConfigPools are not updated.",
    ),
    reason(
        "True, False",
        "UpdatePayloadResourceNotFound",
        "An object of the release does not exist.",
        "It may have been deleted; the message names it.",
    ),
    reason(
        "True, False",
        "MultipleErrors",
        "Several of these.",
        "The message names them.",
    ),
];

#[cfg(test)]
mod tests {
    use super::FAILURES;
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
            Reason::Multiple,
        ] {
            for several in [false, true] {
                let word = reason.word(several);
                assert!(FAILURES.iter().any(|it| it.word == word), "{word}");
            }
        }
    }
}
