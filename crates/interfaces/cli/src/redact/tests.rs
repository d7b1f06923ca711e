mod properties;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;

/// Part of every secret below.
const MARK: &str = "hunter2";

fn clean(input: &str) -> String {
    text("text", input, &mut Removed::default())
}

fn cleaned(value: Value) -> (Value, Removed) {
    let mut value = value;
    let mut removed = Removed::default();
    object(&mut value, "document", &mut removed);
    (value, removed)
}

fn count(removed: &Removed, rule: Rule) -> usize {
    let list = removed.list().into_iter();
    list.filter(|it| it.rule == rule).map(|it| it.count).sum()
}

#[test]
fn every_shape_compiles() {
    assert_eq!(text::shapes(), 21);
    assert!(scan::urls("https://a:b@c", &mut Found::default()).is_some());
    assert!(scan::xml("<Password>a</Password>", &mut Found::default()).is_some());
    assert!(scan::assignments("password=a", &mut Found::default()).is_some());
    assert!(scan::flags("x --password a", &mut Found::default()).is_some());
}

#[test]
fn secrets_are_removed_from_texts() {
    for (input, expected) in [
        ("--password=hunter2 --v=2", "--password=<redacted>"),
        (
            "x --password=hunter2 --v=2",
            "x --password=<redacted> --v=2",
        ),
        (
            r#"{"token":"hunter2","a":1}"#,
            r#"{"a":1,"token":"<redacted>"}"#,
        ),
        ("DB_PASSWORD: 'hun hunter2'", "DB_PASSWORD: '<redacted>'"),
        ("api-key = hunter2", "api-key = <redacted>"),
        (
            "password: correct horse hunter2\nuser: x",
            "password: <redacted>\nuser: x",
        ),
        (
            "password: |\n  one\n  hunter2\nuser: x",
            "password: |\n  <redacted>\nuser: x",
        ),
        (
            "tokens:\n- one\n- hunter2\nuser: x",
            "tokens:\n<redacted>\nuser: x",
        ),
        (
            "said Authorization: Digest a=hunter2, b=c",
            "said Authorization: <redacted>",
        ),
        ("sent Bearer abcdef.hunter2", "sent Bearer <redacted>"),
        (
            "pulling https://user:hunter2@quay.io/x",
            "pulling https://<redacted>@quay.io/x",
        ),
        (
            "pulling https://user:a@hunter2@quay.io/x",
            "pulling https://<redacted>@quay.io/x",
        ),
        ("postgres://u:a/hunter2@db/x", "postgres://<redacted>@db/x"),
        (
            "https://h/x?sig=hunter2&a=1",
            "https://h/x?sig=<redacted>&a=1",
        ),
        (
            "GET /x?a=1&access_token=hunter2",
            "GET /x?a=1&access_token=<redacted>",
        ),
        (
            "mysql -u root -p hunter2 db",
            "mysql -u root -p <redacted> db",
        ),
        ("mysql -phunter2 db", "mysql -p<redacted> db"),
        ("curl -u me:hunter2 x", "curl -u <redacted> x"),
        ("redis-cli -a hunter2 ping", "redis-cli -a <redacted> ping"),
        ("login --token 'hunter2 x' y", "login --token <redacted> y"),
        (
            "echo root:hunter2 | chpasswd",
            "echo root:<redacted> | chpasswd",
        ),
        (
            "kubectl create secret generic x --from-literal=password=hunter2",
            "kubectl create secret generic x --from-literal=password=<redacted>",
        ),
        ("a=b&password%3Dhunter2", "a=b&password%3D<redacted>"),
        (
            r#"got \"password\":\"hun\\\"hunter2\", next"#,
            r#"got \"password\":\"<redacted>\", next"#,
        ),
        ("{Password:hunter2 User:x}", "{Password:<redacted> User:x}"),
        (
            "machine h login u password hunter2",
            "machine h login u password <redacted>",
        ),
        (
            "<AdministratorPassword><Value>hunter2</Value></AdministratorPassword><a/>",
            "<AdministratorPassword><redacted></AdministratorPassword><a/>",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nrest",
            "<redacted>\nrest",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2", "<redacted>"),
        ("jwt eyJhbGciOi.eyJhunter2.c2lnbmF0dXJl!", "jwt <redacted>!"),
        ("hash $6$salt$hunter2hunter2", "hash <redacted>"),
        ("join abcdef.0123456789abcdef now", "join <redacted> now"),
        ("key AKIAIOSFODNN7HUNTER2", "key <redacted>"),
        (
            "https://hooks.slack.com/services/T0/B0/hunter2",
            "https://hooks.slack.com/services/<redacted>",
        ),
    ] {
        let found = clean(input);
        assert_eq!(found, expected, "{input}");
        // A second pass changes and counts nothing.
        let mut again = Removed::default();
        assert_eq!(text("text", &found, &mut again), found, "{input}");
        assert_eq!(again.total(), 0, "{input}: {again}");
    }
}

#[test]
fn encoded_secrets_are_removed_from_texts() {
    let inner = [
        "password: hunter2-and-more".to_owned(),
        json!({ "auths": { "quay.io": { "auth": "dTpodW50ZXIy" } } }).to_string(),
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n".to_owned(),
        "#cloud-config\nchpasswd:\n  list: |\n    root:hunter2\n".to_owned(),
        "<Password><Value>hunter2</Value></Password>".to_owned(),
    ];
    for inner in inner {
        let once = STANDARD.encode(&inner);
        let twice = STANDARD.encode(format!("x: {once}"));
        let utf16: Vec<u8> = inner.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for encoded in [once, twice, STANDARD.encode(utf16)] {
            for input in [format!("x {encoded} y"), format!("content: {encoded}")] {
                let found = clean(&input);
                assert!(!found.contains(&encoded[..12]), "{inner}: {found}");
            }
        }
    }
    // gzip is not decompressed.
    assert_eq!(clean("v=H4sIAAAAAAAAA0tMTEoGAJxLZ0sDAAAA"), "v=<redacted>");
    // A key without PEM armour: PKCS #8 and PKCS #1 begin like this.
    let der: Vec<u8> = [0x30, 0x82, 0x04, 0xbd, 0x02, 0x01, 0x00]
        .into_iter()
        .chain([7; 40])
        .collect();
    assert_eq!(clean(&STANDARD.encode(der)), REDACTED);
}

#[test]
fn harmless_text_is_kept() {
    let certificate =
        STANDARD.encode("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    for input in [
        "sha256:5f0c1a2b3c4d5e6f",
        "quay.io/x/y@sha256:5f0c1a2b3c4d5e6f5f0c1a2b3c4d5e6f5f0c1a2b3c4d5e6f5f0c1a2b3c4d5e6f",
        "docker://registry.example:5000/x/y@sha256:5f0c1a2b3c4d5e6f",
        "no node of arm64 supports EPYC-Rome",
        "docker://quay.io/containerdisks/fedora:43",
        "system:serviceaccount:medley-system:medley-operator",
        "0f0c1a2b-3c4d-5e6f-8a9b-0c1d2e3f4a5b",
        "2026-01-31T12:00:00Z",
        "secrets \"pull\" is forbidden: User \"x\" cannot get resource \"secrets\"",
        "--token-file=/var/run/secrets/token --v=2",
        "--port 8080 --kubeconfig /etc/kubernetes/kubelet.conf",
        "find -path /x -print",
        "automountServiceAccountToken: false",
        "tokens: 5",
        "imagePullSecrets: [{name: pull}]",
        "kubernetes.io/dockerconfigjson",
        "deployment.apps/medley-operator-7d4b9c6f5d-abcde",
        certificate.as_str(),
    ] {
        assert_eq!(clean(input), input);
    }
}

#[test]
fn a_pod_loses_its_secrets_and_nothing_else() {
    let (pod, removed) = cleaned(json!({
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
                "objectset.rio.cattle.io/applied": "H4sIhunter2",
                "example.com/api-token": "hunter2",
                "example.com/config": r#"{"db":{"password":"hunter2","port":5432}}"#,
                "kept": "yes",
            },
            "managedFields": [{ "fieldsV1": { "f:spec": { "f:token": {} } } }],
        },
        "spec": {
            "automountServiceAccountToken": true,
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [{
                "name": "c",
                "command": ["mysql", "-p", "hunter2", "-phunter2", "--port", "3306"],
                "args": ["--registry-token", "hunter2", "--name", "x", "sh -c 'curl -u a:hunter2 x'"],
                "env": [
                    { "name": "A", "value": "hunter2" },
                    { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                ],
                "livenessProbe": { "httpGet": {
                    "path": "/z?token=hunter2",
                    "httpHeaders": [{ "name": "X-Any", "value": "hunter2" }],
                } },
            }],
            "volumes": [{ "name": "v", "secret": { "secretName": "s" } }],
        },
    }));
    assert_eq!(
        pod,
        json!({
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "annotations": {
                    "example.com/api-token": REDACTED,
                    "example.com/config": r#"{"db":{"password":"<redacted>","port":5432}}"#,
                    "kept": "yes",
                },
                "managedFields": [{ "fieldsV1": { "f:spec": { "f:token": {} } } }],
            },
            "spec": {
                "automountServiceAccountToken": true,
                "imagePullSecrets": [{ "name": "pull" }],
                "containers": [{
                    "name": "c",
                    "command": ["mysql", "-p", REDACTED, "-p<redacted>", "--port", "3306"],
                    "args": ["--registry-token", REDACTED, "--name", "x", "sh -c 'curl -u <redacted> x'"],
                    "env": [
                        { "name": "A", "value": REDACTED },
                        { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                    ],
                    "livenessProbe": { "httpGet": {
                        "path": "/z?token=<redacted>",
                        "httpHeaders": [{ "name": "X-Any", "value": REDACTED }],
                    } },
                }],
                "volumes": [{ "name": "v", "secret": { "secretName": "s" } }],
            },
        })
    );
    assert_eq!(count(&removed, Rule::AppliedConfiguration), 2);
    assert_eq!(count(&removed, Rule::CommandLine), 4);
    assert_eq!(count(&removed, Rule::EnvironmentValue), 1);
    let input = removed.to_string();
    assert!(
        input.starts_with("redacted: Pod: 1 environment values, 4 command-line values"),
        "{input}"
    );
}

#[test]
fn secrets_lose_their_data_wherever_they_are() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "s", "managedFields": [{ "fieldsV1": { "f:data": { "f:password": {} } } }] },
        "data": { "a": "aHVudGVyMg==" }, "stringData": { "b": MARK },
    });
    let (list, removed) = cleaned(json!({ "kind": "Template", "objects": [secret] }));
    assert_eq!(
        list["objects"],
        json!([{ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } }])
    );
    assert_eq!(count(&removed, Rule::SecretData), 2);
}

#[test]
fn config_maps_of_others_are_outlined() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" },
        "data": { "a": MARK, "empty": "" }, "binaryData": { "b": STANDARD.encode(MARK) },
    });
    let (outlined, removed) = cleaned(map);
    assert_eq!(
        outlined["data"],
        json!({ "a": "<redacted: 7 bytes>", "empty": "" })
    );
    let binary = outlined["binaryData"]["b"].as_str().unwrap();
    assert_eq!(STANDARD.decode(binary).unwrap(), b"<redacted: 7 bytes>");
    assert_eq!(count(&removed, Rule::ConfigMapValue), 2);
    let (again, removed) = cleaned(outlined.clone());
    assert_eq!(again, outlined);
    assert_eq!(removed.total(), 0, "{removed}");
}

#[test]
fn config_maps_that_jobs_read_keep_their_documents() {
    let manifest = "# kept\nkind: Deployment\nspec:\n  env:\n  - name: A\n    value: b\n";
    for meta in [
        json!({ "labels": { "medley.dev/release-payload": "true" } }),
        json!({ "annotations": { "medley.dev/release-image": "x" } }),
        json!({ "name": "data-import-cron-templates" }),
        json!({ "managedFields": [{ "manager": "virt-advisor-operator" }] }),
    ] {
        let map =
            json!({ "kind": "ConfigMap", "metadata": meta, "data": { "a": manifest, "b": "x" } });
        let (kept, _) = cleaned(map.clone());
        assert_eq!(kept, map);
        // Secrets in them, and in their comments, are removed.
        for text in [
            "a: {password: hunter2}\n---\nb: 1\n",
            "# password: hunter2\na: 1\n",
            "a: [",
            "password: hunter2 {",
        ] {
            let map = json!({ "kind": "ConfigMap", "metadata": meta, "data": { "a": text } });
            let (kept, _) = cleaned(map);
            assert!(!kept.to_string().contains(MARK), "{kept}");
        }
    }
}

#[test]
fn virtual_machines_lose_user_data() {
    let (machine, removed) = cleaned(json!({
        "kind": "VirtualMachine",
        "spec": { "volumes": [
            { "cloudInitNoCloud": { "userData": MARK, "networkDataBase64": STANDARD.encode(MARK), "secretRef": { "name": "s" } } },
            { "sysprep": { "configMap": { "name": "answers" } } },
            { "dataVolume": { "name": "d" } },
        ] },
    }));
    let source = &machine["spec"]["volumes"][0]["cloudInitNoCloud"];
    assert_eq!(source["userData"], REDACTED);
    assert_eq!(source["networkDataBase64"], STANDARD.encode(REDACTED));
    assert_eq!(source["secretRef"]["name"], "s");
    assert_eq!(
        machine["spec"]["volumes"][1]["sysprep"]["configMap"]["name"],
        "answers"
    );
    assert_eq!(count(&removed, Rule::UserData), 2);
}

#[test]
fn machine_configs_lose_files_unless_governance_wrote_them() {
    let config = |manager: &str| {
        json!({
            "kind": "MachineConfig",
            "metadata": { "name": "m", "managedFields": [{ "manager": manager }] },
            "spec": {
                "kernelArguments": ["psi=1"],
                "config": {
                    "storage": { "files": [{ "path": "/x", "contents": { "source": "data:,hunter2" } }] },
                    "systemd": { "units": [{ "name": "u", "contents": "hunter2" }] },
                    "passwd": { "users": [{ "name": "core", "passwordHash": "hunter2" }] },
                },
            },
        })
    };
    let (theirs, _) = cleaned(config("oc"));
    assert!(!theirs.to_string().contains(MARK), "{theirs}");
    assert_eq!(theirs["spec"]["kernelArguments"], json!(["psi=1"]));
    let (ours, _) = cleaned(config("virt-advisor-operator"));
    let mut expected = config("virt-advisor-operator");
    expected["spec"]["config"]["passwd"]["users"][0]["passwordHash"] = REDACTED.into();
    assert_eq!(ours, expected);
}

#[test]
fn schemas_and_expressions_are_code() {
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "x" },
        "spec": { "versions": [{ "schema": { "openAPIV3Schema": { "properties": {
            "token": {
                "type": "string", "description": "token: what to send",
                "x-kubernetes-validations": [{ "rule": "self.token == oldSelf.token", "message": "token: immutable" }],
            },
        } } } }] },
    });
    let (kept, removed) = cleaned(definition.clone());
    assert_eq!(kept, definition);
    assert_eq!(removed.total(), 0);
    let policy = json!({
        "kind": "ValidatingAdmissionPolicy",
        "spec": { "validations": [{ "expression": "object.spec.token == 'x' || object.password != ''" }] },
    });
    assert_eq!(cleaned(policy.clone()).0, policy);
    let (set, _) = cleaned(json!({
        "kind": "CustomResourceDefinition",
        "spec": { "properties": { "password": { "type": "string", "default": MARK } } },
    }));
    assert!(!set.to_string().contains(MARK), "{set}");
}

#[test]
fn name_value_pairs_in_lists_are_redacted() {
    let (template, _) = cleaned(json!({
        "kind": "Template",
        "parameters": [{ "name": "CLOUD_USER_PASSWORD", "value": MARK }, { "name": "NAME", "value": "kept" }],
        "source": { "http": { "extraHeaders": ["X-Key: hunter2"], "url": "https://x", "secretRef": "s" } },
        "auths": { "https://u:hunter2@quay.io": { "auth": "dTpodW50ZXIy", "email": "x" } },
        "pin": 7, "password": 2_222_222,
    }));
    assert_eq!(
        template,
        json!({
            "kind": "Template",
            "parameters": [{ "name": "CLOUD_USER_PASSWORD", "value": REDACTED }, { "name": "NAME", "value": "kept" }],
            "source": { "http": { "extraHeaders": ["X-Key: <redacted>"], "url": "https://x", "secretRef": "s" } },
            "auths": { "https://<redacted>@quay.io": { "auth": REDACTED, "email": "x" } },
            "pin": 7, "password": REDACTED,
        })
    );
}

#[test]
fn tokens_as_objects_are_not_collected() {
    assert!(is_credential("oauth.openshift.io", "oauthaccesstokens"));
    assert!(is_credential("oauth.openshift.io", "useroauthaccesstokens"));
    assert!(!is_credential("oauth.openshift.io", "oauthclients"));
    assert!(!is_credential("", "pods"));
}
