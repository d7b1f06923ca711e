//! What commands share with kubectl: connection flags, templates of `-o`, versions, completion of names.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use api::published::{LEASE, PublishedOperator};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use machinery::jsonpath::{CustomColumns, align};
use serde_json::{Value, json};
use testkit::{CommandOutput, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

async fn run_as(name: &str, kubeconfig: &Path, line: &[&str]) -> anyhow::Result<CommandOutput> {
    let output = tokio::process::Command::new(MEDLEY)
        .arg0(name)
        .args(line)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output();
    Ok(CommandOutput::of(
        &tokio::time::timeout(WAIT_TIMEOUT, output).await??,
    ))
}

async fn medley(kubeconfig: &Path, line: &[&str]) -> anyhow::Result<CommandOutput> {
    run_as("medley", kubeconfig, line).await
}

async fn view(served: &ServedCluster, path: &str) -> anyhow::Result<String> {
    let format = format!("jsonpath={{{path}}}");
    served
        .kubectl("default", &["config", "view", "--raw", "-o", &format])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_flags_have_the_meaning_of_kubectl() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let run = async |flags: &[&str]| {
        let line = [&["images"], flags].concat();
        medley(&served.kubeconfig, &line).await
    };
    has(&run(&[]).await?.refused()?, &["are not installed"]);
    // The API server names the user that it saw.
    let result = run(&["--as", "alice", "--as-uid", "7"]).await?.refused()?;
    has(&result, &["is forbidden: User \"alice\" cannot list"]);
    let result = run(&[
        "--as=alice",
        "--as-group=dev",
        "--as-group",
        "system:masters",
    ])
    .await?;
    has(&result.refused()?, &["are not installed"]);
    let result = run(&["--as-group", "dev"]).await?.refused()?;
    has(&result, &["--as"]);
    for (flags, expected) in [
        (["--cluster", "none"], "cluster \"none\" does not exist"),
        (["--user", "none"], "user \"none\" does not exist"),
        (["--context", "none"], "context \"none\" does not exist"),
        (["--request-timeout", "soon"], "an integer in seconds"),
        (["--tls-server-name", "other.example"], "certificate"),
        (["--certificate-authority", "/nonexistent"], "/nonexistent"),
    ] {
        has(&run(&flags).await?.refused()?, &[expected]);
    }
    let cluster_name = view(&served, ".clusters[0].name").await?;
    let user_name = view(&served, ".users[0].name").await?;
    let names = ["--cluster", &cluster_name, "--user", &user_name];
    has(&run(&names).await?.refused()?, &["are not installed"]);
    let conflict = ["--insecure-skip-tls-verify", "--certificate-authority", "x"];
    has(&run(&conflict).await?.refused()?, &["cannot be used with"]);

    // Without a kubeconfig: server, authority and token. The token is none of this server.
    let nowhere = served.folder().join("no-such-kubeconfig");
    let flags = ["images", "--server", &served.url, "--token", "secret"];
    let result = medley(&nowhere, &flags).await?.refused()?;
    has(&result, &["certificate"]);
    let insecure = [&flags[..], &["--insecure-skip-tls-verify"]].concat();
    let result = medley(&nowhere, &insecure).await?.refused()?;
    has(&result, &["Unauthorized"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn request_timeout_ends_a_request_without_response() -> anyhow::Result<()> {
    // Accepts connections and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let server = format!("http://{}", listener.local_addr()?);
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let line = ["images", "--server", &server, "--request-timeout", "1s"];
    let result = medley(Path::new("/nonexistent"), &line).await?.refused()?;
    has(&result, &["no response within 1s (--request-timeout)"]);
    accepting.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_columns_agree_with_kubectl() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    for (name, data) in [("a", "x=1"), ("longer-name", "x=2")] {
        let line = ["create", "configmap", name, "--from-literal", data];
        served.kubectl("default", &line).await?;
    }
    let line = ["get", "configmaps", "-o", "json"];
    let list: Value = serde_json::from_str(&served.kubectl("default", &line).await?)?;
    for columns in [
        "NAME:.metadata.name",
        "N:.data.x,NAME:.metadata.name",
        "NAME:metadata.name,X:{.data.x},Y:{data.y}",
        "A:.data,B:.metadata.labels,NS:.metadata.namespace",
        "ALL:.data.*,K:.kind",
    ] {
        let format = format!("custom-columns={columns}");
        let expected = served
            .kubectl("default", &["get", "configmaps", "-o", &format])
            .await?;
        let parsed = CustomColumns::parse(columns)?;
        let mut rows = vec![parsed.headers()];
        for item in list["items"].as_array().into_iter().flatten() {
            rows.push(parsed.row(item)?);
        }
        assert_eq!(align(&rows), expected, "{columns}");
    }
    for wrong in ["", "NAME", "NAME:{.a", "NAME:{}"] {
        let format = format!("custom-columns={wrong}");
        let line = ["get", "configmaps", "-o", &format];
        assert!(CustomColumns::parse(wrong).is_err(), "{wrong}");
        assert!(served.kubectl("default", &line).await.is_err(), "{wrong}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn version_shows_the_server_side() -> anyhow::Result<()> {
    let nowhere = Path::new("/nonexistent");
    let text = medley(nowhere, &["version", "--client"]).await?.ok()?;
    has(&text, &["Client Version: v"]);
    // As by kubectl: the version of the client is printed, and the exit code is 1.
    let result = medley(nowhere, &["version"]).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    has(&result.out, &["Client Version: v"]);
    has(&result.err, &["error: reading the versions in the cluster"]);

    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let result = medley(&served.kubeconfig, &["version"]).await?;
    has(&result.err, &["warning: no operator of Medley was found"]);
    has(&result.ok()?, &["Server Version: v1."]);

    let client = cluster.client();
    controllers::install(&client, "elsewhere").await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if namespaces.get_opt("elsewhere").await?.is_none() {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": "elsewhere" } }))?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
    }
    let operator = PublishedOperator {
        namespace: "elsewhere".to_owned(),
        version: "v99.0.0".to_owned(),
        controllers: vec!["governance".to_owned(), "release".to_owned()],
        renewed: None,
    };
    let leases: Api<Lease> = Api::namespaced(client, "elsewhere");
    let params = PatchParams::apply("test").force();
    let lease = Patch::Apply(operator.lease(Timestamp::now()));
    leases.patch(LEASE, &params, &lease).await?;
    let result = medley(&served.kubeconfig, &["version"]).await?;
    has(
        &result.err,
        &["(v99.0.0) differ by more than the supported skew"],
    );
    has(
        &result.ok()?,
        &[
            "Operator Version: v99.0.0",
            "Operator Namespace: elsewhere",
            "Operator Controllers: governance, release",
            "Operator State: Running",
            "CRD Versions: ",
            "virtplatformconfigs.advisor.kubevirt.io/v1alpha1",
        ],
    );
    let line = ["version", "-o", "json"];
    let versions = medley(&served.kubeconfig, &line).await?.json()?;
    assert_eq!(versions["operator"]["version"], "v99.0.0");
    assert_eq!(versions["operator"]["state"], "Running");
    assert_eq!(versions["warnings"].as_array().map(Vec::len), Some(1));
    let line = ["version", "-o", "jsonpath={.operator.namespace}"];
    assert_eq!(medley(&served.kubeconfig, &line).await?.ok()?, "elsewhere");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_objects_are_completed() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let complete =
        async |line: &[&str]| run_as("kubectl_complete-medley", &served.kubeconfig, line).await;
    let text = complete(&["images", "-n", "kube-s"]).await?.ok()?;
    assert_eq!(text, "kube-system\n:4\n");
    let name = view(&served, ".contexts[0].name").await?;
    let text = complete(&["status", "--context", ""]).await?.ok()?;
    assert_eq!(text, format!("{name}\n:4\n"));
    // A kind that is not installed, a cluster that is not there, and flags that are wrong: no candidates, no error.
    for line in [
        &["approve", ""][..],
        &["images", "--server", "http://127.0.0.1:1", "-n", ""],
        &["images", "--request-timeout", "soon", "-n", ""],
        &["images", "--kubeconfig", "/nonexistent", "-n", ""],
    ] {
        let result = complete(line).await?;
        assert_eq!(result.err, "", "{line:?}");
        assert_eq!(result.ok()?, ":4\n", "{line:?}");
    }
    Ok(())
}
