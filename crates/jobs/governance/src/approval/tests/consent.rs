//! Consent to takeovers by the approval of the plan that lists them.

use super::*;

/// The approval of exactly this plan is consent to what it lists, unless its author or a policy chose otherwise.
#[rstest]
#[case::recorded(Recorder::Trusted, &[("lead", PLAN)], None, true)]
#[case::of_another_plan(Recorder::Trusted, &[("lead", "sha256:bbbb")], None, false)]
#[case::not_recorded(Recorder::Trusted, &[], None, false)]
#[case::status_is_no_record(Recorder::Trusted, &[], Some(PLAN), false)]
#[case::reviewed(Recorder::Untrusted("none".to_owned()), &[], Some(PLAN), true)]
#[case::reviewed_another_plan(Recorder::Untrusted("none".to_owned()), &[], Some("sha256:bbbb"), false)]
#[case::untrusted_record(Recorder::Untrusted("none".to_owned()), &[("lead", PLAN)], None, false)]
fn approval_of_the_plan_is_consent(
    #[case] recorder: Recorder,
    #[case] given: &[(&str, &str)],
    #[case] reviewed: Option<&'static str>,
    #[case] expected: bool,
) {
    let items = vec![
        taking(item("psi", &[]), "spec.a", false),
        taking(item("ksm", &[]), "spec.b", false),
    ];
    let case = |spec: &VirtPlatformConfigSpec| Case {
        recorder: recorder.clone(),
        reviewed,
        ..Case::new(spec, &items, given)
    };
    let blocked = |case: Case| {
        let answer = case.ask();
        matches!(answer, Err(ApprovalBlocker::TakeoverWithoutConsent(_)))
    };
    let plain = case(&bare()).ask();
    if expected {
        let consent = plain.unwrap().consent;
        let consent: Vec<_> = consent
            .iter()
            .map(|one| {
                (
                    one.item.as_str(),
                    one.path.as_deref(),
                    one.manager.as_deref(),
                )
            })
            .collect();
        let listed = |item, path| (item, Some(path), Some("argocd"));
        assert_eq!(consent, [listed("psi", "spec.a"), listed("ksm", "spec.b")]);
    } else {
        assert!(blocked(case(&bare())));
    }
    // With a choice of takeovers, or a named plan, the rest is not consented to.
    let mut chosen = bare();
    chosen.approval.get_or_insert_default().takeovers = vec![ConsentedTakeover {
        item: "psi".to_owned(),
        ..ConsentedTakeover::default()
    }];
    assert!(blocked(case(&chosen)));
    let mut named = bare();
    named.approval.get_or_insert_default().plan_digest = Some(PLAN.to_owned());
    assert!(blocked(case(&named)));
    // Every policy about the impact asks for more.
    for spec in [
        ApprovalPolicySpec::default(),
        ApprovalPolicySpec {
            impacts: vec![Impact::High],
            ..ApprovalPolicySpec::default()
        },
    ] {
        let governed = Case {
            policies: vec![policy("production", spec)],
            ..case(&bare())
        };
        assert!(blocked(governed));
    }
    let mut own = bare();
    let policy = own.approval_policy.get_or_insert_default();
    policy.required_approvals.high = 1;
    assert!(blocked(case(&own)));
}
