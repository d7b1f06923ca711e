//! Nothing is carried out that was not approved, and it is said what is missing.

use api::advisor::{Approval, ApprovalPolicy, Rejection};
use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

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
fn what_is_approved_brings_what_it_needs(#[case] approved: &[&str], #[case] expected: &[&str]) {
    assert_eq!(
        names(&closure(&items(), &owned(approved)).unwrap()),
        expected
    );
}

#[test]
fn items_that_do_not_exist_are_an_error() {
    assert_eq!(
        closure(&items(), &owned(&["psi", "swap"])).unwrap_err(),
        "The plan has no item 'swap'; it has psi, descheduler, alerts, ksm"
    );
}

#[test]
fn items_that_need_each_other_end() {
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
        })
        .collect();
    let items = [taking(item("x", &[]), "spec.profiles.mode", false)];
    assert_eq!(!consented(&items, &consent).is_empty(), missing);
}

#[test]
fn what_was_ours_needs_no_consent() {
    let items = [taking(item("x", &[]), "spec.profiles", true)];
    assert_eq!(consented(&items, &[]), []);
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
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
        text = Some(record(text.as_deref(), user, digest, time(second)));
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
    assert_eq!(approvals.of("d1").collect::<Vec<_>>(), ["bob", "ann"]);
    assert_eq!(approvals.of("d3").count(), 0);
}

#[test]
fn only_the_last_fifty_are_kept() {
    let mut text = None;
    for number in 0..60 {
        text = Some(record(
            text.as_deref(),
            &format!("u{number}"),
            "d",
            time(number),
        ));
    }
    let approvals = Approvals::parse(text.as_deref()).unwrap();
    assert_eq!(approvals.entries().len(), 50);
    assert_eq!(approvals.of("d").next(), Some("u10"));
}

#[test]
fn what_others_wrote_is_read_or_refused() {
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
        // A new approval is recorded all the same.
        let anew = record(Some(garbage), "bob", "d", time(0));
        assert_eq!(
            Approvals::parse(Some(&anew))
                .unwrap()
                .of("d")
                .collect::<Vec<_>>(),
            ["bob"]
        );
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
            Some(record(text.as_deref(), user, digest, time(0)))
        });
    Approvals::parse(text.as_deref()).unwrap()
}

fn ask(
    spec: &VirtPlatformConfigSpec,
    items: &[Item],
    given: &[(&str, &str)],
) -> Result<Granted, Withheld> {
    gate(
        spec,
        items,
        PLAN,
        Impact::High,
        &approvals(given),
        Some("author"),
        true,
    )
}

#[test]
fn apply_alone_approves_what_follows() {
    let spec = VirtPlatformConfigSpec {
        action: Action::Apply,
        ..VirtPlatformConfigSpec::default()
    };
    let granted = gate(
        &spec,
        &items(),
        PLAN,
        Impact::High,
        &Approvals::default(),
        None,
        false,
    )
    .unwrap();
    assert_eq!(granted.items.len(), 4);
    assert_eq!(granted.by, Vec::<String>::new());
}

#[rstest]
#[case(Action::DryRun)]
#[case(Action::Ignore)]
fn without_apply_nothing_happens(#[case] action: Action) {
    let spec = VirtPlatformConfigSpec {
        action,
        ..apply(Approval::default(), 0)
    };
    let withheld = ask(&spec, &items(), &[("ann", PLAN)]).unwrap_err();
    assert_eq!(withheld, Withheld::NotAsked);
    assert_eq!(
        withheld.to_string(),
        "Plan ready for review. Change action to 'Apply' to execute."
    );
}

#[test]
fn a_rejected_plan_is_not_carried_out_and_another_is() {
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
    let withheld = ask(&rejecting(PLAN), &items(), &[]).unwrap_err();
    assert!(
        withheld.to_string().contains("rejected: too risky"),
        "{withheld}"
    );
    assert!(ask(&rejecting("sha256:bbbb"), &items(), &[]).is_ok());
}

#[test]
fn only_the_plan_that_was_reviewed_is_carried_out() {
    let approving = |digest: &str| {
        let mut spec = apply(
            Approval {
                plan_digest: Some(digest.to_owned()),
                ..Approval::default()
            },
            0,
        );
        // The bypass is about locks, not about which plan it is.
        spec.bypass_optimistic_lock = true;
        spec
    };
    assert!(ask(&approving(PLAN), &items(), &[]).is_ok());
    let withheld = ask(&approving("sha256:bbbb"), &items(), &[]).unwrap_err();
    assert_eq!(
        withheld,
        Withheld::OtherPlan {
            approved: "sha256:bbbb".to_owned(),
            now: PLAN.to_owned()
        }
    );
    assert!(
        withheld
            .to_string()
            .contains("set spec.approval.planDigest to sha256:aaaa"),
        "{withheld}"
    );
}

#[test]
fn part_of_a_plan_needs_consent_for_its_own_takeovers_only() {
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
        names(&ask(&part("ksm"), &items, &[]).unwrap().items),
        ["ksm"]
    );
    let withheld = ask(&part("alerts"), &items, &[]).unwrap_err();
    assert!(
        withheld
            .to_string()
            .contains("item 'descheduler' would take spec.profiles from manager \"argocd\""),
        "{withheld}"
    );
    let mut bypass = part("alerts");
    bypass.bypass_optimistic_lock = true;
    assert!(ask(&bypass, &items, &[]).is_ok());
    let unknown = ask(&part("swap"), &items, &[]).unwrap_err();
    assert!(matches!(unknown, Withheld::UnknownItem(_)), "{unknown}");
}

#[rstest]
#[case::nobody(&[], 0, false)]
#[case::one(&[("ann", PLAN)], 1, false)]
#[case::one_twice(&[("ann", PLAN), ("ann", PLAN)], 1, false)]
#[case::one_and_the_author(&[("ann", PLAN), ("author", PLAN)], 1, true)]
#[case::one_of_another_plan(&[("ann", PLAN), ("bob", "sha256:bbbb")], 1, false)]
fn two_others_have_to_approve_this_plan(
    #[case] given: &[(&str, &str)],
    #[case] have: usize,
    #[case] excluded: bool,
) {
    let mut spec = apply(Approval::default(), 2);
    spec.bypass_optimistic_lock = true;
    match ask(&spec, &items(), given).unwrap_err() {
        Withheld::TooFewApprovals {
            have: found,
            need: 2,
            author_excluded,
            ..
        } => {
            assert_eq!((found, author_excluded), (have, excluded));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn enough_approvals_open_the_gate() {
    let mut spec = apply(Approval::default(), 2);
    let granted = ask(&spec, &items(), &[("bob", PLAN), ("ann", PLAN)]).unwrap();
    assert_eq!(granted.by, ["ann", "bob"]);
    let both = [("ann", PLAN), ("author", PLAN)];
    let withheld = ask(&spec, &items(), &both).unwrap_err();
    assert_eq!(
        withheld.to_string(),
        "A plan of High impact needs 2 approvals, and has 1 (by ann); that of the author does not count. \
         To approve, annotate the configuration with advisor.kubevirt.io/approve=sha256:aaaa."
    );
    spec.approval_policy.as_mut().unwrap().author_may_approve = true;
    assert_eq!(ask(&spec, &items(), &both).unwrap().by, ["ann", "author"]);
}

#[test]
fn the_impact_says_how_many() {
    let spec = apply(Approval::default(), 2);
    let with = |impact| {
        gate(
            &spec,
            &items(),
            PLAN,
            impact,
            &approvals(&[("ann", PLAN)]),
            Some("author"),
            true,
        )
    };
    assert!(with(Impact::Low).is_ok());
    assert!(with(Impact::Medium).is_ok());
    assert!(with(Impact::High).is_err());
}

#[test]
fn approvals_that_nobody_verified_count_for_nothing() {
    let spec = apply(Approval::default(), 1);
    let given = approvals(&[("ann", PLAN), ("bob", PLAN)]);
    let unrecorded = gate(
        &spec,
        &items(),
        PLAN,
        Impact::High,
        &given,
        Some("author"),
        false,
    );
    assert_eq!(
        unrecorded,
        Err(Withheld::Unverifiable {
            need: 1,
            impact: Impact::High
        })
    );
    let unknown = gate(&spec, &items(), PLAN, Impact::High, &given, None, true);
    assert_eq!(
        unknown,
        Err(Withheld::AuthorUnknown {
            need: 1,
            impact: Impact::High
        })
    );
}

proptest! {
    /// A closure has what was asked for, all it needs, and nothing twice closed.
    #[test]
    fn a_closure_is_closed(
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
        // Every member is reached from what was approved: taking one away breaks something.
        for member in closed.iter().filter(|name| !approved.contains(name)) {
            let needed = items.iter().any(|item| {
                closed.contains(&item.name) && &item.name != member && item.depends_on.contains(member)
            });
            prop_assert!(needed, "{member} is there for nobody");
        }
        let all: Vec<String> = closed.iter().cloned().collect();
        prop_assert_eq!(closure(&items, &all).unwrap(), closed);
    }

    /// The gate opens exactly when enough others approved exactly this plan.
    #[test]
    fn the_number_of_approvers_decides(
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
        prop_assert_eq!(result.is_ok(), count >= need as usize);
    }
}
