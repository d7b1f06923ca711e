use super::*;

impl Table {
    /// All kinds of a group and version, including lists.
    pub(crate) fn kinds(&self, group: &str, version: &str) -> Vec<(&'static str, TypeId)> {
        let mut kinds: Vec<_> = self
            .structures()
            .filter(|(_, structure)| structure.kind)
            .map(|(id, _)| (self.get(id), id))
            .filter(|(ty, _)| {
                ty.package != "meta/v1"
                    && self
                        .package(ty.package)
                        .is_some_and(|p| p.group == group && p.version == version)
            })
            .map(|(ty, id)| (ty.name, id))
            .collect();
        kinds.sort_unstable();
        kinds
    }
}

#[test]
fn every_line_parses() {
    assert_eq!(table().problems, Vec::<String>::new());
    assert_eq!(table().packages.len(), FILES.len());
}

#[test]
fn protobuf_numbers_are_unique_within_a_message() {
    for ty in &table().types {
        let Shape::Struct(structure) = &ty.shape else {
            continue;
        };
        let mut numbers: Vec<u16> = structure.fields.iter().filter_map(Field::number).collect();
        numbers.extend(
            structure
                .embedded
                .iter()
                .map(|(n, _)| *n)
                .filter(|n| *n != 0),
        );
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "{}.{}", ty.package, ty.name);
    }
}

#[test]
fn json_names_are_unique_within_an_object() {
    for ty in &table().types {
        let Shape::Struct(structure) = &ty.shape else {
            continue;
        };
        assert!(
            structure
                .fields
                .windows(2)
                .all(|pair| pair[0].name < pair[1].name),
            "{}.{}",
            ty.package,
            ty.name
        );
    }
}

#[test]
fn kinds_are_found_by_group_and_version() {
    let table = table();
    for (group, version, kind, model) in [
        ("", "v1", "Pod", "io.k8s.api.core.v1.Pod"),
        ("", "v1", "Event", "io.k8s.api.core.v1.Event"),
        ("events.k8s.io", "v1", "Event", "io.k8s.api.events.v1.Event"),
        (
            "apps",
            "v1",
            "DeploymentList",
            "io.k8s.api.apps.v1.DeploymentList",
        ),
        (
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        ),
        (
            "",
            "v1",
            "DeleteOptions",
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        ),
        (
            "apps",
            "v1",
            "DeleteOptions",
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        ),
    ] {
        let id = table.kind(group, version, kind).expect(kind);
        assert_eq!(table.model_name(id), model);
    }
    // A type without apiVersion and kind is not a kind, and except for options groups do not mix.
    assert_eq!(table.kind("", "v1", "Container"), None);
    assert_eq!(table.kind("apps", "v1", "Pod"), None);
    assert_eq!(table.kind("apps", "v1beta1", "Deployment"), None);
    let names: Vec<_> = table
        .kinds("node.k8s.io", "v1")
        .into_iter()
        .map(|(n, _)| n)
        .collect();
    assert_eq!(names, ["RuntimeClass", "RuntimeClassList"]);
}

#[test]
fn facts_of_a_field() {
    let table = table();
    let container = table
        .structure(table.find("core/v1.Container").unwrap())
        .unwrap();
    let ports = container.field("ports").unwrap();
    assert_eq!(ports.number(), Some(6));
    assert_eq!(
        ports.list_type(),
        Some(ListType::Map("containerPort,protocol"))
    );
    assert_eq!(
        ports.patch(),
        Some(Patch {
            strategy: "merge",
            merge_key: Some("containerPort")
        })
    );
    assert_eq!(table.go_name(ports.ty), "[]v1.ContainerPort");
    assert!(container.field("name").unwrap().required);
    assert!(!container.field("image").unwrap().required);
    let port = table
        .structure(table.find("core/v1.ContainerPort").unwrap())
        .unwrap();
    assert_eq!(port.field("protocol").unwrap().default(), Some("\"TCP\""));
    let pod = table
        .structure(table.find("core/v1.PodSpec").unwrap())
        .unwrap();
    assert_eq!(pod.field("nodeSelector").unwrap().atomic(), Some(true));
    assert_eq!(pod.field("overhead").unwrap().atomic(), None);
    assert_eq!(
        pod.field("volumes").unwrap().patch().unwrap().strategy,
        "merge,retainKeys"
    );
    // Fields of an embedded struct are included under their own names, but not its numbers.
    let volume = table
        .structure(table.find("core/v1.Volume").unwrap())
        .unwrap();
    let path = volume.field("hostPath").unwrap();
    assert_eq!((path.number(), &*path.embedded_in), (None, "VolumeSource."));
    assert_eq!(volume.embedded.len(), 1);
    // Embedded at two levels.
    let rule = table
        .find("admissionregistration/v1.NamedRuleWithOperations")
        .unwrap();
    let rule = table.structure(rule).unwrap();
    assert_eq!(
        &*rule.field("apiGroups").unwrap().embedded_in,
        "RuleWithOperations.Rule."
    );
}
