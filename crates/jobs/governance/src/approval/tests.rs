//! Only approved plans are applied, and the message states what is missing.

use api::advisor::{Approval, ApprovalPolicy, Rejection, RequiredApprovals};
use api::approval::ApprovalPolicySpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

mod consent;
mod policies;

const PLAN: &str = "sha256:aaaa";

fn item(name: &str, depends_on: &[&str]) -> Item {
    Item {
        name: name.to_owned(),
        depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        ..Item::default()
    }
}

/// psi, then descheduler (needs psi), then alerts (needs descheduler), then ksm.
fn items() -> Vec<Item> {
    vec![
        item("psi", &[]),
        item("descheduler", &["psi", "not-in-this-plan"]),
        item("alerts", &["descheduler"]),
        item("ksm", &[]),
    ]
}

fn taking(mut item: Item, path: &str, reclaimed: bool) -> Item {
    item.takeovers.push(Takeover {
        path: path.to_owned(),
        manager: "argocd".to_owned(),
        reclaimed,
        ..Takeover::default()
    });
    item
}

fn names(set: &BTreeSet<String>) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

fn owned(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[rstest]
#[case(&[], &["alerts", "descheduler", "ksm", "psi"])]
#[case(&["ksm"], &["ksm"])]
#[case(&["psi"], &["psi"])]
#[case(&["descheduler"], &["descheduler", "psi"])]
#[case(&["alerts"], &["alerts", "descheduler", "psi"])]
#[case(&["alerts", "ksm"], &["alerts", "descheduler", "ksm", "psi"])]
fn approved_items_include_dependencies(#[case] approved: &[&str], #[case] expected: &[&str]) {
    assert_eq!(
        names(&closure(&items(), &owned(approved)).unwrap()),
        expected
    );
}

#[test]
fn unknown_items_are_an_error() {
    assert_eq!(
        closure(&items(), &owned(&["psi", "swap"])).unwrap_err(),
        "The plan has no item 'swap'; it has psi, descheduler, alerts, ksm"
    );
}

#[test]
fn cyclic_dependencies_terminate() {
    let circle = [item("a", &["b"]), item("b", &["a"])];
    assert_eq!(
        names(&closure(&circle, &owned(&["a"])).unwrap()),
        ["a", "b"]
    );
}

#[rstest]
#[case::none(&[], true)]
#[case::all_of_the_item(&[("x", None)], false)]
#[case::all_of_another(&[("y", None)], true)]
#[case::exactly(&[("x", Some("spec.profiles.mode"))], false)]
#[case::what_contains_it(&[("x", Some("spec.profiles"))], false)]
#[case::the_same_of_another(&[("y", Some("spec.profiles"))], true)]
#[case::what_is_below_it(&[("x", Some("spec.profiles.mode.deep"))], true)]
#[case::what_begins_alike(&[("x", Some("spec.prof"))], true)]
fn takeovers_need_consent(#[case] consent: &[(&str, Option<&str>)], #[case] missing: bool) {
    let consent: Vec<_> = consent
        .iter()
        .map(|(item, path)| ConsentedTakeover {
            item: (*item).to_owned(),
            path: path.map(str::to_owned),
            manager: None,
        })
        .collect();
    let items = [taking(item("x", &[]), "spec.profiles.mode", false)];
    assert_eq!(!consented(&items, &consent).is_empty(), missing);
}

#[rstest]
#[case("argocd", false)]
#[case("flux", true)]
fn consent_is_for_a_manager(#[case] manager: &str, #[case] missing: bool) {
    let consent = ConsentedTakeover {
        item: "x".to_owned(),
        path: None,
        manager: Some(manager.to_owned()),
    };
    let items = [taking(item("x", &[]), "spec.profiles.mode", false)];
    assert_eq!(!consented(&items, &[consent]).is_empty(), missing);
}

#[test]
fn reclaimed_field_needs_no_consent() {
    let items = [taking(item("x", &[]), "spec.profiles", true)];
    assert_eq!(consented(&items, &[]), []);
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn entry(user: &str, digest: &str, at: Timestamp) -> Entry {
    Entry {
        user: user.to_owned(),
        digest: digest.to_owned(),
        at: Time(at),
        groups: Vec::new(),
        unplanned: None,
    }
}

fn users<'a>(approvals: &'a Approvals, digest: &'a str) -> Vec<&'a str> {
    approvals
        .of(digest)
        .map(|entry| entry.user.as_str())
        .collect()
}

#[test]
fn approvals_are_recorded_once_per_user_and_plan() {
    let mut text = None;
    for (second, user, digest) in [
        (0, "ann", "d1"),
        (1, "bob", "d1"),
        (2, "ann", "d1"),
        (3, "ann", "d2"),
    ] {
        text = Some(record(text.as_deref(), entry(user, digest, time(second))));
    }
    let text = text.unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        read,
        json!([
            { "user": "bob", "digest": "d1", "at": "2027-01-15T08:00:01Z" },
            { "user": "ann", "digest": "d1", "at": "2027-01-15T08:00:02Z" },
            { "user": "ann", "digest": "d2", "at": "2027-01-15T08:00:03Z" },
        ])
    );
    let approvals = Approvals::parse(Some(&text)).unwrap();
    assert_eq!(users(&approvals, "d1"), ["bob", "ann"]);
    assert_eq!(approvals.of("d3").count(), 0);
}

#[test]
fn latest_fifty_approvals_are_kept() {
    let mut text = None;
    for number in 0..60 {
        let next = entry(&format!("u{number}"), "d", time(number));
        text = Some(record(text.as_deref(), next));
    }
    let approvals = Approvals::parse(text.as_deref()).unwrap();
    assert_eq!(approvals.entries().len(), 50);
    assert_eq!(users(&approvals, "d")[0], "u10");
}

/// All annotations of an object are limited to 256 KiB, and identity providers may send many groups.
#[test]
fn size_of_approvals_is_limited() {
    let mut text = None;
    for number in 0..20 {
        let mut next = entry(&format!("u{number}"), "d", time(number));
        next.groups = (0..200).map(|group| format!("{group:050}")).collect();
        text = Some(record(text.as_deref(), next));
        assert!(text.as_ref().unwrap().len() <= 64 << 10);
    }
    let approvals = Approvals::parse(text.as_deref()).unwrap();
    assert_eq!(users(&approvals, "d").last(), Some(&"u19"));
}

#[test]
fn approvals_annotation_is_parsed_or_rejected() {
    assert_eq!(Approvals::parse(None), Ok(Approvals::default()));
    let more =
        r#"[{"user":"ann","digest":"d","at":"2026-01-01T00:00:00Z","groups":["ops"],"new":1}]"#;
    let read = Approvals::parse(Some(more)).unwrap();
    assert_eq!(read.entries()[0].groups, ["ops"]);
    for garbage in [
        "",
        "yes",
        "{}",
        r#"[{"user":"ann"}]"#,
        r#"[{"user":"ann","digest":"d","at":"soon"}]"#,
    ] {
        let refused = Approvals::parse(Some(garbage)).unwrap_err();
        assert!(
            refused.contains("advisor.kubevirt.io/approvals"),
            "{refused}"
        );
        // A new approval is still recorded.
        let anew = record(Some(garbage), entry("bob", "d", time(0)));
        assert_eq!(users(&Approvals::parse(Some(&anew)).unwrap(), "d"), ["bob"]);
    }
}

fn apply(approval: Approval, high: u32) -> VirtPlatformConfigSpec {
    VirtPlatformConfigSpec {
        action: Action::Apply,
        approval: Some(approval),
        approval_policy: Some(ApprovalPolicy {
            required_approvals: RequiredApprovals {
                low: 0,
                medium: 1,
                high,
            },
            author_may_approve: false,
        }),
        ..VirtPlatformConfigSpec::default()
    }
}

fn approvals(all: &[(&str, &str)]) -> Approvals {
    let text = all
        .iter()
        .fold(None, |text: Option<String>, (user, digest)| {
            Some(record(text.as_deref(), entry(user, digest, time(0))))
        });
    Approvals::parse(text.as_deref()).unwrap()
}

/// The inputs of one gate check.
struct Case {
    spec: VirtPlatformConfigSpec,
    items: Vec<Item>,
    policies: Vec<Policy>,
    impact: Impact,
    approvals: Approvals,
    used: Vec<Entry>,
    authors: BTreeSet<String>,
    recorder: Recorder,
    /// `status.reviewedDigest`.
    reviewed: Option<&'static str>,
    progress: Progress,
    now: Timestamp,
}

impl Case {
    fn new(spec: &VirtPlatformConfigSpec, items: &[Item], given: &[(&str, &str)]) -> Self {
        Self {
            spec: spec.clone(),
            items: items.to_vec(),
            policies: Vec::new(),
            impact: Impact::High,
            approvals: approvals(given),
            used: Vec::new(),
            authors: BTreeSet::from(["author".to_owned()]),
            recorder: Recorder::Trusted,
            reviewed: None,
            progress: Progress::Waiting,
            now: time(60),
        }
    }

    fn ask(&self) -> Result<ApprovedPlan, ApprovalBlocker> {
        let floor = Floor::of(&self.policies, &self.spec);
        ApprovalInputs {
            spec: &self.spec,
            items: &self.items,
            digest: PLAN,
            impact: self.impact,
            requirements: &floor.requirements(self.impact),
            lifetime: floor.lifetime().map_err(ApprovalBlocker::InvalidPolicy)?,
            approvals: &self.approvals,
            used: &self.used,
            authors: &self.authors,
            recorder: &self.recorder,
            reviewed: self.reviewed,
            lists_takeovers: floor.lists_takeovers(self.impact),
            position: (Some(7), Some(2)),
            progress: self.progress,
            now: self.now,
        }
        .check()
    }
}

fn ask(
    spec: &VirtPlatformConfigSpec,
    items: &[Item],
    given: &[(&str, &str)],
) -> Result<ApprovedPlan, ApprovalBlocker> {
    Case::new(spec, items, given).ask()
}

/// `action: Apply` and nothing else.
fn bare() -> VirtPlatformConfigSpec {
    VirtPlatformConfigSpec {
        action: Action::Apply,
        ..VirtPlatformConfigSpec::default()
    }
}

fn policy(name: &str, spec: ApprovalPolicySpec) -> Policy {
    Policy {
        name: name.to_owned(),
        spec,
    }
}

#[test]
fn without_a_recorder_apply_alone_approves() {
    let mut case = Case::new(&bare(), &items(), &[]);
    case.recorder = Recorder::Untrusted("it is not registered".to_owned());
    let granted = case.ask().unwrap();
    assert_eq!(granted.items.len(), 4);
    assert_eq!(granted.users(), Vec::<String>::new());
}

#[test]
fn with_a_recorder_the_plan_has_to_be_approved() {
    let blocked = ask(&bare(), &items(), &[("ann", "sha256:bbbb")]).unwrap_err();
    assert_eq!(blocked.reason(), "NotReviewed");
    assert!(blocked.to_string().contains(PLAN), "{blocked}");
    // Without a policy, the author may approve as well.
    let granted = ask(&bare(), &items(), &[("author", PLAN)]).unwrap();
    assert_eq!(granted.users(), ["author"]);
}

#[rstest]
#[case::as_sent(7, Some(2), true)]
#[case::edited_since(6, Some(2), false)]
#[case::used(7, Some(1), false)]
#[case::never_ran(7, None, false)]
fn approval_without_a_plan_is_for_one_specification_and_one_plan(
    #[case] generation: i64,
    #[case] after: Option<i64>,
    #[case] holds: bool,
) {
    let mut given = entry("ann", "", time(0));
    given.unplanned = Some(Unplanned { generation, after });
    let text = record(None, given);
    let mut case = Case::new(&bare(), &items(), &[]);
    case.approvals = Approvals::parse(Some(&text)).unwrap();
    assert_eq!(case.ask().is_ok(), holds);
    // It never counts where approvals are required.
    case.policies = vec![policy(
        "p",
        ApprovalPolicySpec {
            required_approvals: 1,
            ..Default::default()
        },
    )];
    assert_eq!(case.ask().unwrap_err().reason(), "TooFewApprovals");
}

#[test]
fn used_approvals_count_for_the_plan_that_used_them() {
    let mut case = Case::new(&bare(), &items(), &[]);
    case.used = vec![entry("ann", PLAN, time(0))];
    assert_eq!(case.ask().unwrap().users(), ["ann"]);
    case.used = vec![entry("ann", "sha256:bbbb", time(0))];
    assert!(case.ask().is_err());
}

#[rstest]
#[case(Action::DryRun)]
#[case(Action::Ignore)]
fn other_actions_do_not_apply(#[case] action: Action) {
    let spec = VirtPlatformConfigSpec {
        action,
        ..apply(Approval::default(), 0)
    };
    let blocked = ask(&spec, &items(), &[("ann", PLAN)]).unwrap_err();
    assert_eq!(blocked, ApprovalBlocker::NotRequested);
    assert_eq!(
        blocked.to_string(),
        "Plan ready for review. Change action to 'Apply' to execute."
    );
}

#[test]
fn rejection_is_for_one_plan() {
    let rejecting = |digest: &str| {
        let rejected = Rejection {
            plan_digest: digest.to_owned(),
            reason: Some("too risky".to_owned()),
        };
        apply(
            Approval {
                rejected: Some(rejected),
                ..Approval::default()
            },
            0,
        )
    };
    let blocked = ask(&rejecting(PLAN), &items(), &[]).unwrap_err();
    assert!(
        blocked.to_string().contains("rejected: too risky"),
        "{blocked}"
    );
    assert!(ask(&rejecting("sha256:bbbb"), &items(), &[("ann", PLAN)]).is_ok());
}

#[test]
fn only_the_approved_digest_is_applied() {
    let approving = |digest: &str| {
        let mut spec = apply(
            Approval {
                plan_digest: Some(digest.to_owned()),
                ..Approval::default()
            },
            0,
        );
        // The bypass concerns locks, not the digest.
        spec.bypass_optimistic_lock = true;
        spec
    };
    assert!(ask(&approving(PLAN), &items(), &[("ann", PLAN)]).is_ok());
    let blocked = ask(&approving("sha256:bbbb"), &items(), &[]).unwrap_err();
    assert_eq!(
        blocked,
        ApprovalBlocker::OtherPlan {
            approved: "sha256:bbbb".to_owned(),
            now: PLAN.to_owned()
        }
    );
    assert!(
        blocked
            .to_string()
            .contains("set spec.approval.planDigest to sha256:aaaa"),
        "{blocked}"
    );
}

#[test]
fn partial_approval_needs_consent_for_its_own_takeovers_only() {
    let mut items = items();
    items[1] = taking(items[1].clone(), "spec.profiles", false);
    let part = |name: &str| {
        apply(
            Approval {
                items: owned(&[name]),
                ..Approval::default()
            },
            0,
        )
    };
    assert_eq!(
        names(&ask(&part("ksm"), &items, &[("ann", PLAN)]).unwrap().items),
        ["ksm"]
    );
    let blocked = ask(&part("alerts"), &items, &[]).unwrap_err();
    assert!(
        blocked
            .to_string()
            .contains("item 'descheduler' would take spec.profiles from manager \"argocd\""),
        "{blocked}"
    );
    let mut bypass = part("alerts");
    bypass.bypass_optimistic_lock = true;
    assert!(ask(&bypass, &items, &[("ann", PLAN)]).is_ok());
    let unknown = ask(&part("swap"), &items, &[]).unwrap_err();
    assert!(
        matches!(unknown, ApprovalBlocker::UnknownItem(_)),
        "{unknown}"
    );
}

#[rstest]
#[case::nobody(&[], 0, false)]
#[case::one(&[("ann", PLAN)], 1, false)]
#[case::one_twice(&[("ann", PLAN), ("ann", PLAN)], 1, false)]
#[case::one_and_the_author(&[("ann", PLAN), ("author", PLAN)], 1, true)]
#[case::one_of_another_plan(&[("ann", PLAN), ("bob", "sha256:bbbb")], 1, false)]
fn two_distinct_non_author_approvals_are_required(
    #[case] given: &[(&str, &str)],
    #[case] have: usize,
    #[case] excluded: bool,
) {
    let mut spec = apply(Approval::default(), 2);
    spec.bypass_optimistic_lock = true;
    match ask(&spec, &items(), given).unwrap_err() {
        ApprovalBlocker::TooFewApprovals {
            have: found,
            requirement,
            author_excluded,
            ..
        } => {
            assert_eq!(
                (requirement.source.as_str(), requirement.approvals),
                (OWN, 2)
            );
            assert_eq!((found, author_excluded), (have, excluded));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn enough_approvals_open_the_gate() {
    let mut spec = apply(Approval::default(), 2);
    let granted = ask(&spec, &items(), &[("bob", PLAN), ("ann", PLAN)]).unwrap();
    assert_eq!(granted.users(), ["ann", "bob"]);
    let both = [("ann", PLAN), ("author", PLAN)];
    let blocked = ask(&spec, &items(), &both).unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "A plan of High impact needs 2 approvals (spec.approvalPolicy), and has 1 (by ann); that of an author does not count. \
         To approve, annotate the configuration with advisor.kubevirt.io/approve=sha256:aaaa."
    );
    spec.approval_policy.as_mut().unwrap().author_may_approve = true;
    assert_eq!(
        ask(&spec, &items(), &both).unwrap().users(),
        ["ann", "author"]
    );
}

#[test]
fn required_number_depends_on_impact() {
    let spec = apply(Approval::default(), 2);
    let with = |impact| {
        let mut case = Case::new(&spec, &items(), &[("ann", PLAN)]);
        case.impact = impact;
        case.ask()
    };
    assert!(with(Impact::Low).is_ok());
    assert!(with(Impact::Medium).is_ok());
    assert!(with(Impact::High).is_err());
}

#[test]
fn unverified_approvals_count_for_nothing() {
    let spec = apply(Approval::default(), 1);
    let mut case = Case::new(&spec, &items(), &[("ann", PLAN), ("bob", PLAN)]);
    case.authors.clear();
    assert_eq!(
        case.ask(),
        Err(ApprovalBlocker::AuthorUnknown {
            need: 1,
            impact: Impact::High
        })
    );
    case.recorder = Recorder::Untrusted("failurePolicy is Ignore".to_owned());
    let blocked = case.ask().unwrap_err();
    assert_eq!(blocked.reason(), "ApprovalsNotRecorded");
    assert!(
        blocked.to_string().contains("failurePolicy is Ignore"),
        "{blocked}"
    );
}

proptest! {
    /// A closure contains the requested items, all their dependencies, and is closed.
    #[test]
    fn closure_is_closed(
        edges in prop::collection::vec((0_usize..6, 0_usize..6), 0..12),
        approved in prop::collection::vec(0_usize..6, 1..4),
    ) {
        let name = |number: usize| format!("i{number}");
        let mut items: Vec<Item> = (0..6).map(|number| item(&name(number), &[])).collect();
        for (from, to) in edges {
            items[from].depends_on.push(name(to));
        }
        let approved: Vec<String> = approved.into_iter().map(name).collect();
        let closed = closure(&items, &approved).unwrap();
        prop_assert!(approved.iter().all(|name| closed.contains(name)));
        for item in items.iter().filter(|item| closed.contains(&item.name)) {
            prop_assert!(item.depends_on.iter().all(|name| closed.contains(name)));
        }
        // Every member is reachable from an approved item.
        for member in closed.iter().filter(|name| !approved.contains(name)) {
            let needed = items.iter().any(|item| {
                closed.contains(&item.name) && &item.name != member && item.depends_on.contains(member)
            });
            prop_assert!(needed, "{member} is not needed by any member");
        }
        let all: Vec<String> = closed.iter().cloned().collect();
        prop_assert_eq!(closure(&items, &all).unwrap(), closed);
    }

    /// The gate opens exactly when enough non-authors approved exactly this plan.
    #[test]
    fn gate_opens_with_enough_approvers(
        users in prop::collection::vec((0_usize..5, any::<bool>()), 0..10),
        need in 0_u32..4,
    ) {
        let given: Vec<(String, &str)> = users
            .iter()
            .map(|(user, this)| (if *user == 0 { "author".to_owned() } else { format!("u{user}") }, if *this { PLAN } else { "sha256:bbbb" }))
            .collect();
        let given: Vec<(&str, &str)> = given.iter().map(|(user, digest)| (user.as_str(), *digest)).collect();
        let count = users.iter().filter(|(user, this)| *user != 0 && *this).map(|(user, _)| user).collect::<BTreeSet<_>>().len();
        let result = ask(&apply(Approval::default(), need), &items(), &given);
        // Where no policy requires approvals, one by any approver suffices, but there has to be one.
        let stamped = users.iter().any(|(_, this)| *this);
        let expected = if need == 0 { stamped } else { count >= need as usize };
        prop_assert_eq!(result.is_ok(), expected);
    }
}
