//! What holds whatever happens.

use proptest::prelude::*;
use serde_json::json;

use super::world::{World, machine, template};
use crate::action::Kind;

/// Something that happens to a cluster.
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

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::Switch(on) => world.switch(*on),
        Event::Workload(names) => world.workload(names),
        Event::Templates(lists) => {
            let templates = lists.iter().enumerate().map(|(index, list)| {
                template(&format!("cron{index}"), &format!("image{index}"), *list)
            });
            let templates: Vec<_> = templates.collect();
            world.ssp.spec.common_templates.data_import_cron_templates =
                serde_json::from_value(json!(templates)).unwrap();
        }
        Event::Default(name) => world.policy(json!({ "defaultArchitecture": name })),
        Event::ByHand(snapshot) => {
            let kind = if *snapshot {
                Kind::Snapshot
            } else {
                Kind::Claim
            };
            world.put(kind, "image0", &json!({}));
        }
        Event::Import(index) => {
            let names: Vec<String> = world
                .names(Kind::DataImportCron)
                .into_iter()
                .map(str::to_owned)
                .collect();
            if let Some(name) = names.get(*index) {
                world.import(name);
            }
        }
        Event::Later(seconds) => world.now += seconds,
        Event::Bundle(there) => {
            world.bundle = if *there {
                vec![
                    machine("m", "image0", "amd64"),
                    machine("m-arm64", "image0", "arm64"),
                ]
            } else {
                Vec::new()
            };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// There is an end; what is done is not done again; what belongs to nobody else goes with its
    /// reason; and no pointer points to a pointer.
    #[test]
    fn decisions_come_to_an_end(events in proptest::collection::vec(event(), 1..12)) {
        let mut world = World::new(&["amd64"], &["amd64", "arm64"]);
        for event in &events {
            happen(&mut world, event);
            world.settle();
            for name in world.names(Kind::DataSource) {
                if let Some(to) = world.source(name)["dataSource"]["name"].as_str() {
                    prop_assert!(to != name, "{name} points to itself");
                    if world.names(Kind::DataSource).contains(&to) {
                        prop_assert!(world.source(to).get("dataSource").is_none_or(serde_json::Value::is_null));
                    }
                    let own = &world.get(Kind::DataSource, name)["metadata"]["labels"];
                    if world.ssp.spec.enable_multiple_architectures == Some(true) {
                        prop_assert!(own.get("template.kubevirt.io/architecture").is_none());
                    }
                }
            }
        }
        // Everything is switched off and taken away: nothing of ours is left.
        happen(&mut world, &Event::Templates(Vec::new()));
        happen(&mut world, &Event::Bundle(false));
        world.settle();
        world.now += 4000;
        world.settle();
        prop_assert_eq!(world.names(Kind::DataImportCron), Vec::<&str>::new());
        for ((kind, name), object) in &world.objects {
            let old = object["metadata"]["labels"].get("template.kubevirt.io/deprecated");
            prop_assert!(*kind != Kind::Template || old.is_some(), "{name:?} is left");
        }
        for name in world.names(Kind::DataSource) {
            let meta = &world.get(Kind::DataSource, name)["metadata"];
            prop_assert!(meta["annotations"].get("operator-sdk/primary-resource").is_none(), "{name} is left");
        }
    }
}
