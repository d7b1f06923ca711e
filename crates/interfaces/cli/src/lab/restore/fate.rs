//! What a copy of a cluster takes from a snapshot: objects whose servers do not run here stay out, drivers and nodes become
//! simulated ones.

use serde_json::{Map, Value};

/// What becomes of an object in a copy.
#[derive(Debug, PartialEq)]
pub(super) enum Fate {
    /// It is put in.
    Kept(Value),
    /// It is left out, for a reason that is worth saying.
    LeftOut(&'static str),
    /// The copy has its own.
    Own,
}

/// What becomes of an object in a copy.
pub(super) fn fate(mut object: Value) -> Fate {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            Fate::LeftOut("webhooks that nobody answers in a copy")
        }
        // Those without a service stand for what the server serves itself.
        "APIService" if object["spec"]["service"].is_null() => Fate::Own,
        "APIService" => Fate::LeftOut("API services that nobody answers in a copy"),
        // The way to the server itself.
        "Service" | "Endpoints" | "EndpointSlice"
            if name == "kubernetes" && object["metadata"]["namespace"] == "default" =>
        {
            Fate::Own
        }
        "ConfigMap" if name == "kube-root-ca.crt" => Fate::Own,
        "CustomResourceDefinition" => {
            // Nobody answers conversion webhooks either; stored objects are of one version.
            if object["spec"]["conversion"]["strategy"] == "Webhook" {
                object["spec"]["conversion"] = serde_json::json!({ "strategy": "None" });
            }
            Fate::Kept(object)
        }
        "Node" => {
            annotate(&mut object, fleet::names::SIMULATED, "true".into());
            Fate::Kept(object)
        }
        // The driver of the cluster does not run here; the simulated one stands in for it.
        "StorageClass" => Fate::Kept(with_driver(object, "provisioner")),
        "VolumeSnapshotClass" => Fate::Kept(with_driver(object, "driver")),
        _ => Fate::Kept(object),
    }
}

/// What a storage class named before the simulated driver took its place.
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
        assert_eq!(fate(map.clone()), Fate::Kept(map));
    }

    #[test]
    fn nodes_of_a_copy_are_simulated() {
        let Fate::Kept(node) = fate(json!({ "kind": "Node", "metadata": { "name": "n" } })) else {
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
        let Fate::Kept(class) = fate(class) else {
            panic!("classes are kept");
        };
        assert_eq!(class["provisioner"], fleet::storage::DRIVER);
        assert_eq!(
            class["metadata"]["annotations"][DRIVER_BEFORE],
            "csi.example.com"
        );
    }

    #[test]
    fn what_would_refuse_every_write_is_left_out() {
        for kind in [
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "APIService",
        ] {
            let object = json!({ "kind": kind, "metadata": { "name": "x" }, "spec": { "service": { "name": "x" } } });
            let fate = fate(object);
            assert!(matches!(fate, Fate::LeftOut(_)), "{kind}: {fate:?}");
        }
        let fate = fate(json!({
            "kind": "CustomResourceDefinition", "metadata": { "name": "x" },
            "spec": { "conversion": { "strategy": "Webhook", "webhook": {} } },
        }));
        let Fate::Kept(definition) = fate else {
            panic!("definitions are kept");
        };
        assert_eq!(
            definition["spec"]["conversion"],
            json!({ "strategy": "None" })
        );
    }
}
