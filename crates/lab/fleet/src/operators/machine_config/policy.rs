//! Which changes of configuration need no reboot, as `MachineConfiguration/cluster` tells.

use serde_json::{Value, json};

/// What the operator knows by itself, by path of a file.
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

/// The policies that count: what users say goes before what the operator knows by itself.
pub(super) fn cluster_policies(spec: &Value) -> Value {
    let said = &spec["nodeDisruptionPolicy"];
    let mut files = built_in();
    merge(&mut files, &said["files"], "path");
    let mut units = json!([]);
    merge(&mut units, &said["units"], "name");
    let key = said["sshkey"]["actions"].clone();
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
    fn what_users_say_goes_first() {
        let quiet = cluster_policies(&json!({}));
        assert_eq!(quiet["sshkey"]["actions"][0]["type"], "None");
        assert_eq!(quiet["units"], json!([]));
        let said = cluster_policies(&json!({ "nodeDisruptionPolicy": {
            "files": [
                { "path": "/etc/containers/policy.json", "actions": [{ "type": "Reboot" }] },
                { "path": "/etc/mine", "actions": [{ "type": "Drain" }] },
            ],
            "units": [{ "name": "mine.service", "actions": [{ "type": "None" }] }],
            "sshkey": { "actions": [{ "type": "Reboot" }] },
        } }));
        let action = |path: &str| {
            let files = said["files"].as_array().unwrap();
            let matching: Vec<&Value> = files.iter().filter(|it| it["path"] == path).collect();
            assert_eq!(matching.len(), 1, "{path}");
            matching[0]["actions"][0]["type"].clone()
        };
        assert_eq!(action("/etc/containers/policy.json"), "Reboot");
        assert_eq!(action("/etc/mine"), "Drain");
        assert_eq!(action("/etc/containers/registries.conf"), "Special");
        assert_eq!(said["units"][0]["name"], "mine.service");
        assert_eq!(said["sshkey"]["actions"][0]["type"], "Reboot");
    }
}
