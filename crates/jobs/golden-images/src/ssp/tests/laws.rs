//! Properties that hold for any sequence of events.

use proptest::prelude::*;
use serde_json::json;

use super::fixture::{SspFixture, template, vm_template};
use crate::action::Kind;

/// An event in the cluster.
#[derive(Debug, Clone)]
enum Event {
    Switch(bool),
    Workload(Vec<&'static str>),
    Templates(Vec<Option<&'static str>>),
    Default(&'static str),
    ByHand(bool),
    Import(usize),
    Later(i64),
    Bundle(bool),
}

fn architectures() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(vec!["amd64", "arm64", "s390x"], 0..=3)
}

fn event() -> impl Strategy<Value = Event> {
    let list = prop_oneof![
        Just(None),
        Just(Some("amd64,arm64")),
        Just(Some("s390x")),
        Just(Some("arm64, S390X,vax")),
    ];
    prop_oneof![
        any::<bool>().prop_map(Event::Switch),
        architectures().prop_map(Event::Workload),
        proptest::collection::vec(list, 0..3).prop_map(Event::Templates),
        prop_oneof![Just("arm64"), Just("s390x"), Just("amd64")].prop_map(Event::Default),
        any::<bool>().prop_map(Event::ByHand),
        (0_usize..6).prop_map(Event::Import),
        (1_i64..5000).prop_map(Event::Later),
        any::<bool>().prop_map(Event::Bundle),
    ]
}

fn apply_event(fixture: &mut SspFixture, event: &Event) {
    match event {
        Event::Switch(on) => fixture.switch(*on),
        Event::Workload(names) => fixture.workload(names),
        Event::Templates(lists) => {
            let templates = lists.iter().enumerate().map(|(index, list)| {
                template(&format!("cron{index}"), &format!("image{index}"), *list)
            });
            let templates: Vec<_> = templates.collect();
            fixture.ssp.spec.common_templates.data_import_cron_templates =
                serde_json::from_value(json!(templates)).unwrap();
        }
        Event::Default(name) => fixture.policy(json!({ "defaultArchitecture": name })),
        Event::ByHand(snapshot) => {
            let kind = if *snapshot {
                Kind::Snapshot
            } else {
                Kind::Claim
            };
            fixture.put(kind, "image0", &json!({}));
        }
        Event::Import(index) => {
            let names: Vec<String> = fixture
                .names(Kind::DataImportCron)
                .into_iter()
                .map(str::to_owned)
                .collect();
            if let Some(name) = names.get(*index) {
                fixture.import(name);
            }
        }
        Event::Later(seconds) => fixture.now += seconds,
        Event::Bundle(there) => {
            fixture.bundle = if *there {
                vec![
                    vm_template("m", "image0", "amd64"),
                    vm_template("m-arm64", "image0", "arm64"),
                ]
            } else {
                Vec::new()
            };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Decisions converge and are idempotent, and no pointer refers to a pointer.
    #[test]
    fn decisions_converge(events in proptest::collection::vec(event(), 1..12)) {
        let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]);
        for event in &events {
            apply_event(&mut fixture, event);
            fixture.settle();
            for name in fixture.names(Kind::DataSource) {
                if let Some(to) = fixture.source(name)["dataSource"]["name"].as_str() {
                    prop_assert!(to != name, "{name} points to itself");
                    if fixture.names(Kind::DataSource).contains(&to) {
                        prop_assert!(fixture.source(to).get("dataSource").is_none_or(serde_json::Value::is_null));
                    }
                    let own = &fixture.get(Kind::DataSource, name)["metadata"]["labels"];
                    if fixture.ssp.spec.enable_multiple_architectures == Some(true) {
                        prop_assert!(own.get("template.kubevirt.io/architecture").is_none());
                    }
                }
            }
        }
        // After everything is switched off and removed, no owned image is left.
        apply_event(&mut fixture, &Event::Templates(Vec::new()));
        apply_event(&mut fixture, &Event::Bundle(false));
        fixture.settle();
        fixture.now += 4000;
        fixture.settle();
        prop_assert_eq!(fixture.names(Kind::DataImportCron), Vec::<&str>::new());
        for name in fixture.names(Kind::DataSource) {
            let meta = &fixture.get(Kind::DataSource, name)["metadata"];
            prop_assert!(meta["annotations"].get("medley.dev/ssp").is_none(), "{name} is left");
        }
    }
}
