use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::discovery::ApiResource;

use super::Findings;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn resource(group: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: format!("{group}/v1"),
        kind: String::new(),
        plural: plural.into(),
    }
}

fn summary(conditions: &[NamespaceCondition]) -> Vec<(&str, &str, &str, &str)> {
    let each = conditions.iter().map(|condition| {
        (
            condition.type_.as_str(),
            condition.status.as_str(),
            condition.reason.as_deref().unwrap_or_default(),
            condition.message.as_deref().unwrap_or_default(),
        )
    });
    each.collect()
}

#[test]
fn empty_namespace_has_no_failing_condition() {
    let conditions = Findings::default().conditions(&[], NOW);
    let expected = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "False",
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    assert_eq!(summary(&conditions), expected);
}

#[test]
fn remaining_objects_are_counted_by_kind_and_finalizer() {
    let mut findings = Findings::default();
    let keeps = |count| [("example.com/keep".to_owned(), count)].into();
    findings.remaining(&resource("example.com", "widgets"), 1, keeps(1));
    findings.remaining(&resource("", "configmaps"), 2, keeps(2));
    findings.remaining(&resource("", "secrets"), 0, keeps(0));
    let conditions = findings.conditions(&[], NOW);
    assert_eq!(
        summary(&conditions)[3..],
        [
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 2 resource instances, \
                 widgets.example.com has 1 resource instances"
            ),
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: \
                 example.com/keep in 3 resource instances"
            ),
        ]
    );
    assert_eq!(findings.problems(), None, "what waits is no problem");
}

#[test]
fn errors_are_reported_in_order() {
    let mut findings = Findings::default();
    findings.problem(Some("b is odd".into()));
    findings.problem(None);
    findings.problem(Some("a is odd".into()));
    findings.undiscovered("no answer".into());
    let conditions = findings.conditions(&[], NOW);
    assert_eq!(summary(&conditions)[0].2, "DiscoveryFailed");
    assert_eq!(summary(&conditions)[0].3, "no answer");
    assert_eq!(summary(&conditions)[2].2, "ContentDeletionFailed");
    assert_eq!(
        summary(&conditions)[2].3,
        "Failed to delete all resource types, 2 remaining: a is odd, b is odd"
    );
    assert!(findings.problems().is_some());
}

#[test]
fn times_change_only_with_the_status_and_foreign_conditions_stay() {
    let foreign = NamespaceCondition {
        type_: "Haunted".into(),
        status: "True".into(),
        ..NamespaceCondition::default()
    };
    let before = Findings::default().conditions(&[foreign], NOW);
    let later = NOW + SignedDuration::from_secs(9);
    assert_eq!(Findings::default().conditions(&before, later), before);

    let mut findings = Findings::default();
    findings.remaining(&resource("", "secrets"), 1, [].into());
    let after = findings.conditions(&before, later);
    let times: Vec<_> = after
        .iter()
        .map(|condition| condition.last_transition_time.as_ref().map(|time| time.0))
        .collect();
    let now = Some(NOW);
    assert_eq!(times, [None, now, now, now, Some(later), now]);
}
