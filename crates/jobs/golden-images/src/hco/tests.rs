use std::sync::Arc;

use api::golden::GoldenImagePolicySpec;
use api::hco::{Gate, GateName};
use api::ssp::ARCHITECTURES;
use k8s_openapi::api::core::v1::Node;
use rstest::rstest;

use super::metrics::{ANNOTATED, ENABLED, SUPPORTED};
use super::*;
use crate::architectures;
use crate::list::UnsupportedArchitectures;
use crate::policy::Override;
use crate::test_values::{contains, yaml};

/// A HyperConverged and the cluster around it.
struct HcoFixture {
    images: Images,
    built_in: Vec<DataImportCronTemplate>,
    nodes: Vec<Arc<Node>>,
    policy: Policy,
    discovered: BTreeMap<String, BTreeSet<String>>,
    ssp: Option<SSP>,
    now: i64,
}

fn worker(architecture: &str) -> Arc<Node> {
    let node = json!({
        "metadata": { "labels": { "node-role.kubernetes.io/worker": "" } },
        "status": { "nodeInfo": { "architecture": architecture } },
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

impl HcoFixture {
    /// The switch is on, with workers of these architectures.
    fn new(workers: &[&str]) -> Self {
        let nodes = workers.iter().map(|architecture| worker(architecture));
        Self {
            images: Images {
                namespace: "kubevirt".to_owned(),
                common_boot_images: true,
                common_templates_namespace: "openshift".to_owned(),
                field: Some(true),
                ..Images::default()
            },
            built_in: Vec::new(),
            nodes: nodes.collect(),
            policy: Policy::default(),
            discovered: BTreeMap::new(),
            ssp: None,
            now: 1000,
        }
    }

    fn built_in(mut self, templates: Value) -> Self {
        self.built_in = serde_json::from_value(templates).unwrap();
        self
    }

    fn custom(mut self, templates: Value) -> Self {
        self.images.templates = serde_json::from_value(templates).unwrap();
        self
    }

    fn decide(&self) -> Decision {
        let architectures = architectures::decide(&architectures::ArchitectureInputs {
            nodes: &self.nodes,
            placement: self.images.placement.as_ref(),
            wanted: Override::default(),
        });
        decide(&HcoInputs {
            images: &self.images,
            built_in: &self.built_in,
            architectures: &architectures,
            policy: &self.policy,
            discovered: &self.discovered,
            ssp_installed: true,
            ssp: self.ssp.as_ref(),
            seed: 61,
            now: Timestamp::from_second(self.now).unwrap(),
        })
    }

    /// Applies a decision, and checks that the next one is empty.
    fn settle(&mut self) -> Decision {
        let decision = self.decide();
        self.images.status = decision.status.clone();
        if let Some(ssp) = &decision.ssp {
            let ssp = serde_json::from_value(ssp.clone()).unwrap();
            self.ssp = Some(ssp);
        }
        self.now += 100;
        let again = self.decide();
        assert_eq!(again.ssp, None, "the SSP converges");
        assert!(!again.status_changed, "the status converges");
        decision
    }

    fn templates(&mut self) -> Vec<DataImportCronTemplate> {
        self.settle();
        let ssp = self.ssp.clone().unwrap();
        ssp.spec.common_templates.data_import_cron_templates
    }
}

fn template(name: &str, architectures: Option<&str>) -> Value {
    let mut template = json!({
        "metadata": { "name": name, "annotations": {} },
        "spec": {
            "managedDataSource": name.trim_end_matches("-image-cron"),
            "schedule": "0 */12 * * *",
            "template": { "spec": { "source": { "registry": { "url": format!("docker://quay.io/containerdisks/{name}") } } } },
        },
    });
    if let Some(list) = architectures {
        template["metadata"]["annotations"][ARCHITECTURES] = json!(list);
    }
    template
}

/// "If the pre-prepared `DataImportCronTemplate` object is annotated with `amd64,arm64`, and the
/// cluster worker nodes are both `amd64` and `s390x`".
#[test]
fn the_example_of_the_proposal() {
    let mut fixture = HcoFixture::new(&["amd64", "s390x"]).built_in(json!([template(
        "centos-stream9-image-cron",
        Some("amd64,arm64")
    )]));
    let printed = yaml(
        r#"
apiVersion: ssp.kubevirt.io/v1beta3
kind: SSP
spec:
  enableMultipleArchitectures: true
  cluster:
    workloadArchitectures:
      - amd64
      - s390x
  commonTemplates:
    dataImportCronTemplates:
      - metadata:
          name: "centos-stream9-image-cron"
          annotations:
            ssp.kubevirt.io/dict.architectures: "amd64"
"#,
    );
    let ssp = fixture.settle().ssp.unwrap();
    assert!(contains(&ssp, &printed), "{ssp:#}");
    assert_eq!(ssp["spec"]["cluster"], printed["spec"]["cluster"]);
}

#[rstest]
#[case::field(Some(true), &[], true, SwitchSource::Field)]
#[case::field_against_gate(Some(false), &[(GateName::Current, true)], false, SwitchSource::Field)]
#[case::gate(None, &[(GateName::Current, true)], true, SwitchSource::Gate(GateName::Current))]
#[case::proposed(None, &[(GateName::Proposed, true)], true, SwitchSource::Gate(GateName::Proposed))]
#[case::both_gates(None, &[(GateName::Proposed, true), (GateName::Current, false)], false, SwitchSource::Gate(GateName::Current))]
#[case::unset(None, &[], false, SwitchSource::Unset)]
fn switch_precedence(
    #[case] field: Option<bool>,
    #[case] gates: &[(GateName, bool)],
    #[case] expected: bool,
    #[case] source: SwitchSource,
) {
    let mut fixture = HcoFixture::new(&["amd64", "arm64"]);
    fixture.images.field = field;
    let gates = gates.iter();
    fixture.images.gates = gates
        .map(|(name, on)| Gate {
            name: *name,
            on: *on,
        })
        .collect();
    let decision = fixture.settle();
    assert_eq!(decision.switch.source, source);
    assert_eq!(
        fixture.ssp.unwrap().spec.enable_multiple_architectures,
        Some(expected)
    );
}

#[test]
fn single_node_disables_the_switch() {
    let mut fixture =
        HcoFixture::new(&["amd64"]).built_in(json!([template("fedora", Some("amd64,arm64"))]));
    let decision = fixture.settle();
    assert!(decision.switch.requested && !decision.switch.is_on());
    assert_eq!(decision.problems, [Problem::SingleNode]);
    let ssp = fixture.ssp.unwrap();
    assert_eq!(ssp.spec.enable_multiple_architectures, Some(false));
    let templates = ssp.spec.common_templates.data_import_cron_templates;
    assert_eq!(templates[0].annotation(ARCHITECTURES), None);
}

#[test]
fn unsupported_template_is_reported_and_not_deployed() {
    let mut fixture = HcoFixture::new(&["amd64", "amd64"]).built_in(json!([
        template("a", Some("arm64,s390x")),
        template("b", Some("amd64,arm64")),
        template("c", None),
    ]));
    let names: Vec<String> = fixture
        .templates()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    assert_eq!(names, ["b", "c"]);
    let [a, b, c] = fixture.images.status.data_import_cron_templates.as_slice() else {
        panic!("all are in the status");
    };
    let condition = serde_json::to_value(&a.status.conditions[0]).unwrap();
    assert_eq!(
        condition,
        json!({
            "type": "Deployed", "status": "False", "reason": "UnsupportedArchitectures",
            "message": "DataImportCronTemplate has no supported architectures for the current cluster",
            "lastTransitionTime": "1970-01-01T00:16:40Z",
        })
    );
    assert_eq!(
        a.status.original_supported_architectures.as_deref(),
        Some("arm64,s390x")
    );
    assert_eq!(a.metadata.annotations.as_ref().unwrap()[ARCHITECTURES], "");
    assert!(a.status.common_template && !a.status.modified);
    assert_eq!(b.status.conditions, []);
    assert_eq!(c.status.original_supported_architectures, None);

    // With a new node the condition is removed.
    fixture.nodes.push(worker("s390x"));
    let templates = fixture.templates();
    assert_eq!(templates[0].annotation(ARCHITECTURES), Some("s390x"));
    let status = &fixture.images.status;
    assert_eq!(status.data_import_cron_templates[0].status.conditions, []);
    let info = status.node_info.as_ref().unwrap();
    assert_eq!(info.workloads_architectures, ["amd64", "s390x"]);
    assert_eq!(info.default_workload_architecture.as_deref(), Some("amd64"));
}

/// Upstream loses `arm64` here, because of the blank.
#[test]
fn architecture_list_is_normalised() {
    let mut fixture = HcoFixture::new(&["amd64", "arm64"])
        .custom(json!([template("a", Some("AMD64, arm64,vax"))]));
    let decision = fixture.decide();
    assert_eq!(
        decision.problems,
        [Problem::UnknownArchitectures(UnsupportedArchitectures {
            template: "a".to_owned(),
            architectures: vec!["vax".to_owned()],
        })]
    );
    assert_eq!(
        fixture.templates()[0].annotation(ARCHITECTURES),
        Some("amd64,arm64")
    );
}

/// One ppc64le node makes upstream's SSP updates fail.
#[test]
fn unsupported_node_architecture_is_reported() {
    let mut fixture =
        HcoFixture::new(&["amd64", "ppc64le"]).built_in(json!([template("a", Some("amd64"))]));
    let decision = fixture.settle();
    assert_eq!(
        decision.problems,
        [Problem::UnknownNodes(vec!["ppc64le".to_owned()])]
    );
    let cluster = fixture.ssp.unwrap().spec.cluster.unwrap();
    assert_eq!(cluster.workload_architectures, ["amd64"]);
}

#[test]
fn status_keeps_annotation_when_switched_off() {
    let mut fixture =
        HcoFixture::new(&["amd64", "arm64"]).built_in(json!([template("a", Some("amd64,s390x"))]));
    fixture.images.field = None;
    assert_eq!(fixture.templates()[0].annotation(ARCHITECTURES), None);
    let reported = &fixture.images.status.data_import_cron_templates[0];
    assert_eq!(
        reported.metadata.annotations.as_ref().unwrap()[ARCHITECTURES],
        "amd64,s390x"
    );
    assert_eq!(reported.status.original_supported_architectures, None);
}

#[test]
fn built_in_templates_get_defaults_and_own_schedule() {
    let mut fixture = HcoFixture::new(&["amd64", "arm64"])
        .built_in(json!([template("a", Some("amd64"))]))
        .custom(json!([template("b", Some("amd64"))]));
    fixture.images.common_boot_image_namespace = Some("images".to_owned());
    let templates = fixture.templates();
    assert_eq!(
        fixture.images.status.data_import_schedule.as_deref(),
        Some("1 1/12 * * *")
    );
    let spec = templates[0].spec.as_ref().unwrap();
    assert_eq!(spec.schedule, "1 1/12 * * *");
    assert_eq!(
        (spec.retention_policy.as_deref(), spec.imports_to_keep),
        (Some("None"), Some(1))
    );
    assert_eq!(templates[0].metadata.namespace.as_deref(), Some("images"));
    let spec = templates[1].spec.as_ref().unwrap();
    assert_eq!(spec.schedule, "0 */12 * * *");
    assert_eq!(templates[1].metadata.namespace, None);
    let bind = "cdi.kubevirt.io/storage.bind.immediate.requested";
    assert!(
        templates
            .iter()
            .all(|it| it.annotation(bind) == Some("true"))
    );
}

#[rstest]
#[case::same_image_keeps_the_built_in_list(json!({ "annotations": { ARCHITECTURES: "s390x" } }), None, Some("amd64,arm64"))]
#[case::another_image_brings_its_list(json!({ "annotations": { ARCHITECTURES: "arm64" } }), Some("docker://mine"), Some("arm64"))]
#[case::another_image_without_a_list_is_legacy(json!({}), Some("docker://mine"), None)]
fn architecture_list_follows_the_image(
    #[case] metadata: Value,
    #[case] url: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut changes = template("a", None);
    changes["metadata"] = metadata;
    changes["metadata"]["name"] = json!("a");
    changes["metadata"]["namespace"] = json!("mine");
    changes["spec"]["schedule"] = json!("");
    if let Some(url) = url {
        changes["spec"]["template"]["spec"]["source"]["registry"]["url"] = json!(url);
    }
    let mut fixture = HcoFixture::new(&["amd64", "arm64"])
        .built_in(json!([template("a", Some("amd64,arm64"))]))
        .custom(json!([changes]));
    fixture.images.common_boot_image_namespace = Some("ignored".to_owned());
    let templates = fixture.templates();
    assert_eq!(templates[0].annotation(ARCHITECTURES), expected);
    assert_eq!(templates[0].metadata.namespace.as_deref(), Some("mine"));
    let spec = templates[0].spec.as_ref().unwrap();
    assert_eq!(spec.schedule, "1 1/12 * * *", "inherited");
    let status = &fixture.images.status.data_import_cron_templates[0].status;
    assert!(status.modified && status.common_template);
}

#[test]
fn templates_can_be_switched_off() {
    let off = |name: &str| json!({ "metadata": { "name": name, "annotations": { "dataimportcrontemplate.kubevirt.io/enable": "" } } });
    let mut fixture = HcoFixture::new(&["amd64", "arm64"])
        .built_in(json!([template("a", None), template("b", None)]))
        .custom(json!([
            off("a"),
            off("c"),
            template("d", None),
            template("d", Some("arm64"))
        ]));
    assert_eq!(
        fixture.decide().problems,
        [Problem::Duplicate("d".to_owned())]
    );
    let names: Vec<String> = fixture
        .templates()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    assert_eq!(names, ["b", "d"]);
    fixture.images.common_boot_images = false;
    let names: Vec<String> = fixture
        .templates()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    assert_eq!(names, ["d"], "only those of the administrator");
}

#[test]
fn discovered_architectures_are_compared_or_adopted() {
    let mut fixture = HcoFixture::new(&["amd64", "arm64", "s390x"]).custom(json!([
        template("a", Some("amd64,s390x")),
        template("b", None)
    ]));
    let discovered = BTreeSet::from(["amd64", "arm64", "unknown"].map(str::to_owned));
    fixture.discovered = ["a", "b"]
        .map(|name| (name.to_owned(), discovered.clone()))
        .into();
    let templates = fixture.templates();
    assert_eq!(templates[1].annotation(ARCHITECTURES), None);
    let [a, _] = fixture.images.status.data_import_cron_templates.as_slice() else {
        panic!();
    };
    let condition = &a.status.conditions[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_str()),
        (ARCHITECTURES_MATCH, "ArchitecturesMissing")
    );
    assert_eq!(
        condition.message,
        "the annotation lists s390x, but the image does not have it; the image has arm64, which the annotation does not list"
    );
    let adopt: GoldenImagePolicySpec =
        serde_json::from_value(json!({ "discovery": "Adopt" })).unwrap();
    fixture.policy = Policy::read(&adopt).0;
    let templates = fixture.templates();
    assert_eq!(
        templates[0].annotation(ARCHITECTURES),
        Some("amd64,s390x"),
        "an explicit annotation wins"
    );
    assert_eq!(templates[1].annotation(ARCHITECTURES), Some("amd64,arm64"));
}

#[test]
fn samples_are_removed_with_their_template() {
    let mut fixture = HcoFixture::new(&["amd64", "arm64"]).custom(json!([
        template("Good", Some("amd64")),
        template("bad", Some("s390x")),
        template("legacy", None),
    ]));
    let values = |decision: &Decision, name: &str| -> Vec<(String, u64)> {
        let samples = decision.samples.iter().filter(|sample| sample.name == name);
        samples
            .map(|sample| {
                let label = sample.labels.first();
                (
                    label.map(|it| it.1.clone()).unwrap_or_default(),
                    sample.value,
                )
            })
            .collect()
    };
    let one = |name: &str, value| (name.to_owned(), value);
    let decision = fixture.settle();
    assert_eq!(
        values(&decision, SUPPORTED),
        [one("good", 1), one("bad", 0)]
    );
    assert_eq!(
        values(&decision, ANNOTATED),
        [one("good", 1), one("bad", 1), one("legacy", 0)]
    );
    assert_eq!(values(&decision, ENABLED), [one("", 1)]);
    fixture.images.templates.truncate(1);
    let decision = fixture.settle();
    assert_eq!(values(&decision, SUPPORTED), [one("good", 1)]);
    fixture.images.field = Some(false);
    let decision = fixture.settle();
    assert_eq!(decision.samples.len(), 1);
    assert_eq!(values(&decision, ENABLED), [one("", 0)]);
    fixture.nodes.truncate(1);
    assert_eq!(fixture.settle().samples, [], "a single architecture");
}

#[test]
fn status_of_other_controllers_is_kept() {
    let mut fixture = HcoFixture::new(&["amd64", "arm64"]);
    fixture.images.status = serde_json::from_value(json!({
        "conditions": [{ "type": "Available" }], "dataImportSchedule": "7 3/12 * * *",
    }))
    .unwrap();
    fixture.settle();
    let conditions = &fixture.images.status.rest["conditions"];
    assert_eq!(conditions[0], json!({ "type": "Available" }));
    assert_eq!(conditions[1]["type"], ACCEPTED);
    assert_eq!(conditions[1]["status"], "True");
    assert_eq!(conditions[2], Value::Null);
    assert_eq!(
        fixture.images.status.data_import_schedule.as_deref(),
        Some("7 3/12 * * *")
    );
}

#[test]
fn problem_is_a_condition_until_fixed() {
    let condition = |fixture: &HcoFixture| {
        let all = fixture.images.status.rest["conditions"].as_array().unwrap();
        all.iter()
            .find(|it| it["type"] == ACCEPTED)
            .unwrap()
            .clone()
    };
    let mut fixture = HcoFixture::new(&["amd64", "arm64", "riscv64"]);
    fixture.settle();
    let accepted = condition(&fixture);
    assert_eq!(accepted["status"], "False");
    assert_eq!(accepted["reason"], "UnsupportedNodeArchitectures");
    assert!(
        accepted["message"].as_str().unwrap().contains("riscv64"),
        "{accepted}"
    );
    fixture.nodes.truncate(2);
    fixture.settle();
    let accepted = condition(&fixture);
    assert_eq!(accepted["status"], "True");
    let expected = "multi-architecture images are on (field enableMultiArchBootImageImport)";
    assert_eq!(accepted["message"], expected);
}

#[test]
fn ssp_is_owned_by_hyperconverged() {
    let mut fixture = HcoFixture::new(&["amd64", "arm64"]);
    fixture.settle();
    assert_eq!(fixture.ssp.clone().unwrap().metadata.owner_references, None);
    fixture.images.name = "kubevirt-hyperconverged".to_owned();
    fixture.images.uid = Some("1-2-3".to_owned());
    let decision = fixture.settle();
    let expected = json!([{
        "apiVersion": "hco.kubevirt.io/v1", "kind": "HyperConverged",
        "name": "kubevirt-hyperconverged", "uid": "1-2-3",
    }]);
    assert_eq!(
        decision.ssp.unwrap()["metadata"]["ownerReferences"],
        expected
    );
}
