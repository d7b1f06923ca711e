//! Taking over from the upstream operator, and handing back to it.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{HOME, SspFixture, template};
use crate::action::{Action, Kind, named};

/// The annotations that upstream sets on all of its objects.
fn annotations() -> Value {
    json!({
        "operator-sdk/primary-resource": "kubevirt/ssp",
        "operator-sdk/primary-resource-type": "SSP.ssp.kubevirt.io",
    })
}

impl SspFixture {
    /// A DataSource as upstream creates it for a VM template of its own.
    fn upstream_source(&mut self, name: &str, architecture: Option<&str>, source: &Value) {
        self.put_source(name, source);
        let object = self.objects.get_mut(&(Kind::DataSource, named(HOME, name)));
        let metadata = &mut object.unwrap()["metadata"];
        metadata["annotations"] = annotations();
        metadata["labels"] = json!({ "app.kubernetes.io/managed-by": "ssp-operator" });
        if let Some(architecture) = architecture {
            metadata["labels"]["template.kubevirt.io/architecture"] = json!(architecture);
        }
    }
}

fn claim(name: &str) -> Value {
    json!({ "pvc": { "namespace": HOME, "name": name } })
}

fn pointer(name: &str) -> Value {
    json!({ "dataSource": { "namespace": HOME, "name": name } })
}

fn sources(fixture: &SspFixture) -> Vec<(String, Value)> {
    let names = fixture.names(Kind::DataSource).into_iter();
    names
        .map(|name| (name.to_owned(), fixture.source(name).clone()))
        .collect()
}

/// `win10` has the disk of a user, `win11` none yet.
fn upstream(multi_arch: bool) -> SspFixture {
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]);
    fixture.switch(multi_arch);
    fixture.put(Kind::Claim, "win10", &json!({}));
    for name in ["win10", "win11"] {
        if multi_arch {
            let own = format!("{name}-amd64");
            // Upstream lets the default refer to the disk from before.
            let volume = if name == "win10" { name } else { &own };
            fixture.upstream_source(&own, Some("amd64"), &claim(volume));
            fixture.upstream_source(name, None, &pointer(&own));
        } else {
            fixture.upstream_source(name, None, &claim(name));
        }
    }
    fixture
}

#[rstest]
fn data_sources_of_upstreams_own_templates_stay(#[values(false, true)] multi_arch: bool) {
    let mut fixture = upstream(multi_arch);
    let before = sources(&fixture);
    fixture.settle();
    assert_eq!(sources(&fixture), before);
    // Later decisions recognise them, too.
    fixture.now += 10_000;
    assert_eq!(fixture.decide().actions, []);
}

#[test]
fn data_sources_of_upstreams_own_templates_follow_the_switch() {
    let mut fixture = upstream(false);
    fixture.settle();
    fixture.switch(true);
    fixture.settle();
    assert_eq!(fixture.source("win10"), &pointer("win10-amd64"));
    assert_eq!(fixture.source("win10-amd64"), &claim("win10"));
    assert!(fixture.is_ready("win10"));
    fixture.switch(false);
    fixture.settle();
    assert_eq!(fixture.source("win10"), &claim("win10"));
    assert_eq!(fixture.names(Kind::DataSource), ["win10", "win11"]);
}

/// As upstream has it: the DataImportCron without architectures manages the default.
#[test]
fn cron_of_a_name_that_upstreams_templates_refer_to_is_not_replaced() {
    let templates = [template("fedora-image-cron", "fedora", None)];
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&templates);
    let mut cron = templates[0].clone();
    cron["metadata"]["namespace"] = json!(HOME);
    cron["metadata"]["annotations"] = annotations();
    cron["metadata"]["annotations"]["cdi.kubevirt.io/storage.bind.immediate.requested"] =
        json!("true");
    cron["spec"]["managedDataSource"] = json!("fedora-amd64");
    let key = (Kind::DataImportCron, named(HOME, "fedora-image-cron"));
    fixture.objects.insert(key.clone(), cron.clone());
    fixture.upstream_source("fedora-amd64", Some("amd64"), &claim("fedora-amd64"));
    fixture.upstream_source("fedora", None, &pointer("fedora-amd64"));
    fixture.upstream_source("fedora-arm64", Some("arm64"), &claim("fedora-arm64"));
    fixture.settle();
    assert_eq!(fixture.objects[&key], cron);
    assert_eq!(
        fixture.names(Kind::DataSource),
        ["fedora", "fedora-amd64", "fedora-arm64"]
    );
}

/// Upstream deletes each DataSource with its annotations that none of its own VM templates refers to.
#[test]
fn created_data_sources_do_not_carry_upstreams_annotations() {
    let templates = [
        template("fedora-image-cron", "fedora", Some("amd64,arm64")),
        template("plain-image-cron", "plain", None),
    ];
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&templates);
    let decision = fixture.decide();
    fixture.settle();
    let mut seen = 0;
    for action in &decision.actions {
        let Action::Create { kind, object } = action else {
            continue;
        };
        let found = &object["metadata"]["annotations"];
        if *kind == Kind::DataSource {
            assert_eq!(found["operator-sdk/primary-resource"], Value::Null);
            assert_eq!(found["medley.dev/ssp"], "kubevirt/ssp");
            seen += 1;
        } else {
            assert_eq!(found["operator-sdk/primary-resource"], "kubevirt/ssp");
        }
    }
    assert_eq!(seen, 4);
    // They are found by our own.
    let none: [Value; 0] = [];
    fixture = fixture.templates(&none);
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataSource), Vec::<&str>::new());
}
