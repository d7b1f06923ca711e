//! Reasons of governance: events and conditions of a VirtPlatformConfig.

use api::reasons::{Conditions, Event, Reason, fine, normal, reason, warning};

const KIND: &str = "VirtPlatformConfig";

/// Event reasons.
pub const EVENTS: &[Event] = &[
    normal("Pending", KIND, "a plan is to be generated"),
    normal("Drafting", KIND, "a plan is being generated"),
    warning(
        "PrerequisiteFailed",
        KIND,
        "a prerequisite of the profile is missing, or its options are invalid",
    ),
    normal("ReviewRequired", KIND, "a plan waits for approval"),
    normal("InProgress", KIND, "a plan starts to be applied"),
    normal("Completed", KIND, "everything is applied and in force"),
    warning(
        "CompletedWithErrors",
        KIND,
        "a plan was applied, and some items failed",
    ),
    normal(
        "CompletedWithUpgrade",
        KIND,
        "this version of the operator would plan differently",
    ),
    warning("Failed", KIND, "a plan could not be generated or applied"),
    warning(
        "PlanStale",
        KIND,
        "an approved plan is not applied, because its targets have changed since",
    ),
    normal(
        "RolledBack",
        KIND,
        "a revision of the history is in force again",
    ),
    warning("Drifted", KIND, "another manager changed the applied state"),
    normal(
        "Ignored",
        KIND,
        "the action became Ignore: the configuration is not managed any more",
    ),
    normal(
        "Replanning",
        KIND,
        "a plan is generated again; the message has the reason",
    ),
    normal(
        "ManuallyAligned",
        KIND,
        "the targets were set to the desired state by hand",
    ),
    warning("InputChanged", KIND, "an input of the plan has changed"),
    normal("ItemApplied", KIND, "an item is applied to its target"),
    normal(
        "DriftResolved",
        KIND,
        "the targets match the applied state again",
    ),
    warning(
        "DriftCorrected",
        KIND,
        "locks are bypassed, and drift is reverted",
    ),
    warning(
        "EnforcementPaused",
        KIND,
        "another manager keeps reverting the applied state: correction is paused",
    ),
    normal(
        "NotRequested",
        KIND,
        "a plan waits because the action is not Apply",
    ),
    normal("Rejected", KIND, "the plan was rejected"),
    normal("OtherPlanApproved", KIND, "an approval is for another plan"),
    normal("UnknownItem", KIND, "an approval names an unknown item"),
    normal(
        "TakeoverWithoutConsent",
        KIND,
        "a plan waits because it takes fields from other managers without consent",
    ),
    normal(
        "ApprovalsNotRecorded",
        KIND,
        "a plan waits because approvals are not recorded",
    ),
    normal(
        "AuthorUnknown",
        KIND,
        "a plan waits because its authors are not recorded",
    ),
    normal(
        "NotReviewed",
        KIND,
        "a plan was generated after the action was set to Apply, and waits for its own approval",
    ),
    normal(
        "InvalidPolicy",
        KIND,
        "a plan waits because an ApprovalPolicy that selects it cannot be evaluated",
    ),
    normal("TooFewApprovals", KIND, "a plan waits for more approvals"),
    normal(
        "PartlyApproved",
        KIND,
        "the approved items of a plan are in force, and the others wait",
    ),
    normal(
        "RemediationPaused",
        KIND,
        "a NodeHealthCheck is paused while nodes restart",
    ),
    normal("RemediationResumed", KIND, "a NodeHealthCheck is resumed"),
];

/// Condition types and reasons.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: KIND,
        types: &[
            ("Pending", "A plan is to be generated."),
            ("Drafting", "A plan is being generated."),
            ("PrerequisiteFailed", "No plan can be generated."),
            ("ReviewRequired", "A plan waits for approval."),
            ("InProgress", "A plan is being applied."),
            ("Completed", "Everything is in force."),
            ("CompletedWithErrors", "Some items failed."),
            (
                "CompletedWithUpgrade",
                "It is in force, and this version of the operator plans differently.",
            ),
            ("Failed", "The plan could not be generated or applied."),
            ("Drifted", "Another manager changed the applied state."),
            ("Ignored", "The configuration is not managed."),
        ],
        reasons: &[PHASES, OTHERWISE],
    },
    Conditions {
        of: KIND,
        types: &[(
            "ProfileActive",
            "The desired state of the profile is in force.",
        )],
        reasons: &[ACTIVE],
    },
    Conditions {
        of: KIND,
        types: &[(
            "PrerequisitesMet",
            "All prerequisites of the profile are installed.",
        )],
        reasons: &[&[
            fine(
                "True",
                "AllDependenciesFound",
                "All prerequisites are installed.",
            ),
            reason(
                "False",
                "ProfileNotFound",
                "No profile of this name is enabled.",
                "Correct spec.profile, or start the operator with --enable-profile.",
            ),
            reason(
                "False",
                "MissingDependency",
                "A CRD that the profile needs is not installed.",
                "Install the CRDs named in the message; no restart is needed.",
            ),
            reason(
                "False",
                "InvalidConfiguration",
                "The options are invalid, or no plan can be generated from them.",
                "Correct spec.options as the message describes.",
            ),
        ]],
    },
    Conditions {
        of: KIND,
        types: &[("Approved", "The plan may be applied.")],
        reasons: &[APPROVAL],
    },
    Conditions {
        of: KIND,
        types: &[(
            "PlanStale",
            "The targets have changed since the plan was generated.",
        )],
        reasons: &[&[
            reason(
                "True",
                "TargetChanged",
                "Another manager edited a target after the plan was generated.",
                "Set the action to DryRun, review the new plan, and approve it.",
            ),
            fine(
                "False",
                "TargetUnchanged",
                "The targets are unchanged since the plan was generated.",
            ),
            fine("False", "Replanned", "There is a new plan."),
            fine("False", "Applied", "The plan was applied."),
            fine("False", "Ignored", "The action is Ignore."),
        ]],
    },
    Conditions {
        of: KIND,
        types: &[("InputDependencyDrift", "An input of the plan has changed.")],
        reasons: &[&[
            reason(
                "True",
                "InputChanged",
                "The plan was generated from other inputs.",
                "Review the new plan and approve it.",
            ),
            fine("False", "NoChange", "The inputs are unchanged."),
            fine(
                "False",
                "Acknowledged",
                "An edit of the specification acknowledged the change.",
            ),
            fine(
                "False",
                "DriftResolved",
                "The inputs are the same as before again.",
            ),
            fine("False", "Ignored", "The action is Ignore."),
        ]],
    },
    Conditions {
        of: KIND,
        types: &[(
            "UpgradeAvailable",
            "This version of the operator would plan differently.",
        )],
        reasons: &[&[
            reason(
                "True",
                "LogicChanged",
                "The state in force comes from an older version of the profile.",
                "Set the action to DryRun to review the changes.",
            ),
            fine("False", "NoLogicChange", "The plan would be the same."),
            fine(
                "False",
                "ManuallyAligned",
                "The targets match the new plan.",
            ),
            fine("False", "Applied", "The new plan was applied."),
            fine("False", "Ignored", "The action is Ignore."),
        ]],
    },
];

/// Reasons of the condition of the phase itself.
const PHASES: &[Reason] = &[
    fine("True", "Pending", "A plan is to be generated."),
    fine("True", "Drafting", "A plan is being generated."),
    reason(
        "True",
        "PrerequisiteFailed",
        "No plan can be generated.",
        "PrerequisitesMet names what is missing.",
    ),
    reason(
        "True",
        "ReviewRequired",
        "A plan waits for approval.",
        "`medley diff` shows it, `medley approve` applies it; the condition Approved states what it waits for.",
    ),
    fine("True", "InProgress", "A plan is being applied."),
    fine("True", "Completed", "Everything is in force."),
    fine(
        "True",
        "RolledBack",
        "A revision of the history is in force again.",
    ),
    reason(
        "True",
        "CompletedWithErrors",
        "Some items failed.",
        "The items have the errors; set the action to DryRun and back to Apply to retry.",
    ),
    reason(
        "True",
        "CompletedWithUpgrade",
        "This version of the operator plans differently.",
        "Set the action to DryRun to review its plan.",
    ),
    reason(
        "True",
        "Failed",
        "The plan could not be generated or applied.",
        "The message and the items have the errors.",
    ),
    reason(
        "True",
        "PlanStale",
        "The targets changed after the approval.",
        "Set the action to DryRun, review the new plan, and approve it.",
    ),
    reason(
        "True",
        "DriftDetected",
        "Another manager changed the applied state.",
        "`medley explain` lists the fields and managers; apply again, or adopt the change.",
    ),
    fine("True", "Ignored", "The action is Ignore."),
];

/// Reasons of the conditions of the other phases.
const OTHERWISE: &[Reason] = &[
    fine("False", "Pending", "It is another phase: Pending."),
    fine("False", "Drafting", "It is another phase: Drafting."),
    fine(
        "False",
        "PrerequisitesFailed",
        "It is another phase: PrerequisiteFailed.",
    ),
    fine(
        "False",
        "PrerequisiteFailed",
        "It is another phase: PrerequisiteFailed.",
    ),
    fine(
        "False",
        "ReviewRequired",
        "It is another phase: ReviewRequired.",
    ),
    fine("False", "InProgress", "It is another phase: InProgress."),
    fine("False", "Completed", "It is another phase: Completed."),
    fine(
        "False",
        "CompletedWithErrors",
        "It is another phase: CompletedWithErrors.",
    ),
    fine(
        "False",
        "CompletedWithUpgrade",
        "It is another phase: CompletedWithUpgrade.",
    ),
    fine("False", "Failed", "It is another phase: Failed."),
    fine("False", "Drifted", "It is another phase: Drifted."),
    fine(
        "False",
        "ConfigurationDrifted",
        "It was completed, and has drifted.",
    ),
    fine("False", "Ignored", "The action is Ignore."),
    fine("False", "NotIgnored", "The configuration is managed."),
    fine("False", "NotInProgress", "Nothing is being applied."),
    fine("False", "NoDrift", "Nothing has drifted."),
    fine("False", "NotDrafting", "The plan is generated."),
    fine("False", "NotCompleted", "Not everything is in force yet."),
    fine("False", "NotReviewRequired", "No plan waits for approval."),
];

const ACTIVE: &[Reason] = &[
    fine("True", "Completed", "Everything is in force."),
    fine(
        "True",
        "UpgradeAvailable",
        "It is in force, and this version of the operator plans differently.",
    ),
    reason(
        "False",
        "DriftDetected",
        "Another manager changed the applied state.",
        "`medley explain` lists the fields and managers.",
    ),
    fine("False", "Ignored", "The action is Ignore."),
    fine("False", "Pending", "There is no plan yet."),
    fine("False", "Drafting", "There is no plan yet."),
    reason(
        "False",
        "PrerequisiteFailed",
        "No plan can be generated.",
        "PrerequisitesMet names what is missing.",
    ),
    reason(
        "False",
        "ReviewRequired",
        "A plan waits for approval.",
        "Review it, and approve it.",
    ),
    fine("False", "InProgress", "A plan is being applied."),
    reason(
        "False",
        "CompletedWithErrors",
        "Some items failed.",
        "The items have the errors.",
    ),
    reason(
        "False",
        "Failed",
        "The plan could not be generated or applied.",
        "The message has the error.",
    ),
];

const APPROVAL: &[Reason] = &[
    fine(
        "True",
        "Approved",
        "The plan is approved; the message names the approvers.",
    ),
    fine(
        "False",
        "NothingToApprove",
        "There is no plan, or it is empty.",
    ),
    fine("False", "NotRequested", "The action is DryRun."),
    reason(
        "False",
        "InputChanged",
        "The plan was generated again because its inputs changed.",
        "Review it, and approve it again.",
    ),
    reason(
        "False",
        "Rejected",
        "This plan was rejected.",
        "Change the options for another plan.",
    ),
    reason(
        "False",
        "OtherPlanApproved",
        "The approval is for another plan.",
        "Review this plan, and approve it.",
    ),
    reason(
        "False",
        "UnknownItem",
        "The approval names an unknown item.",
        "Correct spec.approval.items.",
    ),
    reason(
        "False",
        "TakeoverWithoutConsent",
        "The plan takes fields from other managers.",
        "Consent in spec.approval.takeovers, or make the managers release the fields.",
    ),
    reason(
        "False",
        "ApprovalsNotRecorded",
        "Approvals are required, and the admission webhook does not record them or is not registered as Medley installs it.",
        "Run `medley webhook --register`; the message names the fault in the registration.",
    ),
    reason(
        "False",
        "AuthorUnknown",
        "Approvals by authors do not count, and no author is recorded.",
        "Set the action to DryRun while `medley webhook` runs.",
    ),
    reason(
        "False",
        "NotReviewed",
        "The plan was generated after the action was set to Apply, or its approval has expired.",
        "Review it, and run `medley approve`.",
    ),
    reason(
        "False",
        "InvalidPolicy",
        "An ApprovalPolicy that selects the configuration cannot be evaluated.",
        "Correct the policy that the message names.",
    ),
    reason(
        "False",
        "TooFewApprovals",
        "More approvals are required.",
        "Ask further approvers to run `medley approve`.",
    ),
    reason(
        "False",
        "PartlyApproved",
        "The approved items are in force, and the others wait.",
        "Add the others to spec.approval.items, or remove them all.",
    ),
    fine("False", "Ignored", "The action is Ignore."),
];

#[cfg(test)]
mod tests {
    use api::advisor::Phase;
    use api::reasons::{says, tells};

    use super::{CONDITIONS, EVENTS};

    #[test]
    fn every_phase_is_explained() {
        for phase in Phase::ALL {
            let word = match phase {
                Phase::Drifted => "DriftDetected",
                other => other.as_str(),
            };
            assert!(says(CONDITIONS, phase.as_str(), "True", word), "{phase}");
            let documented = [false, true]
                .iter()
                .any(|it| tells(EVENTS, phase.as_str(), *it));
            assert!(documented, "{phase}");
        }
    }
}
