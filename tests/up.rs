//! `medley up` as a new user runs it: the tour of the README, with the real kubectl.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use binary::{Server, medley, text, until};
use serde_json::Value;

/// Simulation speed for a test; everything else has its default.
const FAST: [&str; 2] = ["--speed", "100"];

fn up(folder: &Path, arguments: &[&str]) -> Server {
    let data = folder.join("data");
    let mut all = vec!["--data", data.to_str().unwrap()];
    all.extend(FAST);
    all.extend(arguments);
    Server::up(folder, &all)
}

/// Objects listed by kubectl.
fn list(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["get", "-o", "json"];
    all.extend(arguments);
    let mut list: Value = serde_json::from_str(&server.ask(&all)).unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

fn rolled_out(server: &Server, what: &str) {
    let printed = server.ask(&["rollout", "status", what, "--timeout=120s"]);
    assert!(
        printed.contains("successfully rolled out")
            || printed.contains("roll out complete")
            || printed.contains("rolling update complete"),
        "{printed}"
    );
}

/// Applies the examples that the README shows.
fn apply_examples(server: &Server) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/examples");
    for file in ["agent.yaml", "database.yaml"] {
        server.ask(&["apply", "-f", &format!("{folder}/{file}")]);
    }
}

#[test]
fn readme_tour_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = up(folder.path(), &[]);

    let nodes = list(&cluster, &["nodes"]);
    let platforms: BTreeSet<String> = nodes
        .iter()
        .map(|node| {
            let info = &node["status"]["nodeInfo"];
            let text = |name: &str| info[name].as_str().unwrap().to_owned();
            format!("{}/{}", text("operatingSystem"), text("architecture"))
        })
        .collect();
    let expected = ["linux/amd64", "linux/arm64", "linux/s390x", "windows/amd64"];
    assert_eq!(platforms, expected.map(str::to_owned).into());
    cluster.ask(&[
        "wait",
        "nodes",
        "--all",
        "--for=condition=Ready",
        "--timeout=60s",
    ]);

    // A Deployment rolls out, scales and rolls back.
    cluster.ask(&[
        "create",
        "deployment",
        "web",
        "--image=example.com/web:1",
        "--replicas=5",
    ]);
    rolled_out(&cluster, "deployment/web");
    cluster.ask(&["set", "image", "deployment/web", "web=example.com/web:2"]);
    rolled_out(&cluster, "deployment/web");
    cluster.ask(&["scale", "deployment/web", "--replicas=8"]);
    rolled_out(&cluster, "deployment/web");
    cluster.ask(&["rollout", "undo", "deployment/web"]);
    rolled_out(&cluster, "deployment/web");
    until("only pods of the old image are left", || {
        let pods = list(&cluster, &["pods", "-l", "app=web"]);
        let old = pods
            .iter()
            .filter(|pod| pod["spec"]["containers"][0]["image"] == "example.com/web:1")
            .count();
        (old == 8 && pods.len() == 8).then_some(())
    });
    let history = cluster.ask(&["rollout", "history", "deployment/web"]);
    assert!(
        history.contains('3') && !history.contains("\n1 "),
        "{history}"
    );

    // A DaemonSet runs on every node, a StatefulSet has stable names and volumes.
    apply_examples(&cluster);
    rolled_out(&cluster, "daemonset/agent");
    rolled_out(&cluster, "statefulset/database");
    let daemons: BTreeSet<String> = list(&cluster, &["pods", "-l", "app=agent"])
        .iter()
        .map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(daemons.len(), nodes.len());
    let names: Vec<String> = list(&cluster, &["pods", "-l", "app=database"])
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["database-0", "database-1", "database-2"]);
    let claims = list(&cluster, &["pvc"]);
    assert!(
        claims.len() == 3
            && claims
                .iter()
                .all(|claim| claim["status"]["phase"] == "Bound"),
        "{claims:?}"
    );
    until("the service has its endpoints", || {
        let slices = list(
            &cluster,
            &[
                "endpointslices",
                "-l",
                "kubernetes.io/service-name=database",
            ],
        );
        let ready = slices
            .iter()
            .filter_map(|slice| slice["endpoints"].as_array())
            .flatten()
            .filter(|endpoint| endpoint["conditions"]["ready"] == true)
            .count();
        (ready == 3).then_some(())
    });

    // A drained node only runs DaemonSet pods, and the other pods are rescheduled.
    let busy = list(&cluster, &["pods", "-l", "app=web"])[0]["spec"]["nodeName"]
        .as_str()
        .unwrap()
        .to_owned();
    cluster.ask(&[
        "drain",
        &busy,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--timeout=60s",
    ]);
    rolled_out(&cluster, "deployment/web");
    let field = format!("--field-selector=spec.nodeName={busy}");
    assert!(list(&cluster, &["pods", "-l", "app=web", &field]).is_empty());
    cluster.ask(&["uncordon", &busy]);

    // Deleting a namespace deletes everything in it.
    cluster.ask(&["create", "namespace", "short-lived"]);
    cluster.ask(&[
        "-n",
        "short-lived",
        "create",
        "deployment",
        "web",
        "--image=x",
        "--replicas=2",
    ]);
    cluster.ask(&[
        "-n",
        "short-lived",
        "rollout",
        "status",
        "deployment/web",
        "--timeout=60s",
    ]);
    cluster.ask(&["delete", "namespace", "short-lived", "--timeout=60s"]);
    assert!(list(&cluster, &["pods", "-n", "short-lived"]).is_empty());

    // It resumes where it stopped.
    let before = uids(&cluster);
    assert_eq!(cluster.stop("-INT").code(), Some(0));
    let mut cluster = up(folder.path(), &[]);
    rolled_out(&cluster, "deployment/web");
    rolled_out(&cluster, "statefulset/database");
    assert_eq!(uids(&cluster), before, "nothing is made anew");
    assert_eq!(cluster.stop("-TERM").code(), Some(0));
}

/// Nodes and pods by name, with their uids.
fn uids(cluster: &Server) -> BTreeMap<String, String> {
    list(cluster, &["nodes,pods"])
        .iter()
        .map(|object| {
            let text = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
            (text("name"), text("uid"))
        })
        .collect()
}

#[test]
fn rolling_update_survives_ten_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = up(folder.path(), &[]);
    cluster.ask(&[
        "create",
        "deployment",
        "web",
        "--image=example.com/web:0",
        "--replicas=12",
    ]);
    apply_examples(&cluster);
    rolled_out(&cluster, "deployment/web");
    rolled_out(&cluster, "statefulset/database");
    let nodes = list(&cluster, &["nodes"]).len();
    let claims: BTreeSet<String> = list(&cluster, &["pvc"])
        .iter()
        .map(|claim| claim["spec"]["volumeName"].as_str().unwrap().to_owned())
        .collect();

    for round in 1..=10u64 {
        let image = format!("web=example.com/web:{round}");
        cluster.ask(&["set", "image", "deployment/web", &image]);
        cluster.ask(&[
            "set",
            "image",
            "daemonset/agent",
            &format!("agent=example.com/agent:{round}"),
        ]);
        cluster.ask(&[
            "set",
            "image",
            "statefulset/database",
            &format!("database=example.com/database:{round}"),
        ]);
        // Each kill hits another moment of the update.
        std::thread::sleep(Duration::from_millis(37 * round));
        cluster.stop("-KILL");
        cluster = up(folder.path(), &[]);
    }

    for what in ["deployment/web", "daemonset/agent", "statefulset/database"] {
        rolled_out(&cluster, what);
    }
    until("what was replaced is gone, what is wanted is there", || {
        let pods = list(&cluster, &["pods"]);
        let of = |app: &str, image: &str| {
            pods.iter()
                .filter(|pod| pod["metadata"]["labels"]["app"] == app)
                .filter(|pod| pod["spec"]["containers"][0]["image"] == image)
                .filter(|pod| pod["status"]["phase"] == "Running")
                .count()
        };
        let found = (
            of("web", "example.com/web:10"),
            of("agent", "example.com/agent:10"),
            of("database", "example.com/database:10"),
        );
        (found == (12, nodes, 3) && pods.len() == 12 + nodes + 3).then_some(())
    });
    assert_eq!(list(&cluster, &["nodes"]).len(), nodes);
    let after: BTreeSet<String> = list(&cluster, &["pvc"])
        .iter()
        .map(|claim| claim["spec"]["volumeName"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(after, claims, "volumes stay with their claims");
    assert_eq!(list(&cluster, &["pv"]).len(), claims.len());
    let revisions = list(&cluster, &["replicasets"]);
    let wanted: Vec<i64> = revisions
        .iter()
        .filter_map(|set| set["spec"]["replicas"].as_i64())
        .filter(|replicas| *replicas > 0)
        .collect();
    assert_eq!(wanted, [12], "one ReplicaSet has the pods");
    let numbers: BTreeSet<&str> = revisions
        .iter()
        .filter_map(|set| {
            set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str()
        })
        .collect();
    assert_eq!(numbers.len(), revisions.len(), "no revision is there twice");
    assert_eq!(cluster.stop("-TERM").code(), Some(0));
}

#[test]
fn copy_of_a_cluster_is_equal_and_independent() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = up(folder.path(), &[]);
    cluster.ask(&[
        "create",
        "deployment",
        "web",
        "--image=example.com/web:1",
        "--replicas=3",
    ]);
    rolled_out(&cluster, "deployment/web");
    cluster.ask(&[
        "create",
        "secret",
        "generic",
        "login",
        "--from-literal=password=hunter2",
    ]);

    let file = folder.path().join("snapshot.gz");
    let file = file.to_str().unwrap();
    let kubeconfig = cluster.kubeconfig.to_str().unwrap();
    let taken = medley(&["snapshot", "-o", file, "--kubeconfig", kubeconfig]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert!(text(&taken.stdout).contains("medley up --from"));

    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let copy = Server::up(&elsewhere, &["--from", file, FAST[0], FAST[1]]);
    let owned = |server: &Server| -> BTreeMap<String, String> {
        list(server, &["nodes,pods,replicasets,deployments"])
            .iter()
            .map(|object| {
                let text = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
                (format!("{}/{}", object["kind"], text("name")), text("uid"))
            })
            .collect()
    };
    assert_eq!(owned(&copy), owned(&cluster));
    let secret = copy.ask(&["get", "secret", "login", "-o", "json"]);
    assert!(!secret.contains("password"), "{secret}");

    // Changes to the copy stay there.
    copy.ask(&["scale", "deployment/web", "--replicas=6"]);
    rolled_out(&copy, "deployment/web");
    assert_eq!(list(&cluster, &["pods"]).len(), 3);

    // Nodes are added and removed while it runs.
    let kubeconfig = copy.kubeconfig.to_str().unwrap().to_owned();
    let fleet = |arguments: &[&str]| {
        let mut all = vec!["fleet"];
        all.extend(arguments);
        all.extend(["--kubeconfig", &kubeconfig]);
        let output = medley(&all);
        let printed = text(&output.stdout) + &text(&output.stderr);
        (output.status.success(), printed)
    };
    let before = list(&copy, &["nodes"]).len();
    assert_eq!(
        fleet(&["add", "big", "--arch", "arm64", "--count", "2"]),
        (true, "node/big-1 added\nnode/big-2 added\n".to_owned())
    );
    assert!(fleet(&["add", "twin", "--like", "win2022-1"]).0);
    copy.ask(&[
        "wait",
        "nodes",
        "--all",
        "--for=condition=Ready",
        "--timeout=60s",
    ]);
    assert!(fleet(&["fail", "big-1"]).0);
    assert!(fleet(&["cordon", "twin"]).0);
    let (_, table) = fleet(&["list"]);
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("big-1").contains("Failed"), "{table}");
    assert!(line("twin").contains("SchedulingDisabled"), "{table}");
    assert!(line("twin").contains("10.0.20348"), "{table}");
    assert!(fleet(&["remove", "big-1", "big-2", "twin"]).0);
    assert_eq!(list(&copy, &["nodes"]).len(), before);
    assert_eq!(
        fleet(&["cordon", "nobody"]),
        (
            false,
            "error: patch node nobody: nodes \"nobody\" not found\n".to_owned()
        )
    );

    // A folder with a cluster is rejected for a copy.
    let data = folder.path().join("data");
    let refused = medley(&["up", "--from", file, "--data", data.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("already holds a cluster"));
}

#[test]
fn demo_boot_images_are_published_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = up(folder.path(), &[]);
    let registry = |cluster: &Server| {
        let map = [
            "get",
            "cm",
            "medley-registry",
            "-n",
            "kube-system",
            "-o",
            "json",
        ];
        let map: Value = serde_json::from_str(&cluster.ask(&map)).unwrap();
        let annotations = &map["metadata"]["annotations"];
        let address = annotations["fleet.medley.dev/registry"].as_str();
        address.unwrap().to_owned()
    };
    let address = registry(&cluster);
    let digest = |tag: &str| {
        let image = format!("docker://{address}/containerdisks/fedora:{tag}");
        let arguments = ["inspect", "--tls-verify=false", "--raw", &image];
        let output = std::process::Command::new("skopeo")
            .args(arguments)
            .output()
            .unwrap();
        output.status.success().then(|| text(&output.stdout))
    };
    let before = digest("latest").unwrap();
    let kubeconfig = cluster.kubeconfig.to_str().unwrap().to_owned();
    let publish = |image: &str| {
        let kubeconfig = ["--kubeconfig", &kubeconfig];
        let mut all = vec!["fleet", "publish", image, "--arch", "arm64"];
        all.extend(kubeconfig);
        medley(&all)
    };
    let output = publish("fedora");
    assert_eq!(
        text(&output.stdout),
        "image/fedora published as revision 2: amd64=1 arm64=2 s390x=1\n"
    );
    let refused = publish("debian");
    assert_eq!(refused.status.code(), Some(1));
    let printed = text(&refused.stderr);
    assert!(printed.contains("not made for arm64: amd64"), "{printed}");
    let after = until("the new revision is served", || {
        digest("latest").filter(|it| *it != before)
    });
    assert_eq!(digest("latest-1"), Some(before.clone()));

    assert_eq!(cluster.stop("-TERM").code(), Some(0));
    assert_eq!(digest("latest"), None);
    let cluster = up(folder.path(), &[]);
    assert_eq!(registry(&cluster), address);
    assert_eq!(digest("latest"), Some(after));
    assert_eq!(digest("latest-1"), Some(before));
}

#[test]
fn boot_images_are_imported_for_every_architecture() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = up(folder.path(), &[]);
    let images = ["-n", "kubevirt-os-images"];
    let names = |kind: &str| -> BTreeSet<String> {
        let objects = list(&cluster, &[kind, images[0], images[1]]);
        let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
        objects.iter().map(name).collect()
    };
    until("there is one import of each image", || {
        let crons = names("dataimportcrons");
        (crons.contains("fedora-image-cron") && crons.contains("debian-image-cron")).then_some(())
    });
    // The welcome message shows how to list them.
    let welcome = cluster.process.output();
    assert!(
        welcome.lines().any(|it| it == "  medley images"),
        "{welcome}"
    );
    until("they are listed", || {
        let kubeconfig = cluster.kubeconfig.to_str().unwrap();
        let listed = text(&medley(&["images", "--kubeconfig", kubeconfig]).stdout);
        (listed.contains("\nfedora ") && listed.contains("\ndebian ")).then_some(())
    });
    cluster.ask(&[
        "patch",
        "hyperconverged",
        "kubevirt-hyperconverged",
        "-n",
        "openshift-cnv",
        "--type=merge",
        "-p",
        r#"{"spec":{"workloadSources":{"enableMultiArchBootImageImport":true}}}"#,
    ]);
    until("there is one for every architecture", || {
        let crons = names("dataimportcrons");
        let all = ["amd64", "arm64", "s390x"];
        all.iter()
            .all(|it| crons.contains(&format!("fedora-image-cron-{it}")))
            .then_some(())
    });
    // The image without an architecture annotation is unchanged.
    assert!(names("dataimportcrons").contains("debian-image-cron"));
    let templates = until("templates of machines name the image of theirs", || {
        let all = list(&cluster, &["templates", "-n", "openshift"]);
        let all: BTreeMap<String, Value> = all
            .into_iter()
            .map(|it| (it["metadata"]["name"].as_str().unwrap().to_owned(), it))
            .collect();
        all.contains_key("fedora-server-small-s390x").then_some(all)
    });
    let arm64 = &templates["fedora-server-small-arm64"];
    let parameters = arm64["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|it| it["value"] == "fedora-arm64"));
    let seen = list(&cluster, &["hyperconvergeds", "-n", "openshift-cnv"]);
    let nodes = &seen[0]["status"]["nodeInfo"];
    assert_eq!(nodes["workloadsArchitectures"][2], "s390x");
}

#[test]
fn imported_disks_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = up(folder.path(), &[]);
    let map = ["get", "cm", "medley-registry", "-n", "kube-system"];
    let address = "-o=jsonpath={.metadata.annotations.fleet\\.medley\\.dev/registry}";
    let address = cluster.ask(&[&map[..], &[address]].concat());
    let cron = serde_json::json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": { "name": "own-image-cron-arm64" },
        "spec": {
            "schedule": "0 */12 * * *", "managedDataSource": "own-arm64", "retentionPolicy": "None",
            "template": { "spec": {
                "source": { "registry": {
                    "url": format!("docker://{address}/containerdisks/fedora:latest"),
                    "platform": { "architecture": "arm64" },
                } },
                "storage": { "resources": { "requests": { "storage": "1Gi" } } },
            } },
        },
    });
    let file = folder.path().join("cron.json");
    std::fs::write(&file, cron.to_string()).unwrap();
    cluster.ask(&["apply", "-f", file.to_str().unwrap()]);
    let ready = |cluster: &Server| {
        let sources = list(cluster, &["datasources", "-n", "default"]);
        let conditions = sources.first()?["status"]["conditions"].clone();
        let mut conditions = conditions.as_array()?.iter();
        let ready = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
        let name = sources.first()?["status"]["source"]["snapshot"]["name"].clone();
        ready.then(|| name.as_str().map(str::to_owned))?
    };
    let name = until("the image is imported", || ready(&cluster));
    let disk = folder.path().join("data/disks/default").join(&name);
    let disk = disk.join("disk.img");
    let before = std::fs::read(&disk).unwrap();
    // The disk is not empty.
    assert!(before.iter().any(|byte| *byte != 0));

    cluster.stop("-KILL");
    let cluster = up(folder.path(), &[]);
    assert_eq!(until("it is still there", || ready(&cluster)), name);
    assert_eq!(std::fs::read(&disk).unwrap(), before);
    // The disk is removed with its last reference.
    cluster.ask(&["delete", "dataimportcron", "own-image-cron-arm64"]);
    until("the disk is gone", || (!disk.exists()).then_some(()));
}
