//! Documents, names and settings.

use serde_json::{Value, json};

use super::Seeds;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn hash(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn seeds<T: Into<Vec<u8>>>(texts: impl IntoIterator<Item = T>) -> Seeds {
    texts.into_iter().map(Into::into).collect()
}

/// For `document`.
pub fn documents() -> Seeds {
    let entry = |digit, platform: Value| json!({ "mediaType": MANIFEST, "digest": hash(digit), "size": 7, "platform": platform });
    let arm = json!({ "os": "linux", "architecture": "arm64", "variant": "v8" });
    let windows = json!({
        "os": "windows", "architecture": "amd64", "os.version": "10.0.20348.1", "os.features": ["win32k"],
    });
    let unknown = json!({ "os": "unknown", "architecture": "unknown" });
    let mut attestation = entry('c', unknown);
    attestation["annotations"] = json!({
        "vnd.docker.reference.type": "attestation-manifest",
        "vnd.docker.reference.digest": hash('a'),
    });
    let nested = json!({ "mediaType": INDEX, "digest": hash('d'), "size": 9 });
    let bare = json!({ "mediaType": MANIFEST, "digest": hash('e'), "size": 9 });
    let layer = |kind: &str| json!({ "mediaType": kind, "digest": hash('f'), "size": 1 });
    let documents = [
        json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [entry('a', arm.clone()), entry('b', windows), attestation, nested, bare],
            "annotations": { "a": "b" },
        }),
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.list.v2+json",
            "manifests": [{
                "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "digest": hash('a'), "size": 7, "platform": arm,
            }],
        }),
        json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": layer("application/vnd.oci.image.config.v1+json"),
            "layers": [layer("application/vnd.oci.image.layer.v1.tar+gzip")],
        }),
        json!({
            "schemaVersion": 2,
            "artifactType": "application/vnd.kubevirt.disk",
            "config": layer("application/vnd.oci.empty.v1+json"),
            "layers": [layer("application/vnd.kubevirt.disk.v1+qcow2")],
        }),
        json!({
            "schemaVersion": 1, "name": "x", "fsLayers": [{ "blobSum": hash('a') }], "signatures": [],
        }),
        json!({
            "os": "linux", "architecture": "arm64", "variant": "v8",
            "config": { "Labels": { "containers.bootc": "1" }, "Env": ["PATH=/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [hash('a')] },
        }),
    ];
    seeds(documents.map(|document| document.to_string()))
}

/// For `reference`.
pub fn references() -> Seeds {
    seeds([
        "fedora".to_owned(),
        "quay.io/containerdisks/fedora:41".to_owned(),
        format!("quay.io:443/a/b_c-d.e:v1@{}", hash('a')),
        "[::1]:5000/x__y".to_owned(),
        "localhost/x".to_owned(),
        "docker://docker.io/library/fedora:latest".to_owned(),
        "oci-archive:/disks/fedora.tar:fedora".to_owned(),
        format!("oci:folder@{}", hash('b')),
        "linux(+gpu%20x)/arm64/v8".to_owned(),
        "windows(10.0.20348.1+win32k)/amd64".to_owned(),
        "x86_64".to_owned(),
        format!("sha512:{}", "0".repeat(128)),
    ])
}

/// For `challenge`.
pub fn challenges() -> Seeds {
    seeds([
        r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull""#,
        "Basic realm=\"tests\"\nBearer realm=https://auth.example/token , service = x",
        r#"Negotiate abc==, Bearer error="a\"b",realm="http://127.0.0.1:5000/auth""#,
        "bearer realm=\"https://10.0.0.1/\"",
        "Bearer realm=\"https://[::ffff:127.0.0.1]/\", scope=\"\"",
        "Bearer realm=\"https://user:word@auth.example/\"",
    ])
}

/// For `token`.
pub fn tokens() -> Seeds {
    seeds([
        r#"{"token":"abc.def","expires_in":300,"issued_at":"2020-01-01T00:00:00Z"}"#,
        r#"{"access_token":"abc","expires_in":1e3}"#,
        r#"{"token":"","access_token":"x"}"#,
    ])
}

/// For `credentials`.
pub fn credentials() -> Seeds {
    // `user:word`, and the same with a null byte behind it.
    let auth = json!({ "auth": "dXNlcjp3b3Jk" });
    let padded = json!({ "auth": "dXNlcjp3b3JkAA==", "email": "a@b" });
    let plain = json!({ "username": "user", "password": "word" });
    let registries = json!({
        "https://index.docker.io/v1/": auth,
        "quay.io/containerdisks": padded,
        "*.example.com:5000": plain,
        "127.0.0.1:5000": { "identitytoken": "abc", "auth": "dXNlcjp3b3Jk" },
        "[a-z]uay.io": { "registrytoken": "def" },
    });
    seeds([
        json!({ "auths": registries, "credsStore": "x" }).to_string(),
        registries.to_string(),
        json!({ "auths": {} }).to_string(),
        "user\nword".to_owned(),
    ])
}

/// For `mirrors`.
pub fn mirrors() -> Seeds {
    seeds([
        r#"unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "quay.io/containerdisks"
location = "mirror.example.com/disks"
insecure = true
mirror-by-digest-only = true
[[registry.mirror]]
location = "registry.example.com:5000/a"
pull-from-mirror = "digest-only"
[[registry]]
prefix = "*.example.com"
blocked = true
"#
        .to_owned(),
        r#"server = "https://quay.io"
capabilities = ["pull", "resolve"]
[host."http://127.0.0.1:5000/v2/mirror"]
override_path = true
skip_verify = true
ca = "ca.crt"
client = [["a.cert", "a.key"]]
[host."https://127.0.0.1:5000".header]
x-a = ["b", "c"]
"#
        .to_owned(),
        json!({
            "imageDigestMirrors": [{
                "source": "quay.io/containerdisks",
                "mirrors": ["mirror.example.com/disks"],
                "mirrorSourcePolicy": "NeverContactSource",
            }],
            "imageTagMirrors": [{ "source": "quay.io", "mirrors": ["registry.example.com:5000"] }],
            "repositoryDigestMirrors": [{ "source": "*.example.com", "mirrors": [] }],
        })
        .to_string(),
    ])
}
