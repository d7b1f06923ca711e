//! Reasons of governance: events and conditions of a VirtPlatformConfig.

use api::reasons::{Conditions, Event, Reason};
use api::{condition_reasons, conditions, events};

const KIND: &str = "VirtPlatformConfig";
const PROFILE: &str = "PlatformProfile";

/// Event reasons.
pub const EVENTS: &[Event] = events! {
    Normal "Pending" KIND => "a plan is to be generated";
    Normal "Drafting" KIND => "a plan is being generated";
    Warning "PrerequisiteFailed" KIND => "a prerequisite of the profile is missing, or its options are invalid";
    Normal "ReviewRequired" KIND => "a plan waits for approval";
    Normal "InProgress" KIND => "a plan starts to be applied";
    Normal "Completed" KIND => "everything is applied and in force";
    Warning "CompletedWithErrors" KIND => "a plan was applied, and some items failed";
    Normal "CompletedWithUpgrade" KIND => "a plan made now would differ: the operator or a CustomResourceDefinition changed";
    Warning "Failed" KIND => "a plan could not be generated or applied";
    Warning "PlanStale" KIND => "an approved plan is not applied, because its targets have changed since";
    Normal "RolledBack" KIND => "a revision of the history is in force again";
    Warning "Drifted" KIND => "another manager changed the applied state";
    Normal "Ignored" KIND => "the action became Ignore: the configuration is not managed any more";
    Normal "Replanning" KIND => "a plan is generated again; the message has the reason";
    Normal "ManuallyAligned" KIND => "the targets were set to the desired state by hand";
    Warning "InputChanged" KIND => "an input of the plan has changed";
    Warning "ProfileChanged" KIND => "the PlatformProfile that the plan was generated from has changed";
    Normal "ItemApplied" KIND => "an item is applied to its target";
    Normal "WorkInFlight" KIND
        => "a disruptive item waits until work in the cluster has finished; the message names the objects";
    Normal "DriftResolved" KIND => "the targets match the applied state again";
    Warning "DriftCorrected" KIND => "locks are bypassed, and drift is reverted";
    Warning "EnforcementPaused" KIND => "another manager keeps reverting the applied state: correction is paused";
    Warning "NotificationFailed" KIND
        => "a receiver of notifications could not be reached or refused one; it is sent again";
    Normal "NotRequested" KIND => "a plan waits because the action is not Apply";
    Normal "Rejected" KIND => "the plan was rejected";
    Normal "OtherPlanApproved" KIND => "an approval is for another plan";
    Normal "UnknownItem" KIND => "an approval names an unknown item";
    Normal "TakeoverWithoutConsent" KIND => "a plan waits because it takes fields from other managers without consent";
    Normal "ApprovalsNotRecorded" KIND => "a plan waits because approvals are not recorded";
    Normal "AuthorUnknown" KIND => "a plan waits because its authors are not recorded";
    Normal "NotReviewed" KIND
        => "a plan was generated after the action was set to Apply, and waits for its own approval";
    Normal "InvalidPolicy" KIND => "a plan waits because an ApprovalPolicy that selects it cannot be evaluated";
    Normal "TooFewApprovals" KIND => "a plan waits for more approvals";
    Normal "PartlyApproved" KIND => "the approved items of a plan are in force, and the others wait";
    Warning "KindUnreadable" KIND
        => "a kind that the profile uses cannot be read, so its plan and what is in force cannot be checked";
    Warning "Unhealthy" KIND => "the operator of a target reports a fault";
    Normal "Healthy" KIND => "the operators of all targets report that what is in force works";
    Normal "HealthUnknown" KIND => "whether what is in force works cannot be seen any more; the message says why";
    Warning "UpstreamOperatorRuns" KIND
        => "the virt-advisor-operator reconciles the configuration, so Medley does not";
    Normal "RemediationPaused" KIND => "a NodeHealthCheck is paused while nodes restart";
    Normal "RemediationResumed" KIND => "a NodeHealthCheck is resumed";
    Normal "ProfileReady" PROFILE => "configurations can use the profile";
    Warning "ProfileNotReady" PROFILE => "no configuration can use the profile; the condition Ready has the reason";
};

/// Condition types and reasons.
pub const CONDITIONS: &[Conditions] = conditions! {
    of KIND,
        "Pending": "A plan is to be generated.",
        "Drafting": "A plan is being generated.",
        "PrerequisiteFailed": "No plan can be generated.",
        "ReviewRequired": "A plan waits for approval.",
        "InProgress": "A plan is being applied.",
        "Completed": "Everything is in force.",
        "CompletedWithErrors": "Some items failed.",
        "CompletedWithUpgrade": "It is in force, and a plan made now would differ.",
        "Failed": "The plan could not be generated or applied.",
        "Drifted": "Another manager changed the applied state.",
        "Ignored": "The configuration is not managed."
    with [PHASES, OTHERWISE] {}
    of KIND, "ProfileActive": "The desired state of the profile is in force." with [ACTIVE] {}
    of KIND, "PrerequisitesMet": "All prerequisites of the profile are installed." {
        "True" "AllDependenciesFound": "All prerequisites are installed.";
        "False" "ProfileNotFound": "No profile of this name is enabled."
            => "Correct spec.profile, or start the operator with --enable-profile.";
        "False" "MissingDependency": "A CRD that the profile needs is not installed."
            => "Install the CRDs named in the message; no restart is needed.";
        "False" "MissingNamespace": "A namespace that the profile writes to does not exist."
            => "Install the operator that the namespace belongs to, or create it. status.retry states when the plan is tried again.";
        "False" "KindUnreadable": "A kind that the profile uses is installed and cannot be read."
            => "Grant the permission or repair the conversion webhook that the message names; the operator tries again by itself.";
        "False" "InvalidConfiguration": "The options are invalid, or no plan can be generated from them."
            => "Correct spec.options as the message describes.";
    }
    of KIND, "Approved": "The plan may be applied." with [APPROVAL] {}
    of KIND, "PlanStale": "The targets have changed since the plan was generated." {
        "True" "TargetChanged": "Another manager edited a target after the plan was generated."
            => "Set the action to DryRun, review the new plan, and approve it.";
        "False" "TargetUnchanged": "The targets are unchanged since the plan was generated.";
        "False" "Replanned": "There is a new plan.";
        "False" "Applied": "The plan was applied.";
        "False" "Ignored": "The action is Ignore.";
    }
    of KIND, "InputDependencyDrift": "An input of the plan has changed." {
        "True" "InputChanged": "The plan was generated from other inputs." => "Review the new plan and approve it.";
        "True" "ProfileChanged": "The PlatformProfile that the plan was generated from has changed."
            => "Review the new plan and approve it.";
        "False" "NoChange": "The inputs are unchanged.";
        "False" "Acknowledged": "An edit of the specification acknowledged the change.";
        "False" "DriftResolved": "The inputs are the same as before again.";
        "False" "Ignored": "The action is Ignore.";
    }
    of KIND, "Contested": "Another controller sets fields that the plan changes, and would revert it." {
        "True" "OtherController": "The message names the targets, the controllers and the fields."
            => "Make the other controller leave the fields alone, as the message describes, or set the action to Ignore.";
        "False" "NoOtherController": "No other controller is known to set the fields of the current plan.";
        "False" "Ignored": "The action is Ignore.";
    }
    of KIND, "Healthy": "What the operators of the targets report about what is in force. It does not change the phase." {
        "True" "AsReported": "The operators of all targets report that what is in force works.";
        "False" "Degraded": "The operator of a target reports a fault, or the target is gone."
            => "The message names the items and what their operators report; repair the cause there.";
        "Unknown" "Progressing": "An operator is processing a change, or nodes are being updated.";
        "Unknown" "NotReported": "No operator reports on a target, or its report cannot be read."
            => "Check what the message names by hand.";
        "Unknown" "NothingInForce": "Everything that was applied is undone.";
        "Unknown" "Ignored": "The action is Ignore.";
    }
    of PROFILE, "Ready": "Configurations can use the profile." {
        "True" "Ready": "The profile is checked, and the operator has the permissions that it needs.";
        "False" "Invalid": "The static check found errors." => "Correct what status.findings lists; `medley profile lint` finds the same.";
        "False" "PermissionsMissing": "The operator lacks permissions that the profile needs."
            => "An administrator grants what status.missingRules lists; `medley profile render --rbac` writes the ClusterRole.";
    }
    of KIND, "UpgradeAvailable": "A plan made now would differ, by the version of the operator or by what the cluster offers." {
        "True" "LogicChanged": "The state in force comes from an older version of the profile."
            => "Set the action to DryRun to review the changes.";
        "True" "CapabilitiesChanged": "A CustomResourceDefinition of a target or an input changed; the message names it and what differs."
            => "Set the action to DryRun to review the changes.";
        "False" "NoLogicChange": "The plan would be the same.";
        "False" "ManuallyAligned": "The targets match the new plan.";
        "False" "Applied": "The new plan was applied.";
        "False" "Ignored": "The action is Ignore.";
    }
};

/// Reasons of the condition of the phase itself.
const PHASES: &[Reason] = condition_reasons! {
    "True" "Pending": "A plan is to be generated.";
    "True" "Drafting": "A plan is being generated.";
    "True" "PrerequisiteFailed": "No plan can be generated." => "PrerequisitesMet names what is missing.";
    "True" "ReviewRequired": "A plan waits for approval."
        => "`medley diff` shows it, `medley approve` applies it; the condition Approved states what it waits for.";
    "True" "InProgress": "A plan is being applied.";
    "True" "Completed": "Everything is in force.";
    "True" "RolledBack": "A revision of the history is in force again.";
    "True" "CompletedWithErrors": "Some items failed."
        => "The items have the errors; status.retry states when items that were not applied are tried again.";
    "True" "CompletedWithUpgrade": "This version of the operator plans differently."
        => "Set the action to DryRun to review its plan.";
    "True" "Failed": "The plan could not be generated or applied."
        => "The message and the items have the errors; status.retry states when it is tried again.";
    "True" "PlanStale": "The targets changed after the approval."
        => "Set the action to DryRun, review the new plan, and approve it.";
    "True" "DriftDetected": "Another manager changed the applied state."
        => "`medley explain` lists the fields and managers; apply again, or adopt the change.";
    "True" "Ignored": "The action is Ignore.";
};

/// Reasons of the conditions of the other phases.
const OTHERWISE: &[Reason] = condition_reasons! {
    "False" "Pending": "It is another phase: Pending.";
    "False" "Drafting": "It is another phase: Drafting.";
    "False" "PrerequisitesFailed": "It is another phase: PrerequisiteFailed.";
    "False" "PrerequisiteFailed": "It is another phase: PrerequisiteFailed.";
    "False" "ReviewRequired": "It is another phase: ReviewRequired.";
    "False" "InProgress": "It is another phase: InProgress.";
    "False" "Completed": "It is another phase: Completed.";
    "False" "CompletedWithErrors": "It is another phase: CompletedWithErrors.";
    "False" "CompletedWithUpgrade": "It is another phase: CompletedWithUpgrade.";
    "False" "Failed": "It is another phase: Failed.";
    "False" "Drifted": "It is another phase: Drifted.";
    "False" "ConfigurationDrifted": "It was completed, and has drifted.";
    "False" "Ignored": "The action is Ignore.";
    "False" "NotIgnored": "The configuration is managed.";
    "False" "NotInProgress": "Nothing is being applied.";
    "False" "NoDrift": "Nothing has drifted.";
    "False" "NotDrafting": "The plan is generated.";
    "False" "NotCompleted": "Not everything is in force yet.";
    "False" "NotReviewRequired": "No plan waits for approval.";
};

const ACTIVE: &[Reason] = condition_reasons! {
    "True" "Completed": "Everything is in force.";
    "True" "UpgradeAvailable": "It is in force, and this version of the operator plans differently.";
    "False" "DriftDetected": "Another manager changed the applied state."
        => "`medley explain` lists the fields and managers.";
    "False" "Ignored": "The action is Ignore.";
    "False" "Pending": "There is no plan yet.";
    "False" "Drafting": "There is no plan yet.";
    "False" "PrerequisiteFailed": "No plan can be generated." => "PrerequisitesMet names what is missing.";
    "False" "ReviewRequired": "A plan waits for approval." => "Review it, and approve it.";
    "False" "InProgress": "A plan is being applied.";
    "False" "CompletedWithErrors": "Some items failed." => "The items have the errors.";
    "False" "Failed": "The plan could not be generated or applied." => "The message has the error.";
};

const APPROVAL: &[Reason] = condition_reasons! {
    "True" "Approved": "The plan is approved; the message names the approvers.";
    "False" "NothingToApprove": "There is no plan, or it is empty.";
    "False" "NotRequested": "The action is DryRun.";
    "False" "InputChanged": "The plan was generated again because its inputs changed."
        => "Review it, and approve it again.";
    "False" "Rejected": "This plan was rejected." => "Change the options for another plan.";
    "False" "OtherPlanApproved": "The approval is for another plan." => "Review this plan, and approve it.";
    "False" "UnknownItem": "The approval names an unknown item." => "Correct spec.approval.items.";
    "False" "TakeoverWithoutConsent": "The plan takes fields from other managers."
        => "Consent in spec.approval.takeovers, or make the managers release the fields.";
    "False" "ApprovalsNotRecorded": "Approvals are required, and the admission webhook does not record them or is not registered as Medley installs it."
        => "Run `medley webhook --register`; the message names the fault in the registration.";
    "False" "AuthorUnknown": "Approvals by authors do not count, and no author is recorded."
        => "Set the action to DryRun while `medley webhook` runs.";
    "False" "NotReviewed": "The plan was generated after the action was set to Apply, or its approval has expired."
        => "Review it, and run `medley approve`.";
    "False" "InvalidPolicy": "An ApprovalPolicy that selects the configuration cannot be evaluated."
        => "Correct the policy that the message names.";
    "False" "TooFewApprovals": "More approvals are required." => "Ask further approvers to run `medley approve`.";
    "False" "PartlyApproved": "The approved items are in force, and the others wait."
        => "Add the others to spec.approval.items, or remove them all.";
    "False" "Ignored": "The action is Ignore.";
};

#[cfg(test)]
mod tests {
    use api::advisor::Phase;
    use api::reasons::{has_condition, has_event};

    use super::{CONDITIONS, EVENTS};

    #[test]
    fn every_phase_is_explained() {
        for phase in Phase::ALL {
            let word = match phase {
                Phase::Drifted => "DriftDetected",
                other => other.as_str(),
            };
            assert!(
                has_condition(CONDITIONS, phase.as_str(), "True", word),
                "{phase}"
            );
            let documented = [false, true]
                .iter()
                .any(|it| has_event(EVENTS, phase.as_str(), *it));
            assert!(documented, "{phase}");
        }
    }
}
