//! The words of releases: reasons of events, and of conditions of a ReleasePolicy and of a ClusterVersion.

use api::words::{Conditions, Event, Reason, fine, normal, reason, warning};

const POLICY: &str = "ReleasePolicy";
const VERSION: &str = "ClusterVersion";

/// What events say.
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
    normal("ReleaseComplete", POLICY, "the cluster has truly arrived"),
    warning(
        "ClaimedEarly",
        POLICY,
        "ClusterVersion says that the release is complete, and it is not",
    ),
    warning("ReleaseFailing", POLICY, "the cluster does not get on"),
    warning(
        "SlowClusterOperator",
        POLICY,
        "an operator takes longer than it should",
    ),
    warning(
        "PayloadMissing",
        POLICY,
        "the files of the release are not there",
    ),
    warning(
        "PayloadUnreadable",
        POLICY,
        "the files of the release cannot be fetched",
    ),
    warning(
        "PayloadBroken",
        POLICY,
        "the files of the release make no sense",
    ),
    warning(
        "PayloadMismatch",
        POLICY,
        "the files are those of another release",
    ),
    warning(
        "ForeignOwner",
        POLICY,
        "somebody else keeps the ClusterVersion that Medley is to keep",
    ),
    warning(
        "Forbidden",
        POLICY,
        "Medley is to keep the ClusterVersion, and may not",
    ),
];

/// What conditions say.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: POLICY,
        types: &[("PayloadReady", "The files of the release are there.")],
        reasons: &[
            ABSENT,
            NO_RELEASE,
            &[
                fine("True", "PayloadLoaded", "They are there."),
                reason(
                    "False",
                    "PayloadMissing",
                    "They are not there.",
                    "Give them with the ConfigMap or folder that docs/release-migration.md names.",
                ),
                reason(
                    "False",
                    "PayloadUnreadable",
                    "They cannot be fetched.",
                    "The message says from where; look at credentials and mirrors.",
                ),
                reason(
                    "False",
                    "PayloadBroken",
                    "They make no sense.",
                    "`medley release lint` says what is wrong.",
                ),
                reason(
                    "False",
                    "PayloadMismatch",
                    "They are those of another release.",
                    "Give those of the release that the message names.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[("Complete", "The cluster has truly arrived at its release.")],
        reasons: &[
            ABSENT,
            NOT_READY,
            FAILURES,
            &[
                fine(
                    "True",
                    "Arrived",
                    "Every operator and every machine has arrived.",
                ),
                fine(
                    "False",
                    "Installing",
                    "Some have not; the message names them.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[
            ("Progressing", "The cluster is on its way."),
            ("Failing", "It does not get on."),
        ],
        reasons: &[
            ABSENT,
            NOT_READY,
            FAILURES,
            &[
                fine("True", "Updating", "It is on its way."),
                fine(
                    "True, False, Unknown",
                    "AsExpected",
                    "There is nothing to say.",
                ),
                reason(
                    "Unknown",
                    "SlowClusterOperator",
                    "An operator takes longer than it should.",
                    "`medley release explain` says what it waits for.",
                ),
                reason(
                    "True, False",
                    "InvalidClusterVersion",
                    "What is asked of the cluster makes no sense.",
                    "Correct spec.desiredUpdate of the ClusterVersion.",
                ),
            ],
        ],
    },
    Conditions {
        of: POLICY,
        types: &[("Agrees", "ClusterVersion says the same as was found.")],
        reasons: &[
            ABSENT,
            NOT_READY,
            &[
                fine("True", "Agrees", "It does."),
                fine("True", "Own", "Medley itself says it."),
                reason(
                    "False",
                    "ClaimedEarly",
                    "ClusterVersion says that the release is complete, and it is not.",
                    "Wait with what needs all machines; `medley release status` says who has not arrived.",
                ),
                fine(
                    "False",
                    "NotNoticed",
                    "The cluster has arrived, and ClusterVersion does not say so yet.",
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
                fine("True", "Own", "It does, because the policy says so."),
                fine("False", "Observing", "The policy does not ask for it."),
                reason(
                    "False",
                    "ForeignOwner",
                    "Somebody else does, too.",
                    "Stop the other one, or set the mode of the policy to Observe.",
                ),
                reason(
                    "False",
                    "Forbidden",
                    "It may not.",
                    "Apply deploy/optional/release-owner.yaml.",
                ),
            ],
        ],
    },
];

/// What a ClusterVersion says that Medley keeps. The words are those of OpenShift; most of the time there is
/// none.
pub const KEPT: &[Conditions] = &[
    Conditions {
        of: VERSION,
        types: &[
            ("Available", "A release was applied."),
            ("Progressing", "The cluster is on its way."),
            ("Failing", "It does not get on."),
        ],
        reasons: &[
            FAILURES,
            &[
                fine("True, False", "", "There is nothing to say."),
                reason(
                    "Unknown",
                    "SlowClusterOperator",
                    "An operator takes longer than it should.",
                    "`medley release explain` says what it waits for.",
                ),
                reason(
                    "True, False",
                    "InvalidClusterVersion",
                    "What is asked of the cluster makes no sense.",
                    "Correct spec.desiredUpdate.",
                ),
            ],
        ],
    },
    Conditions {
        of: VERSION,
        types: &[("Invalid", "What is asked of the cluster makes no sense.")],
        reasons: &[&[reason(
            "True",
            "InvalidClusterVersion",
            "It makes no sense.",
            "Correct spec.desiredUpdate as the message says.",
        )]],
    },
    Conditions {
        of: VERSION,
        types: &[(
            "ImplicitlyEnabledCapabilities",
            "Capabilities are on that nobody asked for.",
        )],
        reasons: &[&[fine("False", "AsExpected", "There are none.")]],
    },
    Conditions {
        of: VERSION,
        types: &[("ReleaseAccepted", "The release was read and found good.")],
        reasons: &[&[
            fine("True", "PayloadLoaded", "It was."),
            reason(
                "False, Unknown",
                "RetrievePayload",
                "Its files cannot be had.",
                "Look at PayloadReady of the ReleasePolicy.",
            ),
            reason(
                "False",
                "LoadPayload",
                "Its files make no sense.",
                "`medley release lint` says what is wrong.",
            ),
            reason(
                "False",
                "VerifyPayloadVersion",
                "Its files are those of another release.",
                "Ask for the version that they are of.",
            ),
        ]],
    },
    Conditions {
        of: VERSION,
        types: &[("RetrievedUpdates", "It is known which releases there are.")],
        reasons: &[&[
            fine("True", "", "It is."),
            fine(
                "False",
                "VersionNotFound",
                "The release that runs is not among those that are known.",
            ),
        ]],
    },
    Conditions {
        of: VERSION,
        types: &[("Upgradeable", "Another minor version can be gone to.")],
        reasons: &[&[
            reason(
                "False",
                "ClusterVersionOverridesSet",
                "Somebody took an object out of hand.",
                "Remove spec.overrides.",
            ),
            reason(
                "False",
                "ClusterOperatorsNotUpgradeable",
                "An operator says that it is not.",
                "The message names it and says why.",
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
        "This is no cluster of OpenShift.",
    ),
    fine("Unknown", "NoClusterVersion", "There is no ClusterVersion."),
];

const NO_RELEASE: &[Reason] = &[fine("Unknown", "NoRelease", "Nobody says which release.")];

const NOT_READY: &[Reason] = &[reason(
    "Unknown",
    "PayloadNotReady",
    "It cannot be said without the files of the release.",
    "Look at PayloadReady.",
)];

/// Why a cluster does not get on; see [`crate::failure::Reason`].
const FAILURES: &[Reason] = &[
    reason(
        "True, False",
        "ClusterOperatorNoVersions",
        "An operator does not say which versions it reports.",
        "It is a defect of the release.",
    ),
    reason(
        "True, False",
        "ClusterOperatorsNoVersions",
        "Operators do not say which versions they report.",
        "It is a defect of the release.",
    ),
    reason(
        "True, False",
        "ClusterOperatorNotAvailable",
        "An operator cannot be used.",
        "Look at its ClusterOperator.",
    ),
    reason(
        "True, False",
        "ClusterOperatorsNotAvailable",
        "Operators cannot be used.",
        "Look at their ClusterOperators.",
    ),
    reason(
        "True, False",
        "ClusterOperatorDegraded",
        "Something is wrong with an operator.",
        "Look at its ClusterOperator.",
    ),
    reason(
        "True, False",
        "ClusterOperatorsDegraded",
        "Something is wrong with operators.",
        "Look at their ClusterOperators.",
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
        "Machines of a pool have not arrived.",
    ),
    fine(
        "True, False",
        "MachineConfigPoolsUpdating",
        "Machines of pools have not arrived.",
    ),
    reason(
        "True, False",
        "UpdatePayloadResourceNotFound",
        "An object is not there that the release has.",
        "Somebody may have deleted it; the message names it.",
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
