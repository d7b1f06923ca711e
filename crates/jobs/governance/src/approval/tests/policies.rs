//! Requirements of ApprovalPolicies, which a configuration can only extend.

use super::*;

#[test]
fn configuration_cannot_lower_cluster_policy() {
    let mut case = Case::new(&bare(), &items(), &[("ann", PLAN)]);
    case.policies = vec![policy(
        "two",
        ApprovalPolicySpec {
            required_approvals: 2,
            ..Default::default()
        },
    )];
    assert_eq!(case.ask().unwrap_err().reason(), "TooFewApprovals");
    case.spec.approval_policy = Some(ApprovalPolicy {
        required_approvals: RequiredApprovals::default(),
        author_may_approve: true,
    });
    assert_eq!(case.ask().unwrap_err().reason(), "TooFewApprovals");
    case.spec.bypass_optimistic_lock = true;
    case.progress = Progress::Correction;
    assert_eq!(case.ask().unwrap_err().reason(), "TooFewApprovals");
    case.approvals = approvals(&[("ann", PLAN), ("author", PLAN)]);
    assert_eq!(
        case.ask().unwrap_err().reason(),
        "TooFewApprovals",
        "the author"
    );
    case.approvals = approvals(&[("ann", PLAN), ("bob", PLAN)]);
    assert_eq!(case.ask().unwrap().users(), ["ann", "bob"]);
}

#[test]
fn all_policies_that_select_a_plan_have_to_be_met() {
    let mut case = Case::new(&bare(), &items(), &[("ann", PLAN), ("bob", PLAN)]);
    case.spec.profile = "p".to_owned();
    let leads = ApprovalPolicySpec {
        required_approvals: 1,
        groups: vec!["leads".to_owned()],
        ..Default::default()
    };
    let two = ApprovalPolicySpec {
        required_approvals: 2,
        ..Default::default()
    };
    case.policies = vec![policy("leads", leads.clone()), policy("two", two)];
    let blocked = case.ask().unwrap_err();
    assert!(
        blocked
            .to_string()
            .contains("ApprovalPolicy leads, by members of leads"),
        "{blocked}"
    );
    let mut lead = entry("bob", PLAN, time(0));
    lead.groups = vec!["system:authenticated".to_owned(), "leads".to_owned()];
    let text = record(Some(&record(None, entry("ann", PLAN, time(0)))), lead);
    case.approvals = Approvals::parse(Some(&text)).unwrap();
    assert_eq!(case.ask().unwrap().users(), ["ann", "bob"]);
    // Policies that do not select the plan do not count.
    for spec in [
        ApprovalPolicySpec {
            required_approvals: 9,
            profiles: vec!["q".to_owned()],
            ..Default::default()
        },
        ApprovalPolicySpec {
            required_approvals: 9,
            impacts: vec![Impact::Low],
            ..Default::default()
        },
    ] {
        case.policies.push(policy("other", spec));
        assert!(case.ask().is_ok());
    }
}

#[rstest]
#[case::fresh(None, 3600, true)]
#[case::a_month(None, 31 * 24 * 3600, false)]
#[case::by_policy(Some("30m"), 1799, true)]
#[case::by_policy_too_old(Some("30m"), 1801, false)]
#[case::from_the_future(None, -3600, false)]
fn approvals_expire(#[case] lifetime: Option<&str>, #[case] age: i64, #[case] holds: bool) {
    let mut case = Case::new(&bare(), &items(), &[("ann", PLAN)]);
    case.policies = vec![policy(
        "p",
        ApprovalPolicySpec {
            required_approvals: 1,
            approvals_expire_after: lifetime.map(str::to_owned),
            ..Default::default()
        },
    )];
    case.now = time(age);
    assert_eq!(case.ask().is_ok(), holds);
    // A half-applied plan is worse than a late one.
    case.progress = Progress::Begun;
    assert!(case.ask().is_ok());
}

#[test]
fn invalid_policy_blocks_and_is_named() {
    let broken = [policy(
        "odd",
        ApprovalPolicySpec {
            maintenance_windows: vec![api::advisor::MaintenanceWindow {
                schedule: "at night".to_owned(),
                duration: "4h".to_owned(),
                time_zone: None,
            }],
            ..Default::default()
        },
    )];
    let floor = Floor::of(&broken, &bare());
    assert!(floor.problem().unwrap().starts_with("ApprovalPolicy odd: "));
    assert!(!floor.window(Impact::Low, time(0)).may_start());
}
