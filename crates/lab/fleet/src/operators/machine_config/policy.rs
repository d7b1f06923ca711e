//! Node disruption policies: changes without a reboot, from `MachineConfiguration/cluster`.

use serde_json::{Value, json};

/// The operator's built-in policies, by file path.
fn built_in() -> Value {
    let none = json!([{ "type": "None" }]);
    let reload = json!([{ "type": "Reload", "reload": { "serviceName": "crio.service" } }]);
    json!([
        { "path": "/etc/mco/internal-registry-pull-secret.json", "actions": none },
        { "path": "/var/lib/kubelet/config.json", "actions": none },
        { "path": "/etc/nmstate/openshift", "actions": none },
        { "path": "/etc/machine-config-daemon/no-reboot/containers-gpg.pub", "actions": reload },
        { "path": "/etc/containers/policy.json", "actions": reload },
        { "path": "/etc/containers/registries.conf", "actions": [{ "type": "Special" }] },
        { "path": "/etc/containers/registries.d", "actions": reload },
    ])
}

/// The effective policies: the user's override the built-in ones.
pub(super) fn cluster_policies(spec: &Value) -> Value {
    let policies = &spec["nodeDisruptionPolicy"];
    let mut files = built_in();
    merge(&mut files, &policies["files"], "path");
    let mut units = json!([]);
    merge(&mut units, &policies["units"], "name");
    let key = policies["sshkey"]["actions"].clone();
    let key = match key {
        Value::Null => json!([{ "type": "None" }]),
        actions => actions,
    };
    json!({ "files": files, "units": units, "sshkey": { "actions": key } })
}

fn merge(known: &mut Value, more: &Value, key: &str) {
    let Some(known) = known.as_array_mut() else {
        return;
    };
    for entry in more.as_array().into_iter().flatten() {
        match known.iter_mut().find(|it| it[key] == entry[key]) {
            Some(same) => *same = entry.clone(),
            None => known.push(entry.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_policies_override_built_in_ones() {
        let quiet = cluster_policies(&json!({}));
        assert_eq!(quiet["sshkey"]["actions"][0]["type"], "None");
        assert_eq!(quiet["units"], json!([]));
        let policies = cluster_policies(&json!({ "nodeDisruptionPolicy": {
            "files": [
                { "path": "/etc/containers/policy.json", "actions": [{ "type": "Reboot" }] },
                { "path": "/etc/mine", "actions": [{ "type": "Drain" }] },
            ],
            "units": [{ "name": "mine.service", "actions": [{ "type": "None" }] }],
            "sshkey": { "actions": [{ "type": "Reboot" }] },
        } }));
        let action = |path: &str| {
            let files = policies["files"].as_array().unwrap();
            let matching: Vec<&Value> = files.iter().filter(|it| it["path"] == path).collect();
            assert_eq!(matching.len(), 1, "{path}");
            matching[0]["actions"][0]["type"].clone()
        };
        assert_eq!(action("/etc/containers/policy.json"), "Reboot");
        assert_eq!(action("/etc/mine"), "Drain");
        assert_eq!(action("/etc/containers/registries.conf"), "Special");
        assert_eq!(policies["units"][0]["name"], "mine.service");
        assert_eq!(policies["sshkey"]["actions"][0]["type"], "Reboot");
    }
}
