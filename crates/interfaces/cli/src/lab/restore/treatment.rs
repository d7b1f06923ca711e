//! How objects of a snapshot are treated in a copy: objects whose servers do not run here are skipped, nodes and drivers become
//! simulated ones.

use serde_json::{Map, Value};

/// Treatment of an object in a copy.
#[derive(Debug, PartialEq)]
pub(super) enum Treatment {
    /// It is created.
    Kept(Value),
    /// It is skipped, and the reason is reported.
    LeftOut(&'static str),
    /// The copy has its own.
    Own,
}

/// How an object is treated in a copy.
pub(super) fn treatment(mut object: Value) -> Treatment {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match kind {
        // Kept, one with failure policy Fail would reject every write that it matches.
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            Treatment::LeftOut("webhooks, which do not run in a copy")
        }
        // APIServices without a service stand for groups that the server itself serves.
        "APIService" if object["spec"]["service"].is_null() => Treatment::Own,
        "APIService" => Treatment::LeftOut("APIServices, which do not run in a copy"),
        // The service of the API server itself.
        "Service" | "Endpoints" | "EndpointSlice"
            if name == "kubernetes" && object["metadata"]["namespace"] == "default" =>
        {
            Treatment::Own
        }
        "ConfigMap" if name == "kube-root-ca.crt" => Treatment::Own,
        "CustomResourceDefinition" => {
            // Conversion webhooks do not run in a copy; stored objects are of one version.
            if object["spec"]["conversion"]["strategy"] == "Webhook" {
                object["spec"]["conversion"] = serde_json::json!({ "strategy": "None" });
            }
            Treatment::Kept(object)
        }
        "Node" => {
            annotate(&mut object, fleet::names::SIMULATED, "true".into());
            Treatment::Kept(object)
        }
        // The CSI driver of the cluster does not run here; the simulated one replaces it.
        "StorageClass" => Treatment::Kept(with_driver(object, "provisioner")),
        "VolumeSnapshotClass" => Treatment::Kept(with_driver(object, "driver")),
        _ => Treatment::Kept(object),
    }
}

/// The original driver of a storage class.
const DRIVER_BEFORE: &str = "fleet.medley.dev/driver";

fn with_driver(mut object: Value, field: &str) -> Value {
    let before = object[field].take();
    object[field] = fleet::storage::DRIVER.into();
    annotate(&mut object, DRIVER_BEFORE, before);
    object
}

fn annotate(object: &mut Value, name: &str, value: Value) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[name] = value;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_objects_are_restored_unchanged() {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": { "a": "b" } });
        assert_eq!(treatment(map.clone()), Treatment::Kept(map));
    }

    #[test]
    fn nodes_of_a_copy_are_simulated() {
        let Treatment::Kept(node) =
            treatment(json!({ "kind": "Node", "metadata": { "name": "n" } }))
        else {
            panic!("nodes are kept");
        };
        assert_eq!(
            node["metadata"]["annotations"][fleet::names::SIMULATED],
            "true"
        );
    }

    #[test]
    fn claims_of_a_copy_get_simulated_volumes() {
        let class = json!({ "kind": "StorageClass", "metadata": { "name": "gold" }, "provisioner": "csi.example.com" });
        let Treatment::Kept(class) = treatment(class) else {
            panic!("classes are kept");
        };
        assert_eq!(class["provisioner"], fleet::storage::DRIVER);
        assert_eq!(
            class["metadata"]["annotations"][DRIVER_BEFORE],
            "csi.example.com"
        );
    }

    #[test]
    fn admission_configurations_are_left_out_of_a_copy() {
        for kind in [
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "APIService",
        ] {
            let object = json!({ "kind": kind, "metadata": { "name": "x" }, "spec": { "service": { "name": "x" } } });
            let treatment = treatment(object);
            assert!(
                matches!(treatment, Treatment::LeftOut(_)),
                "{kind}: {treatment:?}"
            );
        }
        let treatment = treatment(json!({
            "kind": "CustomResourceDefinition", "metadata": { "name": "x" },
            "spec": { "conversion": { "strategy": "Webhook", "webhook": {} } },
        }));
        let Treatment::Kept(definition) = treatment else {
            panic!("definitions are kept");
        };
        assert_eq!(
            definition["spec"]["conversion"],
            json!({ "strategy": "None" })
        );
    }
}
