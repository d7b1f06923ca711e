//! Who is notified of what, and how it is written.

use api::advisor::{
    Action, Impact, Item, TargetRef, VirtPlatformConfig, VirtPlatformConfigSpec,
    VirtPlatformConfigStatus,
};
use api::approval::ApprovalPolicySpec;
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::conditions::{Observation, enter};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn config(phase: Phase, since: i64) -> VirtPlatformConfig {
    let spec = VirtPlatformConfigSpec {
        profile: "load-aware-rebalancing".to_owned(),
        action: Action::DryRun,
        ..VirtPlatformConfigSpec::default()
    };
    let mut config = VirtPlatformConfig::new("load-aware-rebalancing", spec);
    config.metadata.uid = Some("7d0b".to_owned());
    config.metadata.generation = Some(3);
    let items = (0..12).map(|index| Item {
        name: format!("item-{index}"),
        target_ref: TargetRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: format!("map-{index}"),
            namespace: Some("there".to_owned()),
        },
        impact_severity: Some(Impact::Low),
        ..Item::default()
    });
    let mut status = VirtPlatformConfigStatus {
        observed_generation: Some(3),
        phase: Some(phase),
        plan_digest: Some("sha256:e7f5".to_owned()),
        impact_severity: Some(Impact::High),
        items: items.collect(),
        ..VirtPlatformConfigStatus::default()
    };
    status.items[0].unchanged = true;
    let moment = Observation {
        now: at(since),
        generation: Some(3),
    };
    enter(
        &mut status.conditions,
        phase,
        None,
        "See <the> plan & decide",
        &moment,
    );
    config.status = Some(status);
    config
}

fn receiver(name: &str, format: NotificationFormat) -> Receiver {
    Receiver {
        name: name.to_owned(),
        format,
        phases: Vec::new(),
        console_url: Some("https://medley.example.com/".to_owned()),
    }
}

fn policy(name: &str, receivers: Vec<Receiver>) -> Policy {
    Policy {
        name: name.to_owned(),
        spec: ApprovalPolicySpec {
            notifications: receivers,
            ..ApprovalPolicySpec::default()
        },
    }
}

fn chat() -> Vec<Policy> {
    vec![policy(
        "all",
        vec![receiver("chat", NotificationFormat::CloudEvents)],
    )]
}

/// Delivers what is due, until nothing is; returns the phases, with `!` for those that ended.
fn deliver(config: &VirtPlatformConfig, policies: &[Policy], sent: &mut Sent) -> Vec<String> {
    let mut delivered = Vec::new();
    loop {
        let due = due(config, policies, sent, at(500));
        if due.is_empty() {
            return delivered;
        }
        for delivery in due {
            sent.record(&delivery);
            let ended = if delivery.ended.is_some() { "!" } else { "" };
            delivered.push(format!("{ended}{}", delivery.notification.phase));
        }
    }
}

#[test]
fn notification_is_delivered_once() {
    let mut sent = Sent::default();
    let waiting = config(Phase::ReviewRequired, 0);
    assert_eq!(deliver(&waiting, &chat(), &mut sent), ["ReviewRequired"]);
    // As the next process reads it.
    let mut restarted = Sent::read(&sent.data());
    assert_eq!(restarted, sent);
    assert_eq!(deliver(&waiting, &chat(), &mut restarted), [""; 0]);
}

#[test]
fn identity_depends_on_object_plan_phase_and_time() {
    let of = |config: &VirtPlatformConfig| {
        due(config, &chat(), &Sent::default(), at(0))[0]
            .notification
            .id
            .clone()
    };
    let first = config(Phase::ReviewRequired, 0);
    assert_eq!(of(&first), of(&first.clone()), "two replicas agree");
    let mut other_plan = first.clone();
    other_plan.status.as_mut().unwrap().plan_digest = Some("sha256:0000".to_owned());
    let mut recreated = first.clone();
    recreated.metadata.uid = Some("another".to_owned());
    let again = config(Phase::ReviewRequired, 60);
    let drifted = config(Phase::Drifted, 0);
    let all: BTreeSet<_> = [&first, &other_plan, &recreated, &again, &drifted]
        .map(of)
        .into();
    assert_eq!(all.len(), 5);
}

#[rstest]
#[case::asks_a_person(Phase::Failed, Vec::new(), true)]
#[case::needs_no_person(Phase::Completed, Vec::new(), false)]
#[case::subscribed(Phase::Completed, vec![Phase::Completed], true)]
#[case::not_subscribed(Phase::Failed, vec![Phase::Completed], false)]
fn receivers_get_the_phases_they_subscribe_to(
    #[case] phase: Phase,
    #[case] phases: Vec<Phase>,
    #[case] expected: bool,
) {
    let mut policies = chat();
    policies[0].spec.notifications[0].phases = phases;
    let due = due(&config(phase, 0), &policies, &Sent::default(), at(0));
    assert_eq!(!due.is_empty(), expected);
}

#[test]
fn advertised_and_unobserved_configurations_are_silent() {
    let none = |config: &VirtPlatformConfig| {
        assert_eq!(due(config, &chat(), &Sent::default(), at(0)), []);
    };
    let mut ignored = config(Phase::ReviewRequired, 0);
    ignored.spec.action = Action::Ignore;
    none(&ignored);
    let mut edited = config(Phase::ReviewRequired, 0);
    edited.metadata.generation = Some(4);
    none(&edited);
    edited.status = None;
    none(&edited);
}

#[test]
fn policy_notifies_of_the_profiles_it_selects() {
    let mut policies = chat();
    policies[0].spec.profiles = vec!["virt-higher-density".to_owned()];
    let waiting = config(Phase::ReviewRequired, 0);
    assert_eq!(due(&waiting, &policies, &Sent::default(), at(0)), []);
    // Two policies with a receiver of one name: it is notified once.
    let twice = [
        policy("b", chat()[0].spec.notifications.clone()),
        chat().remove(0),
    ];
    assert_eq!(due(&waiting, &twice, &Sent::default(), at(0)).len(), 1);
}

#[test]
fn alert_is_resolved_when_its_phase_ends() {
    let policies = [policy(
        "all",
        vec![receiver("pager", NotificationFormat::Alertmanager)],
    )];
    let mut sent = Sent::default();
    let drifted = config(Phase::Drifted, 0);
    assert_eq!(deliver(&drifted, &policies, &mut sent), ["Drifted"]);
    let waiting = config(Phase::ReviewRequired, 60);
    assert_eq!(
        deliver(&waiting, &policies, &mut sent),
        ["!Drifted", "ReviewRequired"]
    );
    let completed = config(Phase::Completed, 120);
    assert_eq!(
        deliver(&completed, &policies, &mut sent),
        ["!ReviewRequired"]
    );
    assert_eq!(deliver(&completed, &policies, &mut sent), [""; 0]);
}

#[test]
fn removed_configurations_and_receivers_are_forgotten() {
    let mut sent = Sent::default();
    deliver(&config(Phase::ReviewRequired, 0), &chat(), &mut sent);
    let configs = BTreeSet::from(["load-aware-rebalancing".to_owned()]);
    let receivers = receivers(&chat(), None);
    sent.retain(&receivers, &configs);
    assert_eq!(sent.data().len(), 1);
    let mut other = sent.clone();
    other.retain(&[], &configs);
    assert_eq!(other, Sent::default());
    sent.retain(&receivers, &BTreeSet::new());
    assert_eq!(sent, Sent::default());
}

fn body(format: NotificationFormat, phase: Phase) -> Value {
    let policies = [policy("all", vec![receiver("chat", format)])];
    let due = due(&config(phase, 0), &policies, &Sent::default(), at(5));
    payload(&due[0]).body
}

#[test]
fn cloud_event_has_its_required_attributes() {
    let event = body(NotificationFormat::CloudEvents, Phase::ReviewRequired);
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "dev.medley.governance.ReviewRequired");
    assert_eq!(
        event["source"],
        "/apis/advisor.kubevirt.io/v1alpha1/virtplatformconfigs/load-aware-rebalancing"
    );
    assert_eq!(event["subject"], "load-aware-rebalancing");
    assert_eq!(event["time"], "2027-01-15T08:00:00Z");
    assert_eq!(event["id"].as_str().unwrap().len(), 64);
    let data = &event["data"];
    assert_eq!(
        data["link"],
        "https://medley.example.com/governance/load-aware-rebalancing#plan"
    );
    assert_eq!(data["command"], "medley approve load-aware-rebalancing");
    assert_eq!(data["planDigest"], "sha256:e7f5");
    let items = data["items"].as_array().unwrap();
    assert_eq!(items.len(), 11, "ten of eleven changes, and a count");
    assert_eq!(items[0], "Apply ConfigMap there/map-1 (impact Low)");
    assert_eq!(items[10], "and 1 more");
}

#[test]
fn slack_message_is_escaped_and_links_to_the_plan() {
    let message = body(NotificationFormat::Slack, Phase::ReviewRequired);
    assert_eq!(
        message["text"],
        "load-aware-rebalancing: a plan waits for approval"
    );
    let text = message["blocks"][0]["text"]["text"].as_str().unwrap();
    assert!(
        text.ends_with("See &lt;the&gt; plan &amp; decide"),
        "{text}"
    );
    let button = &message["blocks"][3]["elements"][0];
    assert_eq!(button["text"]["text"], "Review the plan");
    assert!(button["url"].as_str().unwrap().ends_with("#plan"));
}

#[test]
fn teams_message_is_an_adaptive_card() {
    let message = body(NotificationFormat::Teams, Phase::Drifted);
    let card = &message["attachments"][0]["content"];
    assert_eq!(card["type"], "AdaptiveCard");
    let action = &card["actions"][0];
    assert_eq!(action["type"], "Action.OpenUrl");
    assert_eq!(action["title"], "Open the configuration");
    let facts = card["body"][3]["facts"].as_array().unwrap();
    assert_eq!(facts[0], json!({ "title": "Phase", "value": "Drifted" }));
}

#[test]
fn ended_alert_has_the_labels_of_the_one_that_holds() {
    let policies = [policy(
        "all",
        vec![receiver("pager", NotificationFormat::Alertmanager)],
    )];
    let mut sent = Sent::default();
    let begun = due(&config(Phase::Drifted, 0), &policies, &sent, at(5)).remove(0);
    sent.record(&begun);
    let ended = due(&config(Phase::Completed, 60), &policies, &sent, at(61)).remove(0);
    let (begun, ended) = (payload(&begun).body, payload(&ended).body);
    assert_eq!(begun[0]["labels"], ended[0]["labels"]);
    assert_eq!(
        begun[0]["labels"]["alertname"],
        "MedleyConfigurationDrifted"
    );
    assert_eq!(begun[0]["labels"]["severity"], "warning");
    assert_eq!(begun[0]["startsAt"], ended[0]["startsAt"]);
    let week = at(0) + SignedDuration::from_hours(168);
    assert_eq!(begun[0]["endsAt"], machinery::time::format_time(week));
    assert_eq!(ended[0]["endsAt"], machinery::time::format_time(at(61)));
}

/// RFC 4231, test cases 1, 2 and 6.
#[rstest]
#[case(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")]
#[case(
    b"Jefe",
    b"what do ya want for nothing?",
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
)]
#[case(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First", "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")]
fn hmac_is_that_of_the_standard(
    #[case] key: &[u8],
    #[case] message: &[u8],
    #[case] expected: &str,
) {
    assert_eq!(crate::hash::hex(&signature::hmac(key, message)), expected);
}

#[test]
fn signature_covers_time_and_body() {
    let of =
        |key: &str, seconds, body: &str| signature(key.as_bytes(), at(seconds), body.as_bytes());
    let signed = of("key", 0, "{}");
    assert!(signed.starts_with("t=1800000000,v1="), "{signed}");
    let all: BTreeSet<_> = [
        of("key", 0, "{}"),
        of("kez", 0, "{}"),
        of("key", 1, "{}"),
        of("key", 0, "[]"),
    ]
    .into_iter()
    .map(|signed| signed.split_once(",v1=").unwrap().1.to_owned())
    .collect();
    assert_eq!(all.len(), 4);
}
