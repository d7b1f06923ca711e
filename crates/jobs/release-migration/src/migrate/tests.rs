use super::*;

fn version(spec: Value, desired: Value, conditions: &[(&str, &str, &str, &str)]) -> ClusterVersion {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status, reason, message)| {
            json!({ "type": kind, "status": status, "reason": reason, "message": message })
        })
        .collect();
    let mut object = json!({ "metadata": { "name": "version" }, "status": {} });
    object["spec"] = spec;
    object["status"]["desired"] = desired;
    object["status"]["conditions"] = json!(conditions);
    serde_json::from_value(object).unwrap()
}

fn current() -> Value {
    json!({ "version": "4.18.0", "image": "i" })
}

const CALM: &[(&str, &str, &str, &str)] = &[
    ("Progressing", "False", "", "Cluster version is 4.18.0"),
    ("Failing", "False", "", ""),
    ("RetrievedUpdates", "True", "", ""),
];

#[test]
fn current_version_is_requested_as_multi() {
    let calm = version(json!({}), current(), CALM);
    let ask = |force| {
        json!({ "spec": { "desiredUpdate": {
            "architecture": "Multi", "version": "4.18.0", "image": "", "force": force,
        } } })
    };
    assert_eq!(migrate(&calm, false, false), Ok(Migration::Ask(ask(false))));
    assert_eq!(migrate(&calm, true, false), Ok(Migration::Ask(ask(true))));
}

#[test]
fn migration_is_not_requested_twice() {
    for requested in ["4.18.0", "4.17.0"] {
        let requested = json!({ "architecture": "Multi", "version": requested });
        let requested = version(json!({ "desiredUpdate": requested }), current(), CALM);
        for anyway in [false, true] {
            assert_eq!(
                migrate(&requested, false, anyway),
                Err(MigrateError::AlreadyRequested)
            );
        }
    }
    let other = version(
        json!({ "desiredUpdate": { "version": "4.18.0" } }),
        current(),
        CALM,
    );
    assert!(matches!(
        migrate(&other, false, false),
        Ok(Migration::Ask(_))
    ));
    let multi = json!({ "version": "4.18.0", "image": "i", "architecture": "Multi" });
    let multi = version(json!({}), multi, CALM);
    assert_eq!(
        migrate(&multi, false, false),
        Ok(Migration::AlreadyMulti {
            version: "4.18.0".to_owned()
        })
    );
}

#[test]
fn blocking_conditions_are_reported() {
    let refused = |conditions: &[(&str, &str, &str, &str)]| {
        let version = version(json!({}), current(), conditions);
        assert!(migrate(&version, false, true).is_ok());
        migrate(&version, false, false).unwrap_err().to_string()
    };
    let text = refused(&[("Progressing", "True", "", "Working towards 4.18.0")]);
    assert_eq!(
        text,
        "the cluster is already upgrading: Working towards 4.18.0\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings."
    );
    let text = refused(&[
        ("Progressing", "True", "", "x"),
        (
            "Failing",
            "True",
            "ClusterOperatorDegraded",
            "dns is degraded",
        ),
    ]);
    assert!(
        text.starts_with("the cluster is experiencing an upgrade-blocking error: \n\n  Reason: ClusterOperatorDegraded\n  Message: dns is degraded\n"),
        "{text}"
    );
    let text = refused(&[("Invalid", "True", "InvalidClusterVersion", "m")]);
    assert!(
        text.starts_with("the cluster version object is invalid"),
        "{text}"
    );
    let text = refused(&[(
        "RetrievedUpdates",
        "False",
        "NoChannel",
        "The update channel has not been configured.",
    )]);
    assert!(
        text.contains("(NoChannel: The update channel has not been configured.)"),
        "{text}"
    );
}

#[test]
fn cluster_without_a_version_is_an_error() {
    let version = version(json!({}), json!({}), CALM);
    assert_eq!(migrate(&version, false, true), Err(MigrateError::NoVersion));
}
