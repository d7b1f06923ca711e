//! `medley release` on folders, on a real registry, and on a cluster with OpenShift's CRDs.
#[path = "release_cli_support.rs"]
mod support;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{OpenShiftFixture, ReleaseSources, image, medley, path};
use testkit::{Layout, Registry, has};

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn pull(letter: char) -> String {
    format!("quay.io/release/art@{}", digest(letter))
}

/// Renders a release of two operators whose image digests consist of these letters.
async fn release(
    workshop: &ReleaseSources,
    dns: char,
    mco: char,
    to: &str,
) -> anyhow::Result<String> {
    let (dns, mco) = (pull(dns), pull(mco));
    let tags = [
        ("cluster-dns-operator", dns.as_str()),
        ("machine-config-operator", mco.as_str()),
        ("unused", mco.as_str()),
    ];
    let images = workshop.images(&tags)?;
    let folder = workshop.render(&images, to).await?;
    Ok(path(&folder).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn release_is_rendered_mirrored_and_linted() -> anyhow::Result<()> {
    let workshop = ReleaseSources::new(true)?;
    let folder = release(&workshop, 'a', 'b', "release").await?;
    let read = |folder: &str, file: &str| std::fs::read_to_string(format!("{folder}/{file}"));
    let operator = read(&folder, "0000_80_machine-config_09_co.yaml")?;
    has(
        &operator,
        &[&format!("version: {}\n", pull('b')), "version: \"4.18.0\""],
    );
    let deployment = read(&folder, "0000_80_machine-config_05_deployment.yaml")?;
    has(
        &deployment,
        &[
            &format!("\"--operator-image={}\"", pull('b')),
            "--payload-version=4.18.0\"",
        ],
    );
    let metadata: Value = serde_json::from_str(&read(&folder, "release-metadata")?)?;
    assert_eq!(
        metadata["metadata"]["release.openshift.io/architecture"],
        "multi"
    );

    let text = medley(&["lint", &folder], None).await?.ok()?;
    assert_eq!(
        text,
        "all 2 operators report images\n0 errors, 0 warnings\n"
    );

    let mirrored = workshop.path("mirrored");
    let line = [
        "mirror",
        &folder,
        "--to",
        "mirror.example:5000/ocp",
        "-o",
        path(&mirrored),
    ];
    let text = medley(&line, None).await?.ok()?;
    has(&text, &["2 images in 4 files rewritten"]);
    let text = medley(&["lint", path(&mirrored), "--strict"], None)
        .await?
        .ok()?;
    has(&text, &["0 errors, 0 warnings"]);
    let operator = read(path(&mirrored), "0000_70_dns_09_co.yaml")?;
    has(
        &operator,
        &[&format!("mirror.example:5000/ocp@{}", digest('a'))],
    );

    // A non-empty folder is never written to.
    let refused = medley(&line, None).await?.refused()?;
    has(&refused, &["the directory is not empty"]);
    let text = medley(
        &[
            "mirror",
            &folder,
            "--to",
            "a/b",
            "--to-registry",
            "c",
            "-o",
            "x",
        ],
        None,
    )
    .await?;
    assert_eq!(text.code, Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_sources_are_rejected() -> anyhow::Result<()> {
    let workshop = ReleaseSources::new(true)?;
    let images = workshop.images(&[("machine-config-operator", &pull('b'))])?;
    let (operators, out) = (workshop.path("operators"), workshop.path("out"));
    let mut line = vec![
        "render",
        "--operators",
        path(&operators),
        "--images",
        path(&images),
        "--name",
        "4.18.0",
        "-o",
        path(&out),
    ];
    let refused = medley(&line, None).await?.refused()?;
    has(
        &refused,
        &[
            "operator \"cluster-dns-operator\" contained an invalid image-references file: no input image tag named \"cluster-dns-operator\"",
        ],
    );
    assert!(!out.exists(), "nothing is written");
    line.push("--allow-missing-images");
    let result = medley(&line, None).await?;
    has(
        &result.err,
        &[
            "warning: operator \"cluster-dns-operator\"",
            "was not replaced",
        ],
    );
    result.ok()?;
    let result = medley(&["lint", path(&out), "-o", "json"], None).await?;
    assert_eq!(result.code, Some(1));
    let found: Value = serde_json::from_str(&result.out)?;
    assert_eq!(found["findings"][0]["rule"], "Placeholder");
    line[6] = "latest";
    has(&medley(&line, None).await?.refused()?, &["not empty"]);
    std::fs::remove_dir_all(&out)?;
    has(
        &medley(&line, None).await?.refused()?,
        &["building release \"latest\"", "semantic version"],
    );
    has(
        &medley(&["lint", "/nonexistent/folder"], None)
            .await?
            .refused()?,
        &["neither a directory nor a release image"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_checks_every_image_in_the_registry() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let host = registry.host();
    let workshop = ReleaseSources::new(true)?;
    let mut layout = Layout::new(&workshop.path("layout"))?;
    let all = image(&mut layout, "all", &["amd64", "arm64", "s390x"], true);
    let some = image(&mut layout, "some", &["amd64", "arm64"], true);
    let single = image(&mut layout, "single", &["amd64"], false);
    for name in ["all", "some", "single"] {
        registry.push(&layout.source(name), &format!("art/{name}:1"))?;
    }
    let of = |name: &str, digest: &str| format!("{host}/art/{name}@{digest}");
    let build = |dns: String, mco: String| {
        let tags = [
            ("cluster-dns-operator", dns),
            ("machine-config-operator", mco),
        ];
        let tags: Vec<(&str, &str)> = tags
            .iter()
            .map(|(it, image)| (*it, image.as_str()))
            .collect();
        workshop.images(&tags)
    };
    let images = build(of("all", &all), of("some", &some))?;
    let good = workshop.render(&images, "good").await?;
    let asked = registry.requests().len();
    let line = [
        "preflight",
        path(&good),
        "--arch",
        "aarch64,amd64",
        "--insecure",
        &host,
    ];
    let text = medley(&line, None).await?.ok()?;
    has(
        &text,
        &[
            "2 of 2 images are available for arm64, amd64\n",
            "all images are available for amd64, arm64\n",
        ],
    );
    let manifests = registry.requests();
    let manifests = manifests
        .iter()
        .skip(asked)
        .filter(|it| it.contains("/manifests/"));
    assert_eq!(manifests.count(), 2, "an index costs one request");

    let line = [
        "preflight",
        path(&good),
        "--arch",
        "arm64,s390x",
        "--insecure",
        &host,
    ];
    let result = medley(&line, None).await?;
    assert_eq!(result.code, Some(1));
    has(
        &result.out,
        &["machine-config-operator   Missing   s390x     linux/amd64,linux/arm64"],
    );
    has(
        &result.err,
        &["error: 1 of 2 images are not available for arm64, s390x"],
    );
    let mut excepted = line.to_vec();
    excepted.extend(["--except", "machine-config-operator", "-o", "json"]);
    let found = medley(&excepted, None).await?.json()?;
    assert_eq!(found["ready"], true);
    assert_eq!(found["images"][1]["verdict"], "Excepted");

    let gone = of("gone", &digest('e'));
    let images = build(of("single", &single), gone)?;
    let bad = workshop.render(&images, "bad").await?;
    let line = [
        "preflight",
        path(&bad),
        "--arch",
        "amd64,arm64",
        "--insecure",
        &host,
        "-o",
        "json",
    ];
    let result = medley(&line, None).await?;
    assert_eq!(result.code, Some(1));
    let found: Value = serde_json::from_str(&result.out)?;
    assert_eq!(found["ready"], false);
    assert_eq!(found["images"][0]["verdict"], "NotAnIndex");
    assert_eq!(found["images"][0]["missing"], json!(["arm64"]));
    assert_eq!(found["images"][1]["verdict"], "Unknown");
    assert!(
        found["images"][1]["error"]
            .as_str()
            .is_some_and(|it| it.contains("gone"))
    );

    for (arguments, part) in [
        (&["--arch", "sparc9"][..], "not an architecture"),
        (
            &["--arch", "amd64", "--except", "nobody"],
            "has no image of this name",
        ),
    ] {
        let mut line = vec!["preflight", path(&bad)];
        line.extend(arguments);
        has(&medley(&line, None).await?.refused()?, &[part]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn release_is_read_from_its_image() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let host = registry.host();
    let workshop = ReleaseSources::new(false)?;
    let mut layout = Layout::new(&workshop.path("layout"))?;
    let all = image(&mut layout, "all", &["amd64", "arm64"], true);
    registry.push(&layout.source("all"), "art/all:1")?;
    let pull = format!("{host}/art/all@{all}");
    let tags = [
        ("cluster-dns-operator", pull.as_str()),
        ("machine-config-operator", &pull),
    ];
    let folder = workshop.render(&workshop.images(&tags)?, "release").await?;
    let layer = workshop.layer(&folder)?;
    // The upper layer removes a file with a whiteout.
    let above = workshop.path("above");
    std::fs::create_dir_all(above.join("release-manifests"))?;
    std::fs::write(
        above.join("release-manifests/.wh.0000_70_dns_05_deployment.yaml"),
        "",
    )?;
    let output = std::process::Command::new("tar")
        .args(["-C", path(&above), "-cf", "-", "release-manifests"])
        .output()?;
    let images: Vec<Value> = ["amd64", "arm64"]
        .iter()
        .map(|it| layout.image(it, &[&layer, &output.stdout], &json!({})))
        .collect::<anyhow::Result<_>>()?;
    let index = layout.index(&images)?;
    layout.name("release", &index)?;
    registry.push(&layout.source("release"), "release/ocp:4.18.0-multi")?;
    let from = format!("{host}/release/ocp:4.18.0-multi");

    let line = ["lint", &from, "--insecure", &host, "-o", "json"];
    let found = medley(&line, None).await?.json()?;
    assert_eq!(found["adoption"]["silent"], json!(["dns"]));
    let rules: Vec<&str> = found["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["rule"].as_str())
        .collect();
    assert_eq!(rules, ["Adoption"]);
    let line = [
        "preflight",
        &from,
        "--arch",
        "amd64,arm64",
        "--insecure",
        &host,
        "--all",
    ];
    let text = medley(&line, None).await?.ok()?;
    has(
        &text,
        &["(release)", "3 of 3 images are available for amd64, arm64"],
    );
    let to = workshop.path("mirrored");
    let line = [
        "mirror",
        &from,
        "--to-registry",
        "m.example",
        "-o",
        path(&to),
        "--insecure",
        &host,
    ];
    medley(&line, None).await?.ok()?;
    assert!(to.join("0000_70_dns_09_co.yaml").exists());
    assert!(
        !to.join("0000_70_dns_05_deployment.yaml").exists(),
        "it was taken away"
    );

    // The same from an OCI layout, and an image that is not a release.
    let source = layout.source("release");
    has(
        &medley(&["lint", &source], None).await?.ok()?,
        &["0 errors, 1 warnings"],
    );
    let source = layout.source("all");
    has(
        &medley(&["lint", &source], None).await?.refused()?,
        &["is not a release image: its folder /release-manifests is missing or empty"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn status_follows_a_migration() -> anyhow::Result<()> {
    let fixture = OpenShiftFixture::start().await?;
    let workshop = ReleaseSources::new(false)?;
    let folder = release(&workshop, 'a', 'b', "release").await?;
    let single = format!("quay.io/ocp/release@{}", digest('1'));
    let multi = format!("quay.io/ocp/release@{}", digest('2'));

    // No update is in progress.
    fixture.version(&single, None, false).await?;
    fixture.operator("dns", None, false).await?;
    fixture
        .operator("machine-config", Some(&pull('0')), false)
        .await?;
    let text = fixture.run(&["status"]).await?.ok()?;
    assert_eq!(text, "The cluster is not updating.\n");

    // The update is requested once, and only the requested field changes.
    let migrate = ["migrate", "--to-multi-arch"];
    let mut tried = migrate.to_vec();
    tried.push("--dry-run=server");
    let text = fixture.run(&tried).await?.ok()?;
    assert_eq!(
        text,
        "Requested update to multi cluster architecture (server dry run)\n"
    );
    let text = fixture.run(&migrate).await?.ok()?;
    assert_eq!(text, "Requested update to multi cluster architecture\n");
    let version = fixture.api("ClusterVersion").get("version").await?;
    let wanted =
        json!({ "architecture": "Multi", "version": "4.18.0", "image": "", "force": false });
    assert_eq!(version.data["spec"]["desiredUpdate"], wanted);
    assert_eq!(version.data["spec"]["channel"], "stable-4.18");
    let refused = fixture.run(&migrate).await?.refused()?;
    assert_eq!(
        refused,
        "error: info: Update to multi cluster architecture has already been requested\n"
    );

    // In progress: judged by versions alone it is complete.
    fixture.version(&multi, Some(&single), true).await?;
    fixture
        .operator("machine-config", Some(&pull('0')), true)
        .await?;
    let text = fixture.run(&["status"]).await?.ok()?;
    has(
        &text,
        &["Completion:      100% (2 operators updated, 0 updating, 0 waiting)"],
    );
    // The payload allows an accurate answer.
    let status = ["status", "--release", &folder];
    let text = fixture.run(&status).await?.ok()?;
    has(
        &text,
        &[
            "Target Version:  4.18.0 to Multi-Architecture\n",
            "Updating:        machine-config\n",
            "Completion:      50% (1 operators updated, 1 updating, 0 waiting)\n",
            "Operator Health: 2 Healthy\n",
            "1 of 2 operators report images; completion is only exact for these",
        ],
    );
    let found = fixture
        .run(&["status", "--release", &folder, "-o", "json"])
        .await?
        .json()?;
    assert_eq!(found["updating"], true);
    assert_eq!(found["controlPlane"]["target"]["change"], "SingleToMulti");
    let refused = fixture.run(&["migrate", "--to-multi-arch"]).await?;
    has(&refused.refused()?, &["already been requested"]);

    let mut gate = status.to_vec();
    gate.extend(["--gate", "workers"]);
    let result = fixture.run(&gate).await?;
    assert_eq!(result.code, Some(1));
    has(
        &result.err,
        &["error: the cluster has not completed 4.18.0 to Multi-Architecture yet"],
    );
    let text = fixture
        .run(&["explain", "machine-config", "--release", &folder])
        .await?
        .ok()?;
    has(
        &text,
        &[
            "machine-config is on its way\n",
            &format!("operator-image from {} to {}", pull('0'), pull('b')),
        ],
    );
    // Reported under the name of a mirror, it would never complete.
    let mirrored = pull('b').replace("quay.io", "mirror.example");
    fixture
        .operator("machine-config", Some(&mirrored), true)
        .await?;
    let text = fixture
        .run(&["explain", "machine-config", "--release", &folder])
        .await?
        .ok()?;
    has(
        &text,
        &["the same image under another name", "medley release mirror"],
    );
    let refused = fixture
        .run(&["explain", "nobody", "--release", &folder])
        .await?
        .refused()?;
    has(
        &refused,
        &["there is no ClusterOperator nobody; there are: dns, machine-config"],
    );

    // The ClusterVersion reports completion, but a pod of an operator that reports no image runs an old one.
    fixture
        .operator("machine-config", Some(&pull('b')), false)
        .await?;
    fixture.version(&multi, Some(&single), false).await?;
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": "openshift-dns" } }))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let pods: Api<Pod> = Api::namespaced(fixture.client.clone(), "openshift-dns");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "dns-old" },
        "spec": { "containers": [{ "name": "dns", "image": pull('0') }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status("dns-old", &PatchParams::default(), &Patch::Merge(ready))
        .await?;
    let text = fixture.run(&status).await?.ok()?;
    has(
        &text,
        &[
            "Assessment:      Completed early\n",
            "ClusterVersion claims completion, but these operators have not arrived: dns",
        ],
    );
    let text = fixture
        .run(&["explain", "dns", "--release", &folder, "-o", "yaml"])
        .await?
        .ok()?;
    has(&text, &["its pods have not", "dns-old"]);
    pods.delete(
        "dns-old",
        &kube::api::DeleteParams::default().grace_period(0),
    )
    .await?;
    let text = fixture.run(&status).await?.ok()?;
    assert_eq!(text, "The cluster is not updating.\n");
    fixture.run(&gate).await?.ok()?;
    Ok(())
}

/// With the payload in a ConfigMap and durations in the ReleasePolicy, no flags are needed.
#[tokio::test(flavor = "multi_thread")]
async fn payload_in_a_config_map_is_found() -> anyhow::Result<()> {
    let fixture = OpenShiftFixture::start().await?;
    let workshop = ReleaseSources::new(false)?;
    let folder = release(&workshop, 'a', 'b', "release").await?;
    let single = format!("quay.io/ocp/release@{}", digest('1'));
    let multi = format!("quay.io/ocp/release@{}", digest('2'));
    fixture.version(&multi, Some(&single), true).await?;
    fixture.operator("dns", None, false).await?;
    fixture
        .operator("machine-config", Some(&pull('0')), true)
        .await?;
    let all = "Completion:      100% (2 operators updated, 0 updating, 0 waiting)";
    has(&fixture.run(&["status"]).await?.ok()?, &[all]);

    fixture.keep(&folder, &multi).await?;
    let text = fixture.run(&["status"]).await?.ok()?;
    has(
        &text,
        &[
            "Updating:        machine-config\n",
            "Completion:      50% (1 operators updated, 1 updating, 0 waiting)\n",
            "Est. Time Remaining: N/A",
        ],
    );
    let text = fixture.run(&["explain", "machine-config"]).await?.ok()?;
    has(
        &text,
        &[&format!(
            "operator-image from {} to {}",
            pull('0'),
            pull('b')
        )],
    );

    // It took two hours the last time, and is late: a fifth of that remains.
    fixture.remember("machine-config", 7200).await?;
    let text = fixture.run(&["status"]).await?.ok()?;
    has(&text, &["Est. Time Remaining: 24m"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_is_refused_in_unsafe_states() -> anyhow::Result<()> {
    let fixture = OpenShiftFixture::start().await?;
    let refused = fixture.run(&["status"]).await?.refused()?;
    has(&refused, &["there is no ClusterVersion version"]);
    let image = format!("quay.io/ocp/release@{}", digest('1'));
    fixture.version(&image, None, true).await?;
    let line = ["migrate", "--to-multi-arch"];
    for other in [
        "--to=4.19.0",
        "--to-image=quay.io/ocp/release:4.19.0",
        "--to-latest",
    ] {
        let refused = fixture.run(&[line[0], line[1], other]).await?.refused()?;
        assert_eq!(
            refused,
            "error: --to-multi-arch may not be used with --to, --to-image, or --to-latest\n"
        );
    }
    let refused = fixture.run(&line).await?.refused()?;
    has(
        &refused,
        &[
            "the cluster is already upgrading: Working towards 4.18.0: waiting on machine-config",
            "If you want to upgrade anyway, use --allow-upgrade-with-warnings.",
        ],
    );
    let version = fixture.api("ClusterVersion").get("version").await?;
    assert_eq!(version.data["spec"]["desiredUpdate"], Value::Null);
    let mut anyway = line.to_vec();
    anyway.extend(["--allow-upgrade-with-warnings", "--force", "-o", "json"]);
    let found = fixture.run(&anyway).await?.json()?;
    assert_eq!(found["requested"], true);
    let version = fixture.api("ClusterVersion").get("version").await?;
    assert_eq!(version.data["spec"]["desiredUpdate"]["force"], true);
    Ok(())
}
