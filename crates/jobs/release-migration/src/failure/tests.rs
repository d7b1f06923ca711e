use super::*;

fn of(reason: Reason, name: &str, effect: Effect) -> Failure {
    Failure::of_operator(reason, name, effect)
}

#[test]
fn failures_of_one_reason_are_combined() {
    for (reason, word, message) in [
        (
            Reason::NoVersions,
            "ClusterOperatorsNoVersions",
            "Cluster operators a, b do not declare expected versions",
        ),
        (
            Reason::NotAvailable,
            "ClusterOperatorsNotAvailable",
            "Cluster operators a, b are not available",
        ),
        (
            Reason::Degraded,
            "ClusterOperatorsDegraded",
            "Cluster operators a, b are degraded",
        ),
        (
            Reason::Updating,
            "ClusterOperatorsUpdating",
            "Cluster operators a, b are updating versions",
        ),
    ] {
        let parts = vec![of(reason, "b", Effect::None), of(reason, "a", Effect::None)];
        let all = Failure::combine(parts).unwrap();
        assert_eq!((all.word(), all.to_string().as_str()), (word, message));
    }
}

#[test]
fn the_strongest_effect_counts() {
    use Effect::{Fail, FailAfterInterval, None, Report};
    for (effects, expected) in [
        ([Report, None], None),
        ([None, FailAfterInterval], FailAfterInterval),
        ([Fail, FailAfterInterval], Fail),
        ([Report, Report], Report),
    ] {
        let parts = effects.map(|effect| of(Reason::Degraded, "a", effect));
        let all = Failure::combine(parts.to_vec()).unwrap();
        assert_eq!(all.effect(), expected, "{effects:?}");
    }
}

#[test]
fn different_reasons_are_listed_once_and_in_order() {
    let all = Failure::combine(vec![
        of(Reason::Updating, "z", Effect::None),
        of(Reason::Degraded, "a", Effect::FailAfterInterval),
        of(Reason::Updating, "z", Effect::None),
    ])
    .unwrap();
    assert_eq!(all.word(), "MultipleErrors");
    assert_eq!(
        all.to_string(),
        "Multiple errors are preventing progress:\n* Cluster operator a is degraded\n* Cluster operator z is updating versions"
    );
    assert_eq!(
        all.summary(),
        "an unknown error has occurred: MultipleErrors"
    );
    // An operator that is only updating does not make the update fail.
    let failing = all.failing().unwrap();
    assert_eq!(failing.word(), "ClusterOperatorDegraded");
    assert_eq!(failing.to_string(), "Cluster operator a is degraded");
}

#[test]
fn missing_objects_are_listed() {
    let gone = |name, number| Failure::not_found(name, number, 9);
    assert_eq!(
        gone("dns", 4).to_string(),
        "Could not update clusteroperator \"dns\" (4 of 9): resource may have been deleted"
    );
    assert_eq!(gone("dns", 4).word(), "UpdatePayloadResourceNotFound");
    let both = Failure::combine(vec![gone("dns", 4), gone("a", 1)]).unwrap();
    assert_eq!(both.word(), "MultipleErrors");
    assert_eq!(Failure::combine(Vec::new()), None);
}

#[test]
fn summaries_are_short() {
    let one = |reason| of(reason, "a", Effect::Fail).summary();
    assert_eq!(
        one(Reason::NotAvailable),
        "the cluster operator a is not available"
    );
    assert_eq!(one(Reason::Degraded), "the cluster operator a is degraded");
    assert_eq!(
        one(Reason::NoVersions),
        "the cluster operator a does not declare expected versions"
    );
    assert_eq!(
        one(Reason::Updating),
        "a has an unknown error: ClusterOperatorUpdating"
    );
    assert_eq!(
        Failure::not_found("a", 1, 2).summary(),
        "some resources could not be updated"
    );
    let two = |reason| {
        let parts = vec![of(reason, "a", Effect::Fail), of(reason, "b", Effect::Fail)];
        Failure::combine(parts).unwrap().summary()
    };
    assert_eq!(
        two(Reason::NotAvailable),
        "some cluster operators are not available"
    );
    assert_eq!(
        two(Reason::Degraded),
        "a, b has an unknown error: ClusterOperatorsDegraded"
    );
}
