//! The words of governance: reasons of events, and of conditions of a VirtPlatformConfig.

use api::words::{Conditions, Event, Reason, fine, normal, reason, warning};

const KIND: &str = "VirtPlatformConfig";

/// What events say.
pub const EVENTS: &[Event] = &[
    normal("Pending", KIND, "a plan is to be made"),
    normal("Drafting", KIND, "a plan is being made"),
    warning(
        "PrerequisiteFailed",
        KIND,
        "something that the profile needs is not there, or its options make no sense",
    ),
    normal(
        "ReviewRequired",
        KIND,
        "a plan waits for somebody to approve it",
    ),
    normal("InProgress", KIND, "a plan begins to be carried out"),
    normal("Completed", KIND, "everything is applied and in force"),
    warning(
        "CompletedWithErrors",
        KIND,
        "a plan was carried out, and some items failed",
    ),
    normal(
        "CompletedWithUpgrade",
        KIND,
        "this version of the operator would plan differently",
    ),
    warning("Failed", KIND, "a plan could not be made or carried out"),
    warning(
        "PlanStale",
        KIND,
        "an approved plan is not carried out, because its targets have changed since",
    ),
    normal(
        "RolledBack",
        KIND,
        "a revision of the history is in force again",
    ),
    warning("Drifted", KIND, "somebody changed what was applied"),
    normal(
        "Ignored",
        KIND,
        "the action became Ignore: nothing is looked at any more",
    ),
    normal("Replanning", KIND, "a plan is made anew, and why"),
    normal(
        "ManuallyAligned",
        KIND,
        "somebody made the targets by hand what the plan wants",
    ),
    warning(
        "InputChanged",
        KIND,
        "something that the plan was derived from has changed",
    ),
    normal("ItemApplied", KIND, "an item is applied to its target"),
    normal(
        "DriftResolved",
        KIND,
        "the targets are again what was applied",
    ),
    warning(
        "DriftCorrected",
        KIND,
        "locks are bypassed, and what drifted is applied again",
    ),
    warning(
        "EnforcementPaused",
        KIND,
        "somebody always changes back what is applied: it is not corrected any more",
    ),
    normal(
        "NotRequested",
        KIND,
        "a plan waits because nobody asked for it",
    ),
    normal("Rejected", KIND, "somebody rejected the plan"),
    normal(
        "OtherPlanApproved",
        KIND,
        "an approval is for another plan than this",
    ),
    normal(
        "UnknownItem",
        KIND,
        "an approval names an item that the plan has not",
    ),
    normal(
        "TakeoverWithoutConsent",
        KIND,
        "a plan waits because it takes fields from somebody, and nobody agreed",
    ),
    normal(
        "ApprovalsNotRecorded",
        KIND,
        "a plan waits because nobody recorded who approved it",
    ),
    normal(
        "AuthorUnknown",
        KIND,
        "a plan waits because it is not known who asked for it",
    ),
    normal(
        "NotReviewed",
        KIND,
        "a plan was made after the action was set to Apply, and waits for its own approval",
    ),
    normal(
        "InvalidPolicy",
        KIND,
        "a plan waits because an ApprovalPolicy that selects it cannot be evaluated",
    ),
    normal(
        "TooFewApprovals",
        KIND,
        "a plan waits for more people to approve it",
    ),
    normal(
        "PartlyApproved",
        KIND,
        "what is approved of a plan is in force, and the rest waits",
    ),
    normal(
        "RemediationPaused",
        KIND,
        "a NodeHealthCheck pauses while nodes restart",
    ),
    normal("RemediationResumed", KIND, "a NodeHealthCheck goes on"),
];

/// What conditions say.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: KIND,
        types: &[
            ("Pending", "A plan is to be made."),
            ("Drafting", "A plan is being made."),
            ("PrerequisiteFailed", "The profile cannot be planned."),
            ("ReviewRequired", "A plan waits for approval."),
            ("InProgress", "A plan is being carried out."),
            ("Completed", "Everything is in force."),
            ("CompletedWithErrors", "Some items failed."),
            (
                "CompletedWithUpgrade",
                "It is in force, and a newer plan is to be had.",
            ),
            ("Failed", "The plan came to nothing."),
            ("Drifted", "Somebody changed what was applied."),
            ("Ignored", "Nothing is looked at."),
        ],
        reasons: &[PHASES, OTHERWISE],
    },
    Conditions {
        of: KIND,
        types: &[("ProfileActive", "What the profile wants is in force.")],
        reasons: &[ACTIVE],
    },
    Conditions {
        of: KIND,
        types: &[(
            "PrerequisitesMet",
            "Everything that the profile needs is there.",
        )],
        reasons: &[&[
            fine("True", "AllDependenciesFound", "Everything is there."),
            reason(
                "False",
                "ProfileNotFound",
                "No profile of this name is switched on.",
                "Correct spec.profile, or start the operator with --enable-profile.",
            ),
            reason(
                "False",
                "MissingDependency",
                "A kind is not installed that the profile needs.",
                "Install what the message names; it is picked up by itself.",
            ),
            reason(
                "False",
                "InvalidConfiguration",
                "The options make no sense, or no plan follows from them.",
                "Correct spec.options as the message says.",
            ),
        ]],
    },
    Conditions {
        of: KIND,
        types: &[("Approved", "The plan may be carried out.")],
        reasons: &[APPROVAL],
    },
    Conditions {
        of: KIND,
        types: &[(
            "PlanStale",
            "The targets are not what the plan was made from.",
        )],
        reasons: &[&[
            reason(
                "True",
                "TargetChanged",
                "Somebody edited a target after the plan was made.",
                "Set the action to DryRun, look at the new plan, approve it again.",
            ),
            fine(
                "False",
                "TargetUnchanged",
                "The targets are what the plan was made from.",
            ),
            fine("False", "Replanned", "There is a new plan."),
            fine("False", "Applied", "The plan was applied."),
            fine("False", "Ignored", "The action is Ignore."),
        ]],
    },
    Conditions {
        of: KIND,
        types: &[(
            "InputDependencyDrift",
            "Something that the plan was derived from has changed.",
        )],
        reasons: &[&[
            reason(
                "True",
                "InputChanged",
                "The plan was derived from what is not so any more.",
                "Look at the new plan and approve it.",
            ),
            fine("False", "NoChange", "It is as it was."),
            fine("False", "Acknowledged", "Somebody has seen it."),
            fine("False", "DriftResolved", "It is again as it was."),
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
                "What is in force comes from an older version of the profile.",
                "Set the action to DryRun to see what the new one would change.",
            ),
            fine("False", "NoLogicChange", "The plan would be the same."),
            fine(
                "False",
                "ManuallyAligned",
                "The targets are what the new plan would want.",
            ),
            fine("False", "Applied", "The new plan was applied."),
            fine("False", "Ignored", "The action is Ignore."),
        ]],
    },
];

/// The condition of the phase itself.
const PHASES: &[Reason] = &[
    fine("True", "Pending", "A plan is to be made."),
    fine("True", "Drafting", "A plan is being made."),
    reason(
        "True",
        "PrerequisiteFailed",
        "The profile cannot be planned.",
        "PrerequisitesMet says what is missing.",
    ),
    reason(
        "True",
        "ReviewRequired",
        "A plan waits.",
        "`medley diff` shows it, `medley approve` carries it out; Approved says what it waits for.",
    ),
    fine("True", "InProgress", "A plan is being carried out."),
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
        "The items say why; set the action to DryRun and back to Apply to try again.",
    ),
    reason(
        "True",
        "CompletedWithUpgrade",
        "A newer plan is to be had.",
        "Set the action to DryRun to see it.",
    ),
    reason(
        "True",
        "Failed",
        "The plan came to nothing.",
        "The message and the items say why.",
    ),
    reason(
        "True",
        "PlanStale",
        "The targets changed after the approval.",
        "Set the action to DryRun, look at the new plan, approve it again.",
    ),
    reason(
        "True",
        "DriftDetected",
        "Somebody changed what was applied.",
        "`medley explain` says what and who; apply again, or adopt the change.",
    ),
    fine("True", "Ignored", "The action is Ignore."),
];

/// The conditions of the other phases.
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
    fine("False", "NotIgnored", "The configuration is looked at."),
    fine("False", "NotInProgress", "Nothing is being applied."),
    fine("False", "NoDrift", "Nothing has drifted."),
    fine("False", "NotDrafting", "The plan is made."),
    fine("False", "NotCompleted", "Not everything is in force yet."),
    fine("False", "NotReviewRequired", "No plan waits."),
];

const ACTIVE: &[Reason] = &[
    fine("True", "Completed", "Everything is in force."),
    fine(
        "True",
        "UpgradeAvailable",
        "It is in force, and a newer plan is to be had.",
    ),
    reason(
        "False",
        "DriftDetected",
        "Somebody changed what was applied.",
        "`medley explain` says what and who.",
    ),
    fine("False", "Ignored", "The action is Ignore."),
    fine("False", "Pending", "There is no plan yet."),
    fine("False", "Drafting", "There is no plan yet."),
    reason(
        "False",
        "PrerequisiteFailed",
        "The profile cannot be planned.",
        "PrerequisitesMet says what is missing.",
    ),
    reason(
        "False",
        "ReviewRequired",
        "A plan waits.",
        "Look at it, and approve it.",
    ),
    fine("False", "InProgress", "A plan is being carried out."),
    reason(
        "False",
        "CompletedWithErrors",
        "Some items failed.",
        "The items say why.",
    ),
    reason(
        "False",
        "Failed",
        "The plan came to nothing.",
        "The message says why.",
    ),
];

const APPROVAL: &[Reason] = &[
    fine(
        "True",
        "Approved",
        "Somebody approved it; the message says who.",
    ),
    fine(
        "False",
        "NothingToApprove",
        "There is no plan, or nothing in it.",
    ),
    fine("False", "NotRequested", "The action is DryRun."),
    reason(
        "False",
        "InputChanged",
        "The plan was made anew because what it was derived from changed.",
        "Look at it, and approve it again.",
    ),
    reason(
        "False",
        "Rejected",
        "Somebody rejected this plan.",
        "Change the options, so that there is another plan.",
    ),
    reason(
        "False",
        "OtherPlanApproved",
        "The approval is for another plan.",
        "Look at this plan, and approve it.",
    ),
    reason(
        "False",
        "UnknownItem",
        "The approval names an item that the plan has not.",
        "Correct spec.approval.items.",
    ),
    reason(
        "False",
        "TakeoverWithoutConsent",
        "The plan takes fields from somebody.",
        "Agree in spec.approval.takeovers, or leave them to their owner.",
    ),
    reason(
        "False",
        "ApprovalsNotRecorded",
        "Approvals are required, and the admission webhook does not record them or is not registered as Medley installs it.",
        "Run `medley webhook --register`; the message says what is wrong with the registration.",
    ),
    reason(
        "False",
        "AuthorUnknown",
        "Authors of a plan do not count, and none is recorded.",
        "Set the action to DryRun while `medley webhook` runs.",
    ),
    reason(
        "False",
        "NotReviewed",
        "The plan was made after the action was set to Apply, or its approval has expired.",
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
        "More people have to approve.",
        "Have them run `medley approve`.",
    ),
    reason(
        "False",
        "PartlyApproved",
        "What is approved is in force, and the rest waits.",
        "Add the others to spec.approval.items, or remove them all.",
    ),
    fine("False", "Ignored", "The action is Ignore."),
];

#[cfg(test)]
mod tests {
    use api::advisor::Phase;
    use api::words::{says, tells};

    use super::{CONDITIONS, EVENTS};

    #[test]
    fn every_phase_is_explained() {
        for phase in Phase::ALL {
            let word = match phase {
                Phase::Drifted => "DriftDetected",
                other => other.as_str(),
            };
            assert!(says(CONDITIONS, phase.as_str(), "True", word), "{phase}");
            let told = [false, true]
                .iter()
                .any(|it| tells(EVENTS, phase.as_str(), *it));
            assert!(told, "{phase}");
        }
    }
}
